"""The texts of a tool in lists, comparisons and search: the vendor's, or tuned ones in their place.

Tunings are kept in a layer above the catalog, which asks for them through the one function that is
registered here when the product starts. The effective texts of the current version are written onto the tool
in the transaction that changes either; the index follows. docs/decisions/0029-tuned-texts.md says why.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.db import transaction
from django.db.models.functions import Now

from catalog.models import Tool
from catalog.token_estimate import tokens_of
from core import wakes
from protocols.signature import Annotations, Parameter, Signature

INDEX = "catalog.tasks.index_pending"
AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What words of ours make of a signature, and how many tokens a model then reads."""

    reword: Callable[[Signature], Signature]
    count: Callable[[Signature], int]


# For those of the tools that there are words of ours about.
Words = Callable[[Collection[int]], Mapping[int, Rewrite]]
_words: list[Words] = []


def words_come_from(rule: Words) -> None:
    """Called once, when the product starts."""
    _words[:] = [rule]


def rewrites(tools: Collection[int]) -> Mapping[int, Rewrite]:
    return _words[0](tools) if tools and _words else {}


def shown(tools: Iterable[Tool]) -> dict[int, Signature]:
    """The current version of each as it is shown; of tools that are not tuned, the vendor's own."""
    rows = [tool for tool in tools if tool.current]
    ours = rewrites([tool.pk for tool in rows if tool.is_tuned])
    signatures = {tool.pk: tool.current.decoded() for tool in rows if tool.current}
    return {pk: ours[pk].reword(vendors) if pk in ours else vendors for pk, vendors in signatures.items()}


def effects(tool: Tool, vendors: Signature) -> Annotations:
    """What a call of this version does: as words of ours for all agents state it, before the vendor."""
    ours = rewrites([tool.pk]) if tool.is_tuned else {}
    return (ours[tool.pk].reword(vendors) if tool.pk in ours else vendors).annotations


def changed(tool: Tool) -> None:
    """A tuning of it was written or taken back in this transaction, which holds the tool's lock."""
    Tool.objects.filter(pk=tool.pk).update(worded_at=Now())
    refresh([tool.pk])
    transaction.on_commit(partial(index_soon, tool.endpoint_id), robust=True)


def refresh(tools: Collection[int]) -> None:
    """Write onto these tools what is shown of their current versions. The caller holds their locks."""
    if not tools:
        return
    ours = rewrites(tools)
    rows = list(Tool.objects.filter(pk__in=tools, current__isnull=False).select_related("current"))
    for tool in rows:
        if tool.current is None:
            continue
        tool.is_tuned = tool.pk in ours
        vendors = tool.current.decoded()
        said = ours[tool.pk].reword(vendors) if tool.is_tuned else vendors
        tool.description, tool.title = said.description, said.title
        tool.tokens = ours[tool.pk].count(vendors) if tool.is_tuned else tokens_of(vendors)
    Tool.objects.bulk_update(rows, ["title", "description", "tokens", "is_tuned"])


def catch_up(*, ends: float = math.inf) -> None:
    """Write the effective texts of tools that were tuned before lists and search showed it.

    After `ends` (time.monotonic) no other portion begins; the next call continues.
    """
    while time.monotonic() < ends:
        with transaction.atomic():
            waiting = Tool.objects.filter(is_tuned=True, worded_at=None).order_by("pk")
            tools = list(waiting.select_for_update(no_key=True).values_list("pk", flat=True)[:AT_ONCE])
            if not tools:
                return
            Tool.objects.filter(pk__in=tools).update(worded_at=Now())
            refresh(tools)


def index_soon(endpoint: int) -> None:
    # Without a broker the message is lost, and the search index follows within a minute by itself.
    wakes.wake_worker(INDEX, endpoint)


@dataclass(frozen=True, slots=True)
class ShownInput:
    """An input or output. `vendors` is the vendor's description where ours stands in its place, else None;
    `vendors_name` is the vendor's name where a designer gave it another."""

    parameter: Parameter
    vendors: str | None = None
    is_hidden: bool = False
    vendors_name: str = ""


def inputs(vendors: Signature, shown: Signature) -> list[ShownInput]:
    """All that the vendor takes, in its order, as it is shown."""
    return _beside(vendors.inputs, shown.inputs)


def outputs(vendors: Signature, shown: Signature) -> list[ShownInput]:
    return _beside(vendors.outputs, shown.outputs)


def _beside(vendors: Sequence[Parameter], shown: Sequence[Parameter]) -> list[ShownInput]:
    # By their identity, because the name may be ours.
    seen = {parameter.id: parameter for parameter in shown}
    found = []
    for theirs in vendors:
        ours = seen.get(theirs.id, theirs)
        said = theirs.description if ours.description != theirs.description else None
        name = theirs.name if ours.name != theirs.name else ""
        found.append(ShownInput(ours, said, is_hidden=theirs.id not in seen, vendors_name=name))
    return found
