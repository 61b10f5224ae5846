"""The data for the frame of every page."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from django.db.models import Count, QuerySet, Value
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from catalog.models import Endpoint, Thread, WaitingDecision
from core.compiled_queries import PreparedQuery, named_value
from core.page_addresses import address_of
from core.prepared_statements import run_prepared
from designer import exports
from designer.models import Agent, Pin, Procedure, Rehearsal, Release
from designer.news import following
from designer.upgrades import pending_work
from people.models import Role
from people.permissions import person

THEMES = ("light", "dark")


@dataclass(frozen=True)
class NavigationEntry:
    """One entry of the navigation. `under`: the paths that belong to it. `role`: the least that sees it.

    key: the letter that opens it after `g`.
    """

    label: str
    icon: str
    url_name: str
    under: tuple[str, ...]
    role: Role = Role.VIEWER
    key: str = ""
    count: int = 0
    count_says: str = ""
    is_current: bool = False


NAVIGATION: tuple[tuple[str, tuple[NavigationEntry, ...]], ...] = (
    (
        gettext_noop("Build"),
        (
            NavigationEntry(gettext_noop("Agents"), "agent", "agent-list", ("/agents/",), key="a"),
            NavigationEntry(gettext_noop("Tools"), "tool", "tool-list", ("/tools/", "/activities/"), key="t"),
        ),
    ),
    (
        gettext_noop("Watch"),
        (
            NavigationEntry(gettext_noop("Inbox"), "review", "home", ("/review/",), key="i"),
            NavigationEntry(
                gettext_noop("Vendors"),
                "vendor",
                "vendor-list",
                ("/vendors/", "/endpoints/", "/runs/"),
                key="v",
            ),
            NavigationEntry(gettext_noop("Runtimes"), "runtime", "runtime-list", ("/runtimes/",), key="r"),
        ),
    ),
    (
        gettext_noop("Manage"),
        (
            NavigationEntry(
                gettext_noop("Credentials"),
                "credential",
                "credential-list",
                ("/credentials/",),
                Role.ADMIN,
                key="c",
            ),
            NavigationEntry(
                gettext_noop("User consents"), "consent", "grant-list", ("/grants/",), Role.DESIGNER, key="u"
            ),
            NavigationEntry(gettext_noop("API keys"), "key", "key-list", ("/keys/",), key="k"),
            NavigationEntry(gettext_noop("People"), "people", "user-list", ("/users/",), Role.ADMIN, key="p"),
            NavigationEntry(gettext_noop("Teams"), "team", "team-list", ("/teams/",), Role.ADMIN, key="e"),
            NavigationEntry(
                gettext_noop("Evaluation models"), "scale", "judge-list", ("/judges/",), Role.ADMIN, key="m"
            ),
            NavigationEntry(gettext_noop("Audit trail"), "audit", "audit", ("/audit/",), key="l"),
        ),
    ),
)


@dataclass(frozen=True)
class TabPage:
    """One page of a tab. `count_of`: its figure in `_tab_counts`. `also`: more paths below the agent's."""

    label: str
    url_name: str
    count_of: str = ""
    also: tuple[str, ...] = ()
    is_hidden_when_empty: bool = False
    url: str = ""
    count: int = 0
    is_current: bool = False


@dataclass(frozen=True)
class AgentTab:
    """One of the four tabs of an agent, with the pages below it. The count is that of its first page."""

    label: str
    pages: tuple[TabPage, ...]
    has_count: bool = False
    is_notice: bool = False

    @property
    def is_current(self) -> bool:
        return any(page.is_current for page in self.pages)

    @property
    def count(self) -> int:
        return self.pages[0].count if self.has_count else 0


