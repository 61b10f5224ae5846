"""Tools and their versions as lists and pages show them, comparisons, and tools that are defined here."""
