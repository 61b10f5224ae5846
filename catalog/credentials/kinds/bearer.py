from catalog.credentials.kinds.base import Kind
from core.outbound.outgoing import OutgoingRequest


class BearerToken(Kind):
    """A token in the Authorization header (RFC 6750)."""

    name, label = "bearer", "Bearer token"

    def apply(self, request: OutgoingRequest) -> None:
        request.set_header("Authorization", f"Bearer {self.secret}")
