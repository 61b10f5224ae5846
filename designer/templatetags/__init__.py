"""Template tags for the readiness of tools."""
