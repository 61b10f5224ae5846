"""The operator run: every command of docs/install.md, executed on Debian machines of its own."""
