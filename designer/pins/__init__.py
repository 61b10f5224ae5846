"""Pins, tunings, effective signatures of pins, and their costs in tokens."""
