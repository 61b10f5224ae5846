"""A complete small protocol, client and server, to copy from. docs/protocols.md explains how to add one."""
