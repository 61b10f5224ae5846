"""Connecting a vendor in one go, and going on with it after a sign-in at the vendor."""

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Run
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from people.models import User

NEEDED_A_SIGN_IN = ("AUTH", "INSUFFICIENT_SCOPE", "NEEDS_SIGN_IN", "TOKEN_NOT_TAKEN")


def begin(endpoint: Endpoint, *, actor: User) -> Run | None:
    """The first enumeration run of a new endpoint; None while it waits for a sign-in."""
    if endpoint.is_paused:
        return None
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def go_on(credential: Credential, *, actor: User) -> list[Run]:
    """After a person has signed in: what was connected with it and waits for that is read now."""
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


def waiting(credential: Credential) -> list[Endpoint]:
    """Connected with it, and never read."""
    rows = Endpoint.objects.live().filter(credential=credential, is_paused=True, runs=None)
    return list(rows.select_related("vendor", "credential"))
