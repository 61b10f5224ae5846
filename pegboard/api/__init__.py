"""Shared parts of REST: errors, pagination, parsing, and the schema of the API."""
