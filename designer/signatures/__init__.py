"""Effective signatures: a version with its tunings, as a model sees it. Pure."""
