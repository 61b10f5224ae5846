"""A limit for the work that a schema causes. Work is counted and not timed, so every result is repeatable."""


class TooMuchWorkError(Exception):
    """The limit of work is reached."""


class Work:
    """The work of one task, counted where it is done.

    One unit takes about 20 microseconds: a part of a schema, a step of a pattern, 100 characters of a text.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.done = 0

    def count(self, units: int = 1) -> None:
        """Add units to the work that is done. Raises TooMuchWorkError above the limit."""
        self.done += units
        if self.done > self.limit:
            raise TooMuchWorkError(f"More than {self.limit:,} units of work.")
