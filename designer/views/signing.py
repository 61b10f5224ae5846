from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET

from designer.releases import signing
from people.permissions import public


@public
@require_GET
def signing_keys(request: HttpRequest) -> JsonResponse:
    """Return the public keys that verify releases (RFC 8037), each with the period in which it signed."""
    return JsonResponse(
        {
            "keys": [
                {
                    "kty": "OKP",
                    "crv": "Ed25519",
                    "alg": "EdDSA",
                    "use": "sig",
                    "kid": key.name,
                    "x": key.public,
                    "valid_from": key.valid_from.isoformat(),
                    "retired_at": key.retired_at.isoformat() if key.retired_at else None,
                }
                for key in signing.public_keys()
            ]
        }
    )
