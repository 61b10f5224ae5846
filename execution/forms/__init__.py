"""Forms of activities."""
