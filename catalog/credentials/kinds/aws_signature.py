import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Detail, Kind
from core.outbound.request import OutgoingRequest

_ALGORITHM = "AWS4-HMAC-SHA256"
_PLACE = "[a-z0-9-]{1,64}"


class AwsSignature(Kind):
    """AWS Signature Version 4: each request is signed with a key derived from the secret access key.

    Source: AWS Identity and Access Management User Guide, "Create a signed AWS API request".
    """

    name, label = "aws_sigv4", _("AWS Signature Version 4")
    secret_help = _("The secret access key. It signs requests and is never sent.")
    sends_secret = False
    details = (
        Detail(
            "access_key_id",
            _("Access key ID"),
            max_length=128,
            is_required=True,
            pattern="[A-Z0-9]{16,128}",
            problem=_("Enter the access key ID, such as AKIAIOSFODNN7EXAMPLE."),
        ),
        Detail(
            "region",
            _("Region"),
            is_required=True,
            pattern=_PLACE,
            problem=_("Enter the region, such as eu-central-1."),
        ),
        Detail(
            "service",
            _("Service"),
            help=_("execute-api for an API Gateway, lambda for a function address."),
            initial="execute-api",
            is_required=True,
            pattern=_PLACE,
            problem=_("Enter the name of the service, such as execute-api."),
        ),
    )

    def apply(self, request: OutgoingRequest) -> None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(request.content or b"").hexdigest()
        signed = {"host": request.authority, "x-amz-content-sha256": digest, "x-amz-date": moment}
        for name, value in signed.items():
            if name != "host":
                request.set_header(name, value, is_secret=False)
        names = ";".join(signed)
        path, _unused, query = request.target.partition("?")
        path = path or "/"  # escaped once already; all services but S3 escape it again
        pairs = [
            f"{quote(name, safe='~')}={quote(value, safe='~')}"
            for name, value in parse_qsl(query, keep_blank_values=True)
        ]
        canonical_request = "\n".join(
            [
                request.method,
                path if self.values["service"] == "s3" else quote(path, safe="/~"),
                "&".join(sorted(pairs)),
                *(f"{name}:{value}" for name, value in signed.items()),
                "",
                names,
                digest,
            ]
        )
        scope = "/".join([moment[:8], self.values["region"], self.values["service"], "aws4_request"])
        hashed_request = hashlib.sha256(canonical_request.encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = "\n".join([_ALGORITHM, moment, scope, hashed_request])
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        identity = f"Credential={self.values['access_key_id']}/{scope}"
        # A signature is valid for this request and for some minutes, so a reply may repeat it.
        value = f"{_ALGORITHM} {identity}, SignedHeaders={names}, Signature={signature}"
        request.set_header("Authorization", value, is_secret=False)
