"""MCP, the Model Context Protocol, over streamable HTTP: revisions 2024-11-05 to 2026-07-28.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""
