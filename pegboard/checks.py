"""Checks of `manage.py check --deploy`: settings that are acceptable only on a personal machine."""

import os
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from core.outbound.policy import callback_policy, installation_egress, outbound_policy
from pegboard import startup_checks

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def failpoints(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    if os.environ.get("DEBUG_CRASH") != "1":
        return []
    hint = "Remove DEBUG_CRASH and CRASHPOINT from the environment."
    return [Error("Failpoints are armed: processes kill themselves.", hint=hint, id="pegboard.E001")]


def open_networks(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Report settings that allow requests to this machine or to all networks, as only a trial may."""
    if egress(app_configs):
        return []
    hint = "List the networks and ports of your vendors and of the receivers of callbacks."
    try:
        policies = outbound_policy(), callback_policy()
    except ValueError as exc:
        return [Error(f"{exc}.", hint=hint, id="pegboard.E002")]
    return [
        Error(f"{policy.setting} opens {entry.network}.", hint=hint, id="pegboard.E002")
        for policy in policies
        for entry in policy.allow
        if entry.network.prefixlen == 0
        or any(
            entry.network.version == network.version and entry.network.overlaps(network)
            for network in LOOPBACK
        )
    ]


def egress(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Report an unusable outbound proxy or CA file."""
    try:
        installation_egress()
    except ValueError as exc:
        return [Error(f"{exc}.", id="pegboard.E004")]
    return []


def keys(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    return [Error(problem, id="pegboard.E003") for problem in startup_checks.problems()]


def proxies(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Warn if requests arrive through a proxy and the settings do not say that it ends TLS."""
    if not settings.NUM_PROXIES or settings.HTTPS:
        return []
    hint = (
        "Set PEGBOARD_HTTPS=1. A proxy must end TLS, overwrite X-Forwarded-Proto, append to X-Forwarded-For, "
        "buffer requests and replies except event streams, and limit the connections of one address: "
        "docs/operations.md."
    )
    message = "PEGBOARD_PROXIES names a proxy, but PEGBOARD_HTTPS is not set."
    return [Warning(message, hint=hint, id="pegboard.W001")]
