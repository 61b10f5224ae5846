"""What the frame of every page shows."""

from dataclasses import dataclass, replace

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from catalog.models import Endpoint, Finding
from catalog.models.findings import FindingState

THEMES = ("light", "dark")


@dataclass(frozen=True)
class Entry:
    """One line of the navigation. `under` lists the paths that belong to it."""

    label: str
    icon: str
    url_name: str
    under: tuple[str, ...]
    count: int = 0
    count_says: str = ""
    is_current: bool = False


GROUPS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    ("", (Entry("Home", "home", "home", ()),)),
    (
        "Catalog",
        (
            Entry("Tools", "tool", "tool-list", ("/tools/",)),
            Entry("Vendors", "vendor", "vendor-list", ("/vendors/", "/endpoints/", "/runs/")),
            Entry("Review", "review", "review", ("/review/",)),
        ),
    ),
    ("Design", (Entry("Agents", "agent", "agent-list", ("/agents/",)),)),
    (
        "Settings",
        (
            Entry("Credentials", "credential", "credential-list", ("/credentials/",)),
            Entry("Access keys", "key", "key-list", ("/keys/",)),
            Entry("People", "people", "user-list", ("/users/",)),
            Entry("Audit trail", "audit", "audit", ("/audit/",)),
        ),
    ),
)


def navigation(request: HttpRequest) -> dict[str, object]:
    """Lazy: a swapped part of a page, or a page for strangers, costs no query."""
    theme = request.COOKIES.get("theme", "")
    return {
        "theme": theme if theme in THEMES else "",
        "navigation": SimpleLazyObject(lambda: _groups(request.path)),
    }


def _groups(path: str) -> list[tuple[str, list[Entry]]]:
    counts = {
        "review": (Finding.objects.filter(state=FindingState.OPEN).decisions().count(), "waiting for review"),
        "vendor-list": (Endpoint.objects.needing_action().count(), "endpoints need action"),
    }
    return [(title, [_filled(entry, path, counts) for entry in entries]) for title, entries in GROUPS]


def _filled(entry: Entry, path: str, counts: dict[str, tuple[int, str]]) -> Entry:
    count, says = counts.get(entry.url_name, (0, ""))
    is_current = path.startswith(entry.under) if entry.under else path == "/"
    return replace(entry, count=count, count_says=says, is_current=is_current)
