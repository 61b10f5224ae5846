"""Upgrades of pins and bindings, and the work that waits for designers."""
