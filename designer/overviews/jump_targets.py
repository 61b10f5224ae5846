"""Links to agents, tools, vendors, procedures and releases whose names contain some words."""

import re
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet, Value
from django.db.models.functions import Lower, NullIf, StrIndex
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Vendor
from catalog.search import Query, search
from designer.models import Agent, Procedure, Release
from people.models import User

MAX_TEXT = 100
LIMIT = 5
_NUMBER = re.compile(r"\b\d{1,9}\b")
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class JumpTarget:
    """One link of the palette. keys: the keyboard shortcut, such as "g a"."""

    label: str
    url: str
    icon: str
    detail: str = ""
    keys: str = ""


def find_targets(text: str, user: User) -> list[tuple[str, list[JumpTarget]]]:
    """Return groups of links, each at most `LIMIT`, whose names contain all words of `text`."""
    agents = Agent.objects.live().visible_to(user)
    tools = search(Query(q=text, limit=4 * LIMIT)).rows
    tools = sorted(tools, key=lambda row: not row["name"].lower().startswith(text.strip().lower()))[:LIMIT]
    procedures = Procedure.objects.live().visible_to(user).select_related("agent").defer("text")
    vendors = Vendor.objects.offering().filter(is_own=False)
    groups = (
        (
            _("Agents"),
            [
                JumpTarget(row.name, reverse("agent", args=[row.slug]), "agent")
                for row in _rows_named(agents, "name", text)
            ],
        ),
        (
            _("Tools"),
            [
                JumpTarget(row["name"], reverse("tool", args=[row["id"]]), "tool", row["vendor_name"])
                for row in tools
            ],
        ),
        (
            _("Procedures"),
            [
                JumpTarget(
                    row.title, reverse("procedure", args=[row.agent.slug, row.slug]), "audit", row.agent.name
                )
                for row in _rows_named(procedures, "title", text)
            ],
        ),
        (_("Releases"), _find_releases(text, agents)),
        (
            _("Vendors"),
            [
                JumpTarget(row.name, reverse("vendor", args=[row.slug]), "vendor")
                for row in _rows_named(vendors, "name", text)
            ],
        ),
    )
    return [(title, targets) for title, targets in groups if targets]


def _rows_named(rows: QuerySet[Row], column: str, text: str) -> list[Row]:
    # Names that begin with the text come first, and those that do not contain it as a whole come last.
    for word in text.split():
        rows = rows.filter(**{f"{column}__icontains": word})
    position = NullIf(StrIndex(Lower(column), Value(text.lower())), Value(0))
    return list(rows.order_by(position.asc(nulls_last=True), column)[:LIMIT])


def _find_releases(text: str, agents: QuerySet[Agent]) -> list[JumpTarget]:
    # "front desk 7" names a release, and so does "release 7".
    number = _NUMBER.search(text)
    if number is None:
        return []
    words = [word for word in _NUMBER.sub("", text).split() if word.lower() != "release"]
    rows = Release.objects.filter(agent__in=agents, number=int(number.group())).only(
        "number", "agent__slug", "agent__name"
    )
    return [
        JumpTarget(
            _("Release {number} of {agent}").format(number=row.number, agent=row.agent.name),
            reverse("release", args=[row.agent.slug, row.number]),
            "release",
        )
        for row in _rows_named(rows.select_related("agent"), "agent__name", " ".join(words))
    ]
