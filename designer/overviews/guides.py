"""The guides of the first page: three steps for each thing that a user does for the first time.

A step is done if the user has done it, whatever others did. A guide ends with its third step, or when the
user hides it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import BigIntegerField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from catalog.models import ActivityVersion, Run
from catalog.models.runs import RunStatus
from core.compiled_queries import CompiledQuery, named_value
from designer.environments.mocks import KIND
from designer.models import Agent, HiddenGuide, Pin, ProcedureReference, ProcedureVersion, Release
from people.models import ApiKey, AuditEntry, KeyScope, Role, User

# The role that is guided, and the steps in order. The template has their words.
GUIDES = {
    "vendor": (Role.ADMIN, ("connected", "synced", "reviewed")),
    "agent": (Role.DESIGNER, ("created", "pinned", "tuned")),
    "procedure": (Role.DESIGNER, ("written", "named", "improved")),
    "mocks": (Role.DESIGNER, ("mocked", "changed", "ruled")),
    "release": (Role.DESIGNER, ("published", "keyed", "fetched")),
}


@dataclass(frozen=True, slots=True)
class Guide:
    """The first steps of a role. steps: whether each is done, by its name."""

    name: str
    steps: Mapping[str, bool]

    @property
    def now(self) -> str:
        return next(step for step, is_done in self.steps.items() if not is_done)


def current_guide(user: User) -> Guide | None:
    """Return the first guide of the user's role that is neither finished nor hidden. One query."""
    done = _progress_query().rows(user=user.pk)[0]
    for name, (role, names) in GUIDES.items():
        steps = {step: done[step] for step in names}
        if user.has_role(role) and not done[name] and not all(steps.values()):
            return Guide(name, steps)
    return None


def hide(name: str, *, user: User) -> None:
    if name in GUIDES:
        HiddenGuide.objects.get_or_create(user=user, guide=name)


@cache
def _progress_query() -> "CompiledQuery[Any]":
    user = named_value("user")
    entries = AuditEntry.objects.filter(actor=user)
    connections = entries.filter(kind="endpoint", action="connect")
    runs = Run.objects.filter(endpoint=Cast(OuterRef("object_id"), BigIntegerField()))
    mocks = ActivityVersion.objects.filter(created_by=user, kind=KIND)
    versions = ProcedureVersion.objects.filter(created_by=user)
    keys = ApiKey.objects.filter(user=user, scopes__contains=[KeyScope.RUNTIME])
    facts: dict[str, QuerySet[Any]] = {
        "connected": connections,
        # Pegboard itself requests the first run of an endpoint.
        "synced": connections.filter(Exists(runs.filter(status=RunStatus.SUCCEEDED))),
        "reviewed": entries.filter(kind="finding"),
        "created": Agent.objects.filter(created_by=user),
        "pinned": Pin.objects.filter(created_by=user),
        "tuned": entries.filter(action="tune"),
        "written": versions,
        "named": ProcedureReference.objects.filter(procedure__updated_by=user).exclude(kind="item"),
        "improved": versions.filter(number__gt=1),
        "mocked": mocks,
        "changed": mocks.filter(number__gt=1),
        "ruled": entries.filter(kind="agent", after__has_key="mock_assertions"),
        "published": Release.objects.filter(created_by=user),
        "keyed": keys,
        "fetched": keys.exclude(last_used_at=None),
    }
    hidden = {name: HiddenGuide.objects.filter(user=user, guide=name) for name in GUIDES}
    parts = {name: Exists(rows) for name, rows in {**facts, **hidden}.items()}
    return CompiledQuery(User.objects.filter(pk=user).values(**parts))
