"""Notifications about agents and tools that users follow."""
