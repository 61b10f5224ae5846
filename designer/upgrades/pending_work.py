"""Work that waits for a user: pins behind newer versions or under review, and unpublished changes."""

from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from catalog.models import Finding, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.models.tools import ToolStatus
from catalog.review import holds
from core.outbound.errors import printable
from designer.models import Agent, Pin, PinQuerySet
from designer.pins import pinned_signatures
from designer.releases import drafts
from people.models import User


def with_newer(pins: QuerySet[Pin]) -> QuerySet[Pin]:
    """Annotate each pin with `newer`, the number of versions after the pinned one."""
    later = Q(label_key__gt=OuterRef("version__label_key")) | Q(
        label_key=OuterRef("version__label_key"), ordinal__gt=OuterRef("version__ordinal")
    )
    offered = ToolVersion.objects.exclude(stopped_of__pk=OuterRef("tool"))  # what is held is no news yet
    newer = offered.filter(later, tool=OuterRef("tool")).order_by().values("tool")
    count = Subquery(newer.annotate(count=Count("pk")).values("count"), output_field=IntegerField())
    return pins.annotate(newer=Coalesce(count, 0))  # type: ignore[no-redef] # declared by Pin


def only_behind(pins: QuerySet[Pin]) -> QuerySet[Pin]:
    """Return the pins whose tool has a newer version, annotated with `newer`."""
    return with_newer(pins.exclude(version=F("tool__current"))).filter(Q(newer__gt=0))


def pins_behind(user: User) -> QuerySet[Pin]:
    return only_behind(Pin.objects.active().visible_to(user)).select_related("agent")


def pins_gone(user: User) -> PinQuerySet:
    """Return the user's visible pins of tools that are no longer offered: their calls may fail at any
    time.
    """
    is_removed = Q(tool__endpoint__removed_at__isnull=False) | Q(
        tool__endpoint__vendor__removed_at__isnull=False
    )
    unavailable = Pin.objects.active().filter(Q(tool__status=ToolStatus.WITHDRAWN) | is_removed)
    rows = unavailable.select_related("agent", "tool__endpoint__vendor")
    return rows.order_by("agent__name", "name", "pk").visible_to(user)


class Review(NamedTuple):
    """The review state of a pinned tool. `item` is the finding to decide; None if it has been decided."""

    tone: str
    word: str
    message: str
    item: int | None


def reviews(pins: Sequence[Pin]) -> dict[int, Review]:
    """Return the review states by pin id; pins without one are left out. Reads `tool__stopped`."""
    waiting = holds.under_review(
        [pin.version for pin in pins] + [pin.tool.stopped for pin in pins if pin.tool.stopped]
    )
    reasons = pinned_signatures.blocked_by_review(pins)
    review_by_pin: dict[int, Review] = {}
    for pin in pins:
        finding = waiting.get(pin.version_id)
        change = waiting.get(pin.tool.stopped_id or 0)
        if pin.pk in reasons:
            state, message = reasons[pin.pk]
            word = _("Blocked in review") if state == FindingState.BLOCKED else _("Waits for review")
            review_by_pin[pin.pk] = Review("bad", word, message, finding.pk if finding else None)
        elif finding and finding.severity != Severity.LOW:
            review_by_pin[pin.pk] = Review("warn", _("Under review"), finding.message, finding.pk)
        elif change and pin.tool.stopped:
            version = printable(pin.tool.stopped.name, 60)
            message = _(
                "Version {version} of the vendor waits for review. The agent keeps its pinned version."
            ).format(version=version)
            review_by_pin[pin.pk] = Review("warn", _("Change in review"), message, change.pk)
    return review_by_pin


def pins_under_review(user: User) -> QuerySet[Pin]:
    """Return pinned versions that wait for a decision, the newest pins first."""
    waiting = Finding.objects.filter(state=FindingState.OPEN).exclude(severity=Severity.LOW)
    is_about_version = Q(version=OuterRef("version")) | Q(subject=OuterRef("version__digest"))
    pins = Pin.objects.active().visible_to(user).filter(tool__in=waiting.values("tool"))
    pins = pins.filter(Exists(waiting.filter(is_about_version, tool=OuterRef("tool")))).order_by("-pk")
    return pins.select_related("agent", "version")


def agents_to_publish(user: User) -> list[Agent]:
    """Return the agents that differ from their newest release, or that have content and no release. A
    sub-agent that was never published by itself is published with its parent.
    """
    visible = drafts.agents_visible_to(user)
    return [
        agent for agent in visible if agent.is_changed and (agent.last_release or agent.parent_id is None)
    ]
