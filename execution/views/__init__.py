"""Pages of activities and of the secrets of endpoints."""
