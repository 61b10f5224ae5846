"""The server of MCP, without Django: requests of clients, replies to them, and questions to their users."""
