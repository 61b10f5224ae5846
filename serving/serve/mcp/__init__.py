"""Releases for the server of MCP."""
