"""Releases: `publishing` writes one, `checks` decides whether it may, `channels` points to it, `signing`
signs it.

`composition` collects the tree of agents, `diff` compares releases, `lock_file` and `receipts` record
their use, `retiring` ends it, and `freshness` decides which newer signature a runtime may see.
"""
