from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials.kinds.base import Detail, Kind
from core.errors import invalid
from core.outbound.sockets import ClientCertificate
from core.private_keys import read_private_key


class MutualTls(Kind):
    """A certificate and its private key, shown when a connection is opened (RFC 8446 section 4.4.2)."""

    name, label = "client_certificate", gettext_lazy("Client certificate (mutual TLS)")
    secret_help = gettext_lazy("The private key in PEM form, without a passphrase.")
    needs_https = True
    sends_secret = False
    details = (
        Detail(
            "certificate",
            gettext_lazy("Certificate"),
            help=gettext_lazy(
                "In PEM form, followed by the certificates between it and its authority, if there are any."
            ),
            max_length=32_000,
            is_required=True,
            is_long=True,
            problem=gettext_lazy(
                "Paste the certificate in PEM form: -----BEGIN CERTIFICATE----- and the lines after it."
            ),
        ),
    )

    @classmethod
    def check(cls, details: Mapping[str, Any]) -> dict[str, Any]:
        checked = super().check(details)
        pem = checked["certificate"]
        if "PRIVATE KEY" in pem:
            raise invalid(
                certificate=_("This contains a private key. Paste it into the field of the secret.")
            )
        if not _load_certificates(pem):
            raise invalid(certificate=str(cls.details[0].problem))
        return {"certificate": pem.strip()}

    @classmethod
    def check_secret(cls, secret: str, details: Mapping[str, Any]) -> str:
        """Return the key as PKCS #8."""
        key = read_private_key(secret)
        if key is None:
            message = _("Enter the private key in PEM form, without a passphrase.")
            raise invalid(secret=message)
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        certificate = _load_certificates(details["certificate"])[0]
        if public != certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
            message = _("This key does not belong to the certificate. Enter the key that it was issued for.")
            raise invalid(secret=message)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @classmethod
    def expires_at(cls, details: Mapping[str, Any]) -> datetime | None:
        return _load_certificates(details["certificate"])[0].not_valid_after_utc

    @property
    def certificate(self) -> ClientCertificate:
        return ClientCertificate(self.values["certificate"], self.secret)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret,)


def _load_certificates(pem: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return []
