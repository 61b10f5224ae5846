from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Kind
from core.outbound.request import OutgoingRequest


class BearerToken(Kind):
    """A token in the Authorization header (RFC 6750)."""

    name, label = "bearer", _("Bearer token")

    def apply(self, request: OutgoingRequest) -> None:
        request.set_header("Authorization", f"Bearer {self.secret}")
