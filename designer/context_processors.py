"""The data for the frame of every page."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Count, QuerySet, Value
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from catalog.models import Endpoint, Thread, WaitingDecision
from designer import exports
from designer.models import Agent, Pin, Procedure, Rehearsal, Release
from designer.news import following
from designer.upgrades import pending_work
from people.permissions import person

THEMES = ("light", "dark")


@dataclass(frozen=True)
class NavigationEntry:
    """One entry of the navigation. `under` lists the paths that belong to it."""

    label: str
    icon: str
    url_name: str
    under: tuple[str, ...]
    count: int = 0
    count_says: str = ""
    is_current: bool = False
    for_administrators: bool = False


NAVIGATION: tuple[tuple[str, tuple[NavigationEntry, ...]], ...] = (
    ("", (NavigationEntry("Home", "home", "home", ()),)),
    (
        "Catalog",
        (
            NavigationEntry("Tools", "tool", "tool-list", ("/tools/", "/activities/")),
            NavigationEntry("Vendors", "vendor", "vendor-list", ("/vendors/", "/endpoints/", "/runs/")),
            NavigationEntry("Review", "review", "review", ("/review/",)),
        ),
    ),
    (
        "Design",
        (
            NavigationEntry("Agents", "agent", "agent-list", ("/agents/",)),
            NavigationEntry("Runtimes", "play", "runtime-list", ("/runtimes/",)),
        ),
    ),
    (
        "Settings",
        (
            NavigationEntry("Credentials", "credential", "credential-list", ("/credentials/",)),
            NavigationEntry("Grants", "check", "grant-list", ("/grants/",)),
            NavigationEntry("API keys", "key", "key-list", ("/keys/",)),
            NavigationEntry("Notifications", "bell", "notifications", ("/notifications/",)),
            NavigationEntry("People", "people", "user-list", ("/users/",)),
            NavigationEntry("Judges", "play", "judge-list", ("/judges/",), for_administrators=True),
            NavigationEntry("Teams", "people", "team-list", ("/teams/",), for_administrators=True),
            NavigationEntry("Audit trail", "audit", "audit", ("/audit/",)),
        ),
    ),
)


def navigation(request: HttpRequest) -> dict[str, object]:
    # Lazy, so that a page fragment or a page for anonymous visitors costs no query.
    theme = request.COOKIES.get("theme", "")
    return {
        "theme": theme if theme in THEMES else "",
        "counted_as": exports.USUAL.label,
        "navigation": SimpleLazyObject(lambda: _navigation_groups(request)),
        "is_followed": SimpleLazyObject(lambda: _is_followed(request)),
        "tab_counts": SimpleLazyObject(lambda: _tab_counts(request)),
    }


def _is_followed(request: HttpRequest) -> bool:
    """Return whether the user follows the agent or the tool in the address."""
    url_arguments = request.resolver_match.kwargs if request.resolver_match else {}
    if slug := url_arguments.get("slug"):
        return following.followed(person(request)).filter(slug=slug).exists()
    return following.followed_tools(person(request)).filter(pk=url_arguments["pk"]).exists()


def _tab_counts(request: HttpRequest) -> dict[str, int]:
    """Return the number on each tab of the agent in the address."""
    slug = request.resolver_match.kwargs.get("slug", "") if request.resolver_match else ""
    agent_rows = Agent.objects.live().filter(slug=slug)
    rows_by_tab: dict[str, QuerySet[Any]] = {
        "tools": Pin.objects.live().of_tools().filter(agent__in=agent_rows),
        "procedures": Procedure.objects.live().filter(agent__in=agent_rows),
        "rehearsals": Rehearsal.objects.filter(agent__in=agent_rows),
        "upgrades": pending_work.only_behind(Pin.objects.live().filter(agent__in=agent_rows)),
        "releases": Release.objects.filter(agent__in=agent_rows),
        "threads": Thread.objects.filter(agent__in=agent_rows.values("pk"), removed_at=None),
    }
    # One query returns all counts.
    count_queries = [
        rows.order_by()
        .annotate(part=Value(part))
        .values("part")
        .annotate(count=Count("pk"))
        .values_list("part", "count")
        for part, rows in rows_by_tab.items()
    ]
    return dict(count_queries[0].union(*count_queries[1:], all=True))


def _navigation_groups(request: HttpRequest) -> list[tuple[str, list[NavigationEntry]]]:
    with connection.cursor() as cursor:
        cursor.execute(*_count_statement())
        findings, endpoints = cursor.fetchone()
    act = "endpoint needs action" if endpoints == 1 else "endpoints need action"
    counts = {"review": (findings, "waiting for review"), "vendor-list": (endpoints, act)}
    is_administrator = person(request).can_administer

    def filled(entry: NavigationEntry) -> NavigationEntry:
        count, label = counts.get(entry.url_name, (0, ""))
        is_current = request.path.startswith(entry.under) if entry.under else request.path == "/"
        return replace(entry, count=count, count_says=label, is_current=is_current)

    return [
        (title, [filled(entry) for entry in entries if is_administrator or not entry.for_administrators])
        for title, entries in NAVIGATION
    ]


@cache
def _count_statement() -> tuple[str, tuple[Any, ...]]:
    # The statement for both counts is cached: building it takes longer than running it, on every page.
    waiting = WaitingDecision.objects.values("pk"), Endpoint.objects.needing_action().values("pk")
    compiled = [rows.order_by().query.sql_with_params() for rows in waiting]
    counts = ", ".join(f"(SELECT count(*) FROM ({sql}) one)" for sql, _ in compiled)  # noqa: S608
    return f"SELECT {counts}", tuple(value for _, values in compiled for value in values)
