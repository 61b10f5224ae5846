"""What waits for a user: pins behind newer versions or under review, unpublished changes, first steps."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypedDict

from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from catalog.models import Finding, Tool, ToolVersion, Vendor
from catalog.models.findings import FindingState, Severity
from catalog.models.tools import ToolStatus
from catalog.review import holds
from core.compiled_queries import CompiledQuery, given
from core.outbound.errors import printable
from designer import pinned_signatures
from designer.models import Agent, Pin, PinQuerySet, Release
from designer.releases import drafts
from people.models import ApiKey, Scope, User


class FirstSteps(TypedDict):
    connected: bool
    read: bool
    pinned: bool
    published: bool
    fetched: bool


def with_newer(pins: QuerySet[Pin]) -> QuerySet[Pin]:
    """Each pin with its `newer`, which is 0 when the vendor's current version is pinned."""
    later = Q(label_key__gt=OuterRef("version__label_key")) | Q(
        label_key=OuterRef("version__label_key"), ordinal__gt=OuterRef("version__ordinal")
    )
    offered = ToolVersion.objects.exclude(stopped_of__pk=OuterRef("tool"))  # what is held is no news yet
    newer = offered.filter(later, tool=OuterRef("tool")).order_by().values("tool")
    count = Subquery(newer.annotate(count=Count("pk")).values("count"), output_field=IntegerField())
    return pins.annotate(newer=Coalesce(count, 0))  # type: ignore[no-redef] # declared by Pin


def behind(pins: QuerySet[Pin]) -> QuerySet[Pin]:
    """Those whose tool has a newer version, with their `newer`."""
    return with_newer(pins.exclude(version=F("tool__current"))).filter(Q(newer__gt=0))


def pins_behind(user: User) -> QuerySet[Pin]:
    return behind(Pin.objects.active().visible_to(user)).select_related("agent")


def pins_gone(user: User) -> PinQuerySet:
    """Pins that the user may see of tools no longer offered: their calls may fail at any time."""
    return _pins_gone().visible_to(user)


def gone_from(agent: Agent) -> PinQuerySet:
    return _pins_gone().filter(agent=agent)


def _pins_gone() -> PinQuerySet:
    is_removed = Q(tool__endpoint__removed_at__isnull=False) | Q(
        tool__endpoint__vendor__removed_at__isnull=False
    )
    gone = Pin.objects.active().filter(Q(tool__status=ToolStatus.WITHDRAWN) | is_removed)
    return gone.select_related("agent", "tool__endpoint__vendor").order_by("agent__name", "name", "pk")


class Review(NamedTuple):
    """What review says of a pinned tool. `item` is the finding to decide; None where that has been done."""

    tone: str
    word: str
    says: str
    item: int | None


def reviews(pins: Sequence[Pin]) -> dict[int, Review]:
    """By the id of the pin. Pins that review says nothing about are left out. `tool__stopped` is read."""
    waiting = holds.under_review(
        [pin.version for pin in pins] + [pin.tool.stopped for pin in pins if pin.tool.stopped]
    )
    kept_out = pinned_signatures.kept_out(pins)
    found: dict[int, Review] = {}
    for pin in pins:
        finding = waiting.get(pin.version_id)
        change = waiting.get(pin.tool.stopped_id or 0)
        if pin.pk in kept_out:
            state, says = kept_out[pin.pk]
            word = "Blocked in review" if state == FindingState.BLOCKED else "Waits for review"
            found[pin.pk] = Review("bad", word, says, finding.pk if finding else None)
        elif finding and finding.severity != Severity.LOW:
            found[pin.pk] = Review("warn", "Under review", finding.message, finding.pk)
        elif change and pin.tool.stopped:
            version = printable(pin.tool.stopped.name, 60)
            says = (
                f"The vendor lists version {version}, which waits for review. The agent keeps what it pinned."
            )
            found[pin.pk] = Review("warn", "Change in review", says, change.pk)
    return found


def pins_under_review(user: User) -> QuerySet[Pin]:
    """Pinned versions about which a decision waits, the newest pins first."""
    waiting = Finding.objects.filter(state=FindingState.OPEN).exclude(severity=Severity.LOW)
    about = Q(version=OuterRef("version")) | Q(subject=OuterRef("version__digest"))
    pins = Pin.objects.active().visible_to(user).filter(tool__in=waiting.values("tool"))
    pins = pins.filter(Exists(waiting.filter(about, tool=OuterRef("tool")))).order_by("-pk")
    return pins.select_related("agent", "version")


def agents_to_publish(user: User) -> list[Agent]:
    """Those that differ from their newest release, or hold something and have none. A sub-agent that was
    never published by itself goes with its parent."""
    agents = drafts.agents_visible_to(user)
    return [each for each in agents if each.is_changed and (each.last_release or each.parent_id is None)]


def first_steps(user: User) -> FirstSteps:
    # What this installation has done at least once, in one query.
    return _first_steps().rows(user=user.pk)[0]


@cache
def _first_steps() -> "CompiledQuery[FirstSteps]":
    fetched = ApiKey.objects.filter(scopes__contains=[Scope.RUNTIME]).exclude(last_used_at=None)
    steps = User.objects.filter(pk=given("user")).values(
        connected=Exists(Vendor.objects.live()),
        read=Exists(Tool.objects.all()),
        pinned=Exists(Pin.objects.live()),
        published=Exists(Release.objects.all()),
        fetched=Exists(fetched),
    )
    return CompiledQuery(steps)
