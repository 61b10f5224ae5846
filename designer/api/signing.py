from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelOutput
from designer.api.asked_releases import NUMBER, find_listed_release
from designer.models import ReleaseSignature
from designer.releases import signing
from people.api.generics import GenericAPIView


class SignatureOutput(ModelOutput[ReleaseSignature]):
    release = serializers.IntegerField(source="release.number")
    digest = serializers.SerializerMethodField(
        help_text="The text `sha256:` with the digest in hexadecimal digits."
    )
    algorithm = serializers.SerializerMethodField()
    key = serializers.CharField(
        source="key.name", help_text="The `kid` of the key in `/.well-known/pegboard-keys.json`."
    )
    signature = serializers.CharField(help_text="The signature of the 32 bytes of the digest, in base64url.")

    class Meta:
        model = ReleaseSignature
        fields = ["release", "digest", "algorithm", "key", "signature", "signed_at"]

    def get_digest(self, row: ReleaseSignature) -> str:
        return f"sha256:{row.release.digest}"

    def get_algorithm(self, row: ReleaseSignature) -> str:
        return "Ed25519"


@extend_schema(tags=["runtimes"])
class ReleaseSignatureDetail(GenericAPIView[ReleaseSignature]):
    """The proof that a release was published here, for use outside of Pegboard. docs/releases.md has the
    script.
    """

    runtime = True
    serializer_class = SignatureOutput

    @extend_schema(operation_id="agents_releases_signature_retrieve", parameters=[NUMBER])
    def get(self, request: Request, slug: str, number: str) -> Response:
        release = find_listed_release(request, slug, number)
        row = signing.signature_of(release)
        row.release = release
        body: dict[str, Any] = SignatureOutput(row).data
        return Response(body)
