"""Enumeration runs: `runs` claims a run, `listing` reads the pages, `store` records them in one transaction.

`lease` and `heartbeat` protect a claim, `known_pages` skips unchanged pages, `kept_replies` continues an
interrupted list, `older_versions` reads the history of tools, `schedule` starts due runs, and `one_tool`
reads a single tool.
"""
