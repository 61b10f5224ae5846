"""Runs one tool: for one caller, with the right secrets, at most once."""
