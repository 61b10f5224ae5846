import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Detail, Kind
from core.outbound.request import OutgoingRequest

MAX_LIFE_SECONDS = 900
DEFAULT_LIFE_SECONDS = 600


class SignedToken(Kind):
    """A JSON Web Token under HS256, signed with the secret (RFC 7519, RFC 7515 section 3.1)."""

    name, label = "jwt", _("Signed token (JWT, HS256)")
    sends_secret = False
    details = (
        Detail("issuer", _("Issuer (iss)")),
        Detail("subject", _("Subject (sub)")),
        Detail("audience", _("Audience (aud)"), help=_("If the vendor checks it.")),
        Detail(
            "lifetime_seconds",
            _("Lifetime of a token in seconds"),
            help=_("Pegboard signs a new token with the secret for each session."),
            initial=DEFAULT_LIFE_SECONDS,
            minimum=30,
            maximum=MAX_LIFE_SECONDS,
            problem=_("A token lives from 30 seconds to 15 minutes (900)."),
        ),
    )

    _token, _signed_at = "", 0.0

    @classmethod
    def check(cls, details: Mapping[str, Any]) -> dict[str, Any]:
        life = details.get("lifetime_seconds") or DEFAULT_LIFE_SECONDS
        return super().check({**details, "lifetime_seconds": life})

    def apply(self, request: OutgoingRequest) -> None:
        # The request may take a while too, so the second half of a token's lifetime is not used.
        now, lifetime = time.time(), self.values["lifetime_seconds"]
        if not self._token or now - self._signed_at >= lifetime / 2:
            names = {"iss": "issuer", "sub": "subject", "aud": "audience"}
            claims = {claim: self.values[name] for claim, name in names.items() if self.values.get(name)}
            claims |= {"iat": int(now), "exp": int(now) + lifetime}
            parts = ({"alg": "HS256", "typ": "JWT"}, claims)
            signed = ".".join(
                _in_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in parts
            )
            signature = hmac.digest(self.secret.encode(), signed.encode(), "sha256")
            self._token, self._signed_at = f"{signed}.{_in_base64url(signature)}", now
        request.set_header("Authorization", f"Bearer {self._token}")


def _in_base64url(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
