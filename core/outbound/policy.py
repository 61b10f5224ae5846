"""The network policy of each address: the private networks that the deployment allows for it."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from django.conf import settings

from core.outbound.addresses import Policy, check_url
from core.outbound.authorities import read_authorities
from core.outbound.egress import Egress


class AddressSource(StrEnum):
    """The source of an address: a role, DEPLOYMENT (a setting of the environment) or VENDOR (a tool's
    document)."""

    DEPLOYMENT = "deployment"
    ADMINISTRATOR = "administrator"
    DESIGNER = "designer"
    RUNTIME = "runtime"
    VENDOR = "vendor"


class Door(StrEnum):
    """The purpose of an address."""

    VENDOR = "vendor"
    PREVIEW = "preview"
    AUTHORIZATION_SERVER = "authorization server"
    ACTIVITY = "activity"
    WEBHOOK = "webhook"
    CALLBACK = "callback"
    EVALUATION_MODEL = "evaluation model"
    PICTURE = "picture"
    EMBEDDINGS = "embeddings"


def installation_egress() -> Egress:
    """Return the proxy and the certificate authorities of PEGBOARD_OUTBOUND_PROXY and related settings.

    Raises ValueError for invalid settings; pegboard/startup_checks.py refuses those.
    """
    return Egress.parse(
        settings.OUTBOUND_PROXY,
        settings.OUTBOUND_DIRECT,
        settings.OUTBOUND_PROXY_RESOLVES,
        read_authorities(settings.CA_FILE),
    )


def outbound_policy() -> Policy:
    """Return the policy of PEGBOARD_OUTBOUND_ALLOW, for vendors. Raises as `installation_egress`."""
    return _parse_policy(settings.OUTBOUND_ALLOW, "PEGBOARD_OUTBOUND_ALLOW")


def callback_policy() -> Policy:
    """Return the policy of PEGBOARD_CALLBACK_ALLOW, for callbacks and the webhooks of designers."""
    return _parse_policy(settings.CALLBACK_ALLOW, "PEGBOARD_CALLBACK_ALLOW")


def public_policy() -> Policy:
    """Return the policy that allows only the public internet."""
    return _parse_policy("", "PEGBOARD_OUTBOUND_ALLOW, for what an administrator has saved")


def _parse_policy(allow: str, setting: str) -> Policy:
    return Policy.parse(allow, settings.OUTBOUND_PORTS, setting, installation_egress())


# The table in docs/security.md repeats this one, and a test compares the two.
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
    (Door.EMBEDDINGS, AddressSource.DEPLOYMENT): outbound_policy,
}


def policy_for(door: Door, source: AddressSource) -> Policy:
    """Return the policy of an address. Raises KeyError if the role cannot enter addresses for this
    purpose."""
    return POLICIES[door, source]()


def source_of(*, is_administrator: bool) -> AddressSource:
    """Return the role of the user who enters an address."""
    return AddressSource.ADMINISTRATOR if is_administrator else AddressSource.DESIGNER


def origin_of(url: str, *, may_ask: bool = False, policy: Policy | None = None) -> str:
    """Return scheme, host and port, to which credentials are bound. Raises RefusedError for an invalid
    URL."""
    return check_url(url, policy or outbound_policy(), may_ask=may_ask).origin
