"""Servers outside of the installation: the outbound proxy, the identity provider and the mail server.

And the certificate authorities by which they are verified.
"""

import smtplib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

from cryptography import x509
from django.conf import settings
from django.utils import timezone

from catalog.models import Endpoint
from catalog.notifications import mail
from core.outbound.addresses import CheckedUrl, Policy, check_url
from core.outbound.authorities import parse_certificates, read_certificates
from core.outbound.connection import Connection, system_resolver
from core.outbound.errors import ProtocolError, RefusedError
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.sockets import tls_problem
from pegboard import startup_checks
from pegboard.ops.doctor.frame import DoctorLimits, Trouble, check
from people.sso import provider
from people.sso.errors import SignInError

ENDS_SOON = timedelta(days=14)
PROXY_CODES = ("PROXY", "PROXY_REFUSED")


@check("outbound_settings", "the settings of outbound requests can be used")
def outbound_settings(limits: DoctorLimits) -> Iterator[Trouble]:
    for problem in startup_checks.network_problems():
        yield Trouble(
            problem,
            "No process starts with it.",
            "Correct the variable: docs/operations.md.",
        )


@check(
    "authorities", "the certificate authorities of the installation are valid", after=("outbound_settings",)
)
def authorities(limits: DoctorLimits) -> Iterator[Trouble]:
    for problem in _expiring_certificates(read_certificates(settings.CA_FILE)):
        yield Trouble(
            f"In PEGBOARD_CA_FILE {problem}",
            "After its end, servers whose certificates it has signed cannot be reached.",
            "Put the authority's new certificate into the file, and start the processes again.",
        )


@check(
    "endpoint_authorities",
    "the certificate authorities of endpoints are valid",
    after=("database", "migrations"),
)
def endpoint_authorities(limits: DoctorLimits) -> Iterator[Trouble]:
    for endpoint in Endpoint.objects.live().exclude(authorities="").select_related("vendor"):
        for problem in _expiring_certificates(parse_certificates(endpoint.authorities)):
            yield Trouble(
                f"Of the authorities of “{endpoint}” of {endpoint.vendor} {problem}",
                "The endpoint cannot be reached after its end.",
                f"Open /endpoints/{endpoint.pk}/ and enter the authority's new certificate.",
            )


@check(
    "outbound_proxy",
    "the outbound proxy opens connections",
    after=("outbound_settings", "database", "migrations"),
)
def outbound_proxy(limits: DoctorLimits) -> Iterator[Trouble]:
    policy = policy_for(Door.VENDOR, AddressSource.ADMINISTRATOR)
    if policy.egress.proxy is None:
        return
    try:
        if origin := _proxied_origin(policy):
            Connection(origin, policy, system_resolver).try_origin()
        else:
            proxy = policy.egress.proxy
            itself = CheckedUrl(proxy.scheme, proxy.host, proxy.port, "")
            Connection(itself, policy, system_resolver).try_proxy(proxy)
    except ProtocolError as error:
        if error.code in PROXY_CODES:
            yield Trouble(
                error.message,
                "Only the hosts of PEGBOARD_OUTBOUND_DIRECT can be reached.",
                "See whether the proxy runs, PEGBOARD_OUTBOUND_PROXY names it, and it allows CONNECT to "
                "addresses. If it allows names only, set PEGBOARD_OUTBOUND_PROXY_RESOLVES=1: "
                "docs/operations.md.",
            )
        elif error.code == "DNS":
            yield Trouble(
                f"{error.message} Pegboard looks names up itself before it asks the proxy.",
                "No host of the internet can be reached while this server cannot look names up.",
                "If the proxy can, set PEGBOARD_OUTBOUND_PROXY_RESOLVES=1: docs/operations.md.",
            )


def _proxied_origin(policy: Policy) -> CheckedUrl | None:
    # The identity provider or a vendor. Its other failures have checks of their own.
    endpoints = Endpoint.objects.live().order_by("-last_success_at", "pk").values_list("url", flat=True)
    issuers = [settings.OIDC["issuer"]] if settings.OIDC else []
    for url in (*issuers, *endpoints[:20]):
        with suppress(RefusedError):
            origin = check_url(url, policy, may_ask=True)
            if not policy.egress.is_direct(origin.host):
                return origin
    return None


@check(
    "identity_provider", "the identity provider can be used", after=("outbound_settings", "outbound_proxy")
)
def identity_provider(limits: DoctorLimits) -> Iterator[Trouble]:
    configured = provider.configured_provider()
    if configured is None:
        return
    provider.clear_cache()
    impact = "No user can sign in with single sign-on."
    try:
        keys = provider.keys(configured)
    except SignInError as error:
        cause = error.__cause__
        reason = f" {cause.message}" if isinstance(cause, ProtocolError) else ""
        yield Trouble(
            f"{error.message}{reason}",
            impact,
            "See PEGBOARD_OIDC_ISSUER, PEGBOARD_CA_FILE and PEGBOARD_OUTBOUND_ALLOW.",
        )
        return
    if not keys:
        yield Trouble(
            "The identity provider publishes no keys.",
            impact,
            "Look at its address “jwks_uri”, or ask who runs the provider.",
        )


@check("mail_server", "the mail server lets Pegboard in", after=("outbound_settings",))
def mail_server(limits: DoctorLimits) -> Iterator[Trouble]:
    if not settings.MAIL_IS_SET_UP:
        return
    try:
        mail.sign_in_at_server()
    except (OSError, smtplib.SMTPException) as error:
        # The reason omits what the server wrote, which may repeat names.
        match error:
            case ssl.SSLError():
                reason = f"cannot be reached securely: {tls_problem(error)}"
            case smtplib.SMTPAuthenticationError():
                reason = f"does not accept the user name or password ({error.smtp_code})"
            case smtplib.SMTPNotSupportedError():
                reason = "does not offer what PEGBOARD_MAIL_URL asks for, such as STARTTLS"
            case smtplib.SMTPResponseException():
                reason = f"refuses Pegboard ({error.smtp_code})"
            case smtplib.SMTPException():
                reason = "ended the conversation"
            case _:
                reason = f"cannot be reached: {error.strerror or type(error).__name__}"
        yield Trouble(
            f"The mail server {reason}.",
            "No mail leaves; it is tried again for some hours, and then given up.",
            "See PEGBOARD_MAIL_URL, and PEGBOARD_CA_FILE for a server of an own authority.",
        )


def _expiring_certificates(certificates: Sequence[x509.Certificate]) -> Iterator[str]:
    now = timezone.now()
    for certificate in certificates:
        ends = certificate.not_valid_after_utc
        if ends - now < ENDS_SOON:
            name = certificate.subject.rfc4514_string() or "a certificate without a name"
            yield f"“{name}” {'has ended' if ends < now else 'ends'} on {ends:%d %b %Y}."