AGENT_TABS = (
    AgentTab(
        gettext_noop("Build"),
        (
            TabPage(gettext_noop("Tools"), "agent", "tools"),
            TabPage(gettext_noop("Procedures"), "procedure-list", "procedures"),
            TabPage(gettext_noop("Sub-agents"), "agent-tree", also=("transfers/",)),
            TabPage(gettext_noop("Summary"), "agent-summary"),
        ),
    ),
    AgentTab(
        gettext_noop("Test"),
        (
            TabPage(gettext_noop("Test phrases"), "rehearsals", "rehearsals"),
            TabPage(gettext_noop("Mocks"), "mocks"),
            TabPage(gettext_noop("Environments"), "agent-environments"),
        ),
    ),
    AgentTab(
        gettext_noop("Updates"),
        (TabPage(gettext_noop("Updates"), "agent-upgrades", "upgrades"),),
        has_count=True,
        is_notice=True,
    ),
    AgentTab(
        gettext_noop("Releases"),
        (
            TabPage(
                gettext_noop("Releases"),
                "release-list",
                "releases",
                also=("publish/", "channels/", "received/"),
            ),
            TabPage(gettext_noop("Threads"), "agent-threads", "threads", is_hidden_when_empty=True),
        ),
        has_count=True,
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
        "agent_tabs": SimpleLazyObject(lambda: _agent_tabs(request)),
    }


def _is_followed(request: HttpRequest) -> bool:
    """Return whether the user follows the agent or the tool in the address."""
    url_arguments = request.resolver_match.kwargs if request.resolver_match else {}
    if slug := url_arguments.get("slug"):
        return following.is_followed(person(request), slug)
    return following.followed_tools(person(request)).filter(pk=url_arguments["pk"]).exists()


def _agent_tabs(request: HttpRequest) -> list[AgentTab]:
    """Return the tabs of the agent in the address. The page with the longest matching path is current."""
    slug = request.resolver_match.kwargs.get("slug", "") if request.resolver_match else ""
    counts, root = dict(_tab_counts().rows(agent=slug)), address_of("agent", slug)
    urls = {page.url_name: address_of(page.url_name, slug) for tab in AGENT_TABS for page in tab.pages}
    matches = [
        (len(path), page.url_name)
        for tab in AGENT_TABS
        for page in tab.pages
        for path in (urls[page.url_name], *(root + path for path in page.also))
        if request.path.startswith(path)
    ]
    current = max(matches, default=(0, ""))[1]

    def filled(page: TabPage) -> TabPage:
        count = counts.get(page.count_of, 0)
        return replace(
            page,
            label=_(page.label),
            url=urls[page.url_name],
            count=count,
            is_current=page.url_name == current,
        )

    return [
        replace(
            tab,
            label=_(tab.label),
            pages=tuple(
                page
                for page in map(filled, tab.pages)
                if page.count or page.is_current or not page.is_hidden_when_empty
            ),
        )
        for tab in AGENT_TABS
    ]


@cache
def _tab_counts() -> PreparedQuery[tuple[str, int]]:
    """Return the figures on the tabs of the agent whose slug is `agent`."""
    agent_rows = Agent.objects.live().filter(slug=named_value("agent"))
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
    return PreparedQuery(count_queries[0].union(*count_queries[1:], all=True))


def _navigation_groups(request: HttpRequest) -> list[tuple[str, list[NavigationEntry]]]:
    role = Role(person(request).role)
    counts: dict[str, tuple[int, str]] = {}
    # A viewer can act on none of them.
    if role.includes(Role.DESIGNER):
        ((findings, endpoints),) = run_prepared(*_count_statement())
        act = ngettext("endpoint needs action", "endpoints need action", endpoints)
        counts = {"home": (findings, _("waiting for review")), "vendor-list": (endpoints, act)}

    def filled(entry: NavigationEntry) -> NavigationEntry:
        count, label = counts.get(entry.url_name, (0, ""))
        is_current = request.path.startswith(entry.under) or request.path == address_of(entry.url_name)
        return replace(entry, label=_(entry.label), count=count, count_says=label, is_current=is_current)

    return [
        (_(title), [filled(entry) for entry in entries if role.includes(entry.role)])
        for title, entries in NAVIGATION
    ]


@cache
def _count_statement() -> tuple[str, tuple[Any, ...]]:
    # The statement for both counts is cached: building it takes longer than running it, on every page.
    waiting = WaitingDecision.objects.values("pk"), Endpoint.objects.needing_action().values("pk")
    compiled = [rows.order_by().query.sql_with_params() for rows in waiting]
    counts = ", ".join(f"(SELECT count(*) FROM ({sql}) one)" for sql, _ in compiled)  # noqa: S608
    return f"SELECT {counts}", tuple(value for _, values in compiled for value in values)
