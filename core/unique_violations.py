"""Two who want the same name at once: the database says so to the second."""

from django.db import IntegrityError
from psycopg.errors import UniqueViolation


def is_taken(error: IntegrityError) -> bool:
    """Whether it is there already. Any other breach of what the schema promises is an error of ours."""
    return isinstance(error.__cause__, UniqueViolation)
