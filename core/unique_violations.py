"""Two users want the same name at once: the database refuses the second."""

from django.db import IntegrityError
from psycopg.errors import UniqueViolation


def is_taken(error: IntegrityError) -> bool:
    """Whether the row is there already."""
    # Any other violated constraint is an error of ours.
    return isinstance(error.__cause__, UniqueViolation)
