"""The server of MCP, without Django: what clients declare and send, and what they are answered and asked."""
