"""The base of all kinds of credential.

A new kind is one module here with a subclass of `Kind`, and its name in `kinds.ALL`. The form, REST, the
status, the audit trail and the session with the vendor read the rest from the class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core.errors import invalid
from core.outbound.request import OutgoingRequest
from core.outbound.sockets import ClientCertificate

TOO_LONG = gettext_lazy("Enter up to 200 characters on one line.")


@dataclass(frozen=True, slots=True)
class Detail:
    """A fact of a credential that is no secret: a form field, a REST member and a key of the column.

    pattern: the whole value matches it. problem: the message about a value that is not accepted.
    is_long: has several lines; pages and the audit trail show its digest.
    minimum, maximum: of a whole number; a detail without them is a text.
    """

    name: str
    label: str | Promise
    help: str | Promise = ""
    initial: str | int = ""
    max_length: int = 200
    is_required: bool = False
    is_long: bool = False
    pattern: str = ""
    problem: str | Promise = TOO_LONG
    minimum: int | None = None
    maximum: int | None = None

    @property
    def is_number(self) -> bool:
        return self.maximum is not None

    def accepts(self, value: Any) -> bool:
        """Return whether the value may be stored. An optional detail may be empty."""
        if value in (None, ""):
            return not self.is_required
        if self.is_number:
            return isinstance(value, int) and (self.minimum or 0) <= value <= (self.maximum or value)
        if len(value) > self.max_length or not (self.is_long or value.isprintable()):
            return False
        return not self.pattern or re.fullmatch(self.pattern, value) is not None


class Kind:
    """A kind of credential that consists of one secret and some details.

    An instance belongs to one conversation with a vendor, so it may cache computed values.
    secret_help: the help text of the secret on pages. needs_https: refuse other addresses.
    sends_secret: the secret itself is part of requests, so a short one may occur in a reply by chance.
    """

    name: ClassVar[str]
    label: ClassVar[str | Promise]
    details: ClassVar[tuple[Detail, ...]] = ()
    secret_help: ClassVar[str | Promise] = ""
    needs_https: ClassVar[bool] = False
    sends_secret: ClassVar[bool] = True

    def __init__(self, details: Mapping[str, Any], secret: str) -> None:
        self.values = details
        self.secret = secret

    @classmethod
    def check(cls, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return the details to store. Raises DomainError "invalid" with a message for each field."""
        wrong = {
            detail.name: str(detail.problem)
            for detail in cls.details
            if not detail.accepts(details.get(detail.name))
        }
        if wrong:
            raise invalid(**wrong)
        return {
            detail.name: details[detail.name]
            for detail in cls.details
            if details.get(detail.name) not in (None, "")
        }

    @classmethod
    def check_secret(cls, secret: str, details: Mapping[str, Any]) -> str:
        """Return the secret to store. Raises DomainError "invalid" about `secret`."""
        if not secret.strip() or len(secret) > 8_000 or not secret.isprintable() or not secret.isascii():
            raise invalid(secret=_("Enter the secret on one line, with plain characters only."))
        return secret

    @classmethod
    def expires_at(cls, details: Mapping[str, Any]) -> datetime | None:
        """Return when the credential stops working by itself, or None."""
        return None

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate with which connections are opened, or None."""
        return None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the texts that a reply must not repeat, besides those that `apply` puts into the request."""
        return (self.secret, quote(self.secret, safe=""))

    def apply(self, request: OutgoingRequest) -> None:
        """Add the headers or parameters of the credential to the request."""
