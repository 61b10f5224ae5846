from collections.abc import Sequence
from typing import Any

from core.errors import DomainError


class NameTakenError(DomainError):
    """Two tools of one agent would have the same name. `proposal` is a free name for the user to confirm."""

    def __init__(self, code: str, message: str, proposal: str) -> None:
        super().__init__(code, message, fields={"alias": message}, status=409)
        self.proposal = proposal


class ChecksFailedError(DomainError):
    """Publishing requires that the failed checks are fixed, or accepted by their codes with a reason.

    checks: all checks, as `designer.releases.checks.Check` in a higher layer.
    """

    def __init__(self, message: str, checks: Sequence[Any]) -> None:
        super().__init__("checks_failed", message, status=409)
        self.checks = list(checks)

    @property
    def failed_codes(self) -> list[str]:
        """The codes that a user has to accept."""
        return sorted({check.code for check in self.checks if check.severity == "error"})
