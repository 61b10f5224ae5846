"""Template tags that state which role may use a button."""
