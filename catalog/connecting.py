"""Connecting a vendor in one go, and going on with it after a sign-in at the vendor."""

from catalog import connections, enumeration
from catalog.models import Credential, Endpoint, Run
from catalog.models.runs import Trigger
from people.models import User


def begin(endpoint: Endpoint, *, actor: User) -> Run | None:
    """The first reading of a new endpoint; None while it waits for a sign-in."""
    if endpoint.is_paused:
        return None
    return enumeration.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def go_on(credential: Credential, *, actor: User) -> list[Run]:
    """After somebody has signed in: endpoints that were connected with it and wait for that are read now."""
    return [
        enumeration.request_run(
            connections.update_endpoint(endpoint, actor=actor, is_paused=False),
            trigger=Trigger.PERSON,
            actor=actor,
        )
        for endpoint in waiting(credential)
    ]


def waiting(credential: Credential) -> list[Endpoint]:
    """Connected with it, and never read."""
    rows = Endpoint.objects.live().filter(credential=credential, is_paused=True, runs=None)
    return list(rows.select_related("vendor", "credential"))
