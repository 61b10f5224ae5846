import base64

from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Detail, Kind
from core.outbound.request import OutgoingRequest


class Password(Kind):
    """A user name and a password (RFC 7617)."""

    name, label = "basic", _("User name and password")
    details = (
        Detail(
            "username",
            _("User name"),
            is_required=True,
            pattern="[^:]+",
            problem=_("Enter the user name, without a colon."),
        ),
    )

    def apply(self, request: OutgoingRequest) -> None:
        pair = base64.b64encode(f"{self.values['username']}:{self.secret}".encode()).decode()
        request.set_header("Authorization", f"Basic {pair}")
