"""Agents as files, and copies of agents."""
