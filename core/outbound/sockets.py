"""Sockets whose every wait ends, plain and over TLS, and which authorities TLS trusts."""

import functools
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from core.outbound.errors import UnavailableError
from core.outbound.limits import KIB, Budget, size_text


class BoundedSocket(socket.socket):
    """Reads and writes within `budget`, and speaks of failures in our own words."""

    budget: Budget
    # On the monotonic clock. `promised_idle` is for how long the server says that it keeps an idle one.
    dialled_at: float
    heard_at: float
    promised_idle: float | None = None

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        while True:
            try:
                with self._bounded():
                    size = super().recv_into(buffer, nbytes, flags)
                break
            except UnavailableError as error:
                # It may have been given more time while it waited.
                if error.code == "RESET" or monotonic() >= self.budget.ends:
                    raise
        self.heard_at = monotonic()
        self.budget.count(size)
        return size

    def holds_more(self) -> bool:
        """Whether something came that was not read, and that the system no longer knows of."""
        return False

    def send(self, data: Any, flags: int = 0) -> int:
        with self._bounded():
            return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        with self._bounded():
            super().sendall(data, flags)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        self.settimeout(self.budget.wait())
        try:
            yield
        except TimeoutError as exc:
            raise self.budget.late() from exc
        except OSError as exc:
            raise self.budget.reset() from exc


class BoundedTlsSocket(BoundedSocket, ssl.SSLSocket):  # type: ignore[misc]  # Any for a buffer is wide enough
    """The same over TLS; `tls_context` makes the ssl module create these."""

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


@functools.lru_cache(maxsize=64)
def tls_context(endpoint_authorities: str = "", authorities: str = "") -> ssl.SSLContext:
    """Return the context of outbound requests.

    It trusts the authorities of the endpoint alone where there are any; otherwise the public ones and those
    of the installation (`authorities`). Both are PEM.
    """
    context = verifying_context(endpoint_authorities or authorities, with_public=not endpoint_authorities)
    context.sslsocket_class = BoundedTlsSocket
    context.set_alpn_protocols(["http/1.1"])
    return context


MAX_AUTHORITIES_BYTES = 64 * KIB


def authorities_problem(pem: str) -> str:
    """What is wrong with certificates that are to be trusted, in one sentence; empty: nothing."""
    if len(pem) > MAX_AUTHORITIES_BYTES:
        return f"Give certificates of up to {size_text(MAX_AUTHORITIES_BYTES)} together."
    if "PRIVATE KEY" in pem:
        return "This holds a private key. Keep that to yourself, and paste only the certificates."
    if not pem:
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=pem.encode("ascii", "replace").decode())
    if context.cert_store_stats()["x509"] == max(1, pem.count("-----BEGIN CERTIFICATE-----")):
        return ""
    return "Paste certificates in PEM form: -----BEGIN CERTIFICATE----- and what follows, each only once."


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


def tls_problem(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _CERTIFICATE_COMPLAINTS.get(exc.verify_code, "its certificate could not be verified")
    reason = exc.reason or "unknown reason"
    if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"):
        return "it speaks no TLS version that is still safe (1.2 or newer)"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS on this port"
    return f"no secure connection could be made ({reason.replace('_', ' ').lower()})"
