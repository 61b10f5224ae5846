"""Vendor threads, and configurations of tools."""
