"""Sockets with bounded waits, plain and over TLS, and the certificate authorities that TLS trusts."""

import functools
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import KIB, Budget, size_text


class BoundedSocket(socket.socket):
    """A socket that reads and writes within `budget` and raises ProtocolErrors."""

    budget: Budget
    # Times are on the monotonic clock. `promised_idle`: seconds that the server keeps an idle connection
    # open.
    dialled_at: float
    heard_at: float
    promised_idle: float | None = None

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        while True:
            try:
                with self._limit_time():
                    size = super().recv_into(buffer, nbytes, flags)
                break
            except UnavailableError as error:
                # The budget may have been extended meanwhile.
                if error.code == "RESET" or monotonic() >= self.budget.ends:
                    raise
        self.heard_at = monotonic()
        self.budget.count(size)
        return size

    def holds_more(self) -> bool:
        """Return whether unread data has arrived that the operating system does not report."""
        return False

    def send(self, data: Any, flags: int = 0) -> int:
        with self._limit_time():
            return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        with self._limit_time():
            super().sendall(data, flags)

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        self.settimeout(self.budget.wait())
        try:
            yield
        except TimeoutError as exc:
            raise self.budget.late() from exc
        except ssl.SSLError as exc:
            # With TLS 1.3 a server refuses the certificate of a client after the handshake.
            if exc.reason in _CERTIFICATE_ALERTS:
                raise RefusedError("TLS", f"{self.budget.host}: {tls_problem(exc)}.") from exc
            raise self.budget.reset() from exc
        except OSError as exc:
            raise self.budget.reset() from exc


class BoundedTlsSocket(BoundedSocket, ssl.SSLSocket):  # type: ignore[misc]  # Any for a buffer is wide enough
    """A bounded socket over TLS; the ssl module creates these with the context of `tls_context`."""

    def holds_more(self) -> bool:
        return self.pending() > 0


def verifying_context(authorities: str = "", *, with_public: bool = True) -> ssl.SSLContext:
    """Return a client's context that trusts `authorities` (PEM), and the system's with `with_public`.

    The variables SSL_CERT_FILE and SSL_CERT_DIR have no effect.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities:
        context.load_verify_locations(cadata=authorities)
    if with_public:
        paths = ssl.get_default_verify_paths()
        cafile = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None
        capath = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None
        if cafile or capath:
            context.load_verify_locations(cafile, capath)
    return context


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A chain of certificates and the private key of the first one, both PEM."""

    chain: str
    key: str = field(repr=False)


@functools.lru_cache(maxsize=64)
def tls_context(
    endpoint_authorities: str = "", authorities: str = "", certificate: ClientCertificate | None = None
) -> ssl.SSLContext:
    """Return the context of outbound requests.

    It trusts the authorities of the endpoint alone where there are any; otherwise the public ones and those
    of the installation (`authorities`). Both are PEM. certificate: shown to a server that asks for one.
    """
    context = verifying_context(endpoint_authorities or authorities, with_public=not endpoint_authorities)
    context.sslsocket_class = BoundedTlsSocket
    context.set_alpn_protocols(["http/1.1"])
    if certificate:
        # The ssl module reads keys only from files, so the file has the key encrypted under a password that
        # exists only here.
        password = secrets.token_bytes(24).hex()
        key = load_pem_private_key(certificate.key.encode(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.chain.strip().encode() + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name, password=password)
    return context


MAX_AUTHORITIES_BYTES = 64 * KIB


def authorities_problem(pem: str) -> str:
    """Return a sentence about the fault of certificates that a user entered, or ""."""
    if len(pem) > MAX_AUTHORITIES_BYTES:
        return f"Paste at most {size_text(MAX_AUTHORITIES_BYTES)} of certificates."
    if "PRIVATE KEY" in pem:
        return "This contains a private key. Paste only the certificates."
    if not pem:
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=pem.encode("ascii", "replace").decode())
    if context.cert_store_stats()["x509"] == max(1, pem.count("-----BEGIN CERTIFICATE-----")):
        return ""
    return "Paste certificates in PEM form: -----BEGIN CERTIFICATE----- and the lines after it, each once."


# X509_V_ERR_*: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/
_CERTIFICATE_COMPLAINTS = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is self-signed",
    19: "its certificate comes from an authority that is not trusted here",
    20: "its certificate comes from an authority that is not trusted here",
    62: "its certificate is for another host name",
    64: "its certificate is for another address",
}


# TLS alerts of a server about the certificate of its client: RFC 8446 section 6.2.
_CERTIFICATE_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the client certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the client certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it does not accept the client certificate, which has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it does not accept the client certificate, which was revoked",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of the client certificate",
    "TLSV1_ALERT_ACCESS_DENIED": "it does not admit the owner of the client certificate",
}


def tls_problem(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _CERTIFICATE_COMPLAINTS.get(exc.verify_code, "its certificate could not be verified")
    reason = exc.reason or "unknown reason"
    if reason in _CERTIFICATE_ALERTS:
        return _CERTIFICATE_ALERTS[reason]
    if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"):
        return "it supports no TLS version that is safe (1.2 or newer)"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS on this port"
    return f"no secure connection could be made ({reason.replace('_', ' ').lower()})"
