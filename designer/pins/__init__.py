"""Pins, tunings, effective signatures of pins, and what they cost in tokens."""
