"""REST of calls, activities, configurations and the secrets of endpoints."""
