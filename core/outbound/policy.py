"""The network policy of each address: which private networks the deployment opens for it."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from django.conf import settings

from core.outbound.addresses import Policy, check_url
from core.outbound.authorities import read_authorities
from core.outbound.egress import Egress


class AddressSource(StrEnum):
    """The role that gave an address; DEPLOYMENT is a setting of the environment, VENDOR a tool's document."""

    DEPLOYMENT = "deployment"
    ADMINISTRATOR = "administrator"
    DESIGNER = "designer"
    RUNTIME = "runtime"
    VENDOR = "vendor"


class Door(StrEnum):
    """What the address is for."""

    VENDOR = "vendor"
    PREVIEW = "preview"
    AUTHORIZATION_SERVER = "authorization server"
    ACTIVITY = "activity"
    WEBHOOK = "webhook"
    CALLBACK = "callback"
    EVALUATION_MODEL = "evaluation model"
    PICTURE = "picture"


def installation_egress() -> Egress:
    """The proxy and the certificate authorities of PEGBOARD_OUTBOUND_PROXY and its neighbours.

    Raises ValueError for settings that cannot be read; pegboard/startup_checks.py refuses those.
    """
    return Egress.parse(
        settings.OUTBOUND_PROXY,
        settings.OUTBOUND_DIRECT,
        settings.OUTBOUND_PROXY_RESOLVES,
        read_authorities(settings.CA_FILE),
    )


def outbound_policy() -> Policy:
    """The networks of PEGBOARD_OUTBOUND_ALLOW, which are open to vendors.

    Raises ValueError as `installation_egress` does.
    """
    return _parse(settings.OUTBOUND_ALLOW, "PEGBOARD_OUTBOUND_ALLOW")


def callback_policy() -> Policy:
    """The networks of PEGBOARD_CALLBACK_ALLOW, which are open to receivers of callbacks and of webhooks that
    designers add."""
    return _parse(settings.CALLBACK_ALLOW, "PEGBOARD_CALLBACK_ALLOW")


def public_policy() -> Policy:
    """The public internet alone."""
    return _parse("", "PEGBOARD_OUTBOUND_ALLOW, for what an administrator has saved")


def _parse(allow: str, setting: str) -> Policy:
    return Policy.parse(allow, settings.OUTBOUND_PORTS, setting, installation_egress())


# The only place that decides it. The table in docs/security.md repeats it, and a test compares the two.
POLICIES: Mapping[tuple[Door, AddressSource], Callable[[], Policy]] = {
    (Door.VENDOR, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.PREVIEW, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.PREVIEW, AddressSource.DESIGNER): public_policy,
    (Door.AUTHORIZATION_SERVER, AddressSource.DEPLOYMENT): outbound_policy,
    (Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.ACTIVITY, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.ACTIVITY, AddressSource.DESIGNER): public_policy,
    (Door.WEBHOOK, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.WEBHOOK, AddressSource.DESIGNER): callback_policy,
    (Door.CALLBACK, AddressSource.RUNTIME): callback_policy,
    (Door.EVALUATION_MODEL, AddressSource.ADMINISTRATOR): outbound_policy,
    # Of an image at the origin of an endpoint, which an administrator gave.
    (Door.PICTURE, AddressSource.ADMINISTRATOR): outbound_policy,
    (Door.PICTURE, AddressSource.VENDOR): public_policy,
}


def policy_for(door: Door, source: AddressSource) -> Policy:
    """Raises KeyError where the role gives no address for this."""
    return POLICIES[door, source]()


def source_of(*, is_administrator: bool) -> AddressSource:
    """The role of a user who gives an address: administrator, or else designer."""
    return AddressSource.ADMINISTRATOR if is_administrator else AddressSource.DESIGNER


def origin_of(url: str, *, may_ask: bool = False, policy: Policy | None = None) -> str:
    """Scheme, host and port: what a credential is bound to. Raises RefusedError for what is no address."""
    return check_url(url, policy or outbound_policy(), may_ask=may_ask).origin
