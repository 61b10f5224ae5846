"""Template tags for signatures, differences, calls, and text that vendors wrote."""
