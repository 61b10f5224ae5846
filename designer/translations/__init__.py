"""Translate texts of tools with an evaluation model, in the background, until a person confirms them."""
