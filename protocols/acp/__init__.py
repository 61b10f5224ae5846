"""ACP, the Agent Connect Protocol of AGNTCY (0.2): agents that are searched, described and run.

https://github.com/agntcy/acp-spec
"""
