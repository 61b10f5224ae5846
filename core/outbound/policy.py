"""What this deployment opens, and what an address is bound to."""

from django.conf import settings

from core.outbound.addresses import Policy, check_url


def outbound_policy() -> Policy:
    """Raises ValueError for settings that cannot be read; pegboard/startup_checks.py refuses those."""
    return Policy.parse(settings.OUTBOUND_ALLOW, settings.OUTBOUND_PORTS)


def callback_policy() -> Policy:
    """For addresses that keys of runtimes give. Networks that are opened for vendors, whom administrators
    choose, are not open to these."""
    return Policy.parse(settings.CALLBACK_ALLOW, settings.OUTBOUND_PORTS, "PEGBOARD_CALLBACK_ALLOW")


def public_policy() -> Policy:
    """For addresses that designers give: networks that are opened for vendors, whom administrators choose,
    are not open to these."""
    setting = "PEGBOARD_OUTBOUND_ALLOW, for what an administrator has saved"
    return Policy.parse("", settings.OUTBOUND_PORTS, setting)


def origin_of(url: str, *, may_ask: bool = False, policy: Policy | None = None) -> str:
    """Scheme, host and port: what a credential is bound to. Raises RefusedError for what is no address."""
    return check_url(url, policy or outbound_policy(), may_ask=may_ask).origin
