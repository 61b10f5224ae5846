"""Connecting a vendor in one go, and going on with it after a sign-in at the vendor."""

import protocols
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Run
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from people.models import User

NEEDED_A_SIGN_IN = ("AUTH", "INSUFFICIENT_SCOPE", "NEEDS_SIGN_IN", "TOKEN_NOT_TAKEN")


def begin(endpoint: Endpoint, *, actor: User) -> Run | None:
    """Request the first enumeration run of a new endpoint; None while it waits for a sign-in."""
    if endpoint.is_paused:
        return None
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def start_waiting_runs(credential: Credential, *, actor: User) -> list[Run]:
    """Start the runs that waited for this sign-in."""
    never_read = [
        vendor_operations.update_endpoint(row, actor=actor, is_paused=False) for row in waiting(credential)
    ]
    # The last run of these failed for want of the sign-in that there is now.
    read_before = Endpoint.objects.live().filter(credential=credential, is_paused=False, failures__gt=0)
    refused = read_before.filter(error_code__in=NEEDED_A_SIGN_IN).select_related("vendor", "credential")
    return [
        enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)
        for endpoint in [*never_read, *refused]
    ]


def read_with_credential(endpoint: Endpoint, credential: Credential, *, actor: User) -> Run | None:
    """Give an endpoint its first credential, and request a run. None if it cannot be read with it yet."""
    if endpoint.credential_id or credential.awaits_sign_in:
        return None
    endpoint = vendor_operations.update_endpoint(endpoint, actor=actor, credential=credential)
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def other_protocols(run: Run) -> list[tuple[str, str]]:
    """Return the protocols to try after a failed run; none once the endpoint has listed a tool."""
    endpoint = run.endpoint
    if not run.error_code or endpoint.last_success_at or not endpoint.is_live or endpoint.tools.exists():
        return []
    return [choice for choice in protocols.connectable() if choice[0] != endpoint.protocol]


def read_in_protocol(endpoint: Endpoint, protocol: str, *, actor: User) -> Run:
    """Change the protocol of an endpoint that has never listed a tool, and request a run."""
    endpoint = vendor_operations.update_endpoint(endpoint, actor=actor, protocol=protocol)
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def waiting(credential: Credential) -> list[Endpoint]:
    """Return the paused endpoints with this credential that were never read."""
    rows = Endpoint.objects.live().filter(credential=credential, is_paused=True, runs=None)
    return list(rows.select_related("vendor", "credential"))
