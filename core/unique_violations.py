"""Detect that the database refused a row because another one has the same unique value."""

from django.db import IntegrityError
from psycopg.errors import UniqueViolation


def is_taken(error: IntegrityError) -> bool:
    """Return whether such a row already exists."""
    # A violation of another constraint is a bug.
    return isinstance(error.__cause__, UniqueViolation)
