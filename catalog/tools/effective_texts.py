"""The texts of a tool in lists, comparisons and search: tuned texts if there are any, else the vendor's.

Tunings belong to a higher layer, which registers its rewriting function with `words_come_from` at start. The
transaction that changes a tuning or the current version writes the effective texts into the tool, and the
search index follows. docs/decisions/0029-tuned-texts.md has the reasons.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now

from catalog.models import Tool
from catalog.token_estimate import tokens_of
from protocols.signature import Annotations, Parameter, Signature

AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The tuning of one tool. `reword` applies it to a signature, and `count` returns the tokens of the
    result."""

    reword: Callable[[Signature], Signature]
    count: Callable[[Signature], int]


# Returns a rewrite for each of the tools that is tuned.
Words = Callable[[Collection[int]], Mapping[int, Rewrite]]
_words: list[Words] = []


def words_come_from(rule: Words) -> None:
    """Register the source of tunings. Called once, at start."""
    _words[:] = [rule]


def rewrites(tools: Collection[int]) -> Mapping[int, Rewrite]:
    return _words[0](tools) if tools and _words else {}


def effective_signatures(tools: Iterable[Tool]) -> dict[int, Signature]:
    """Return the current signature of each tool by primary key, with its tuned texts."""
    rows = [tool for tool in tools if tool.current]
    rewrites_by_tool = rewrites([tool.pk for tool in rows if tool.is_tuned])
    signatures = {tool.pk: tool.current.decoded() for tool in rows if tool.current}
    return {
        pk: rewrites_by_tool[pk].reword(vendors) if pk in rewrites_by_tool else vendors
        for pk, vendors in signatures.items()
    }


def effects(tool: Tool, vendors: Signature) -> Annotations:
    """Return the annotations of this version, in which tuned values for all agents override the vendor's."""
    rewrites_by_tool = rewrites([tool.pk]) if tool.is_tuned else {}
    return (rewrites_by_tool[tool.pk].reword(vendors) if tool.pk in rewrites_by_tool else vendors).annotations


def update_after_tuning(tool: Tool) -> None:
    """Update the tool after a change of its tuning. The transaction of the change holds the tool's lock."""
    Tool.objects.filter(pk=tool.pk).update(worded_at=Now())
    refresh([tool.pk])


def refresh(tools: Collection[int]) -> None:
    """Write the effective texts of their current versions into these tools. The caller holds their locks."""
    if not tools:
        return
    rewrites_by_tool = rewrites(tools)
    rows = list(Tool.objects.filter(pk__in=tools, current__isnull=False).select_related("current"))
    for tool in rows:
        if tool.current is None:
            continue
        tool.is_tuned = tool.pk in rewrites_by_tool
        vendors = tool.current.decoded()
        effective = rewrites_by_tool[tool.pk].reword(vendors) if tool.is_tuned else vendors
        tool.description, tool.title = effective.description, effective.title
        tool.tokens = rewrites_by_tool[tool.pk].count(vendors) if tool.is_tuned else tokens_of(vendors)
    Tool.objects.bulk_update(rows, ["title", "description", "tokens", "is_tuned"])


def catch_up(*, ends: float = math.inf) -> None:
    """Write the effective texts of tools that were tuned before this module existed.

    ends: the time.monotonic() after which no batch starts. The next call continues.
    """
    while time.monotonic() < ends:
        with transaction.atomic():
            waiting = Tool.objects.filter(is_tuned=True, worded_at=None).order_by("pk")
            tools = list(waiting.select_for_update(no_key=True).values_list("pk", flat=True)[:AT_ONCE])
            if not tools:
                return
            Tool.objects.filter(pk__in=tools).update(worded_at=Now())
            refresh(tools)


@dataclass(frozen=True, slots=True)
class ShownInput:
    """An input or output with its effective texts.

    vendors: the vendor's description if a tuned one replaces it, else None.
    vendors_name: the vendor's name if a designer gave another one, else "".
    """

    parameter: Parameter
    vendors: str | None = None
    is_hidden: bool = False
    vendors_name: str = ""


def inputs(vendors: Signature, effective: Signature) -> list[ShownInput]:
    """Return all inputs of the vendor, in its order, with their effective texts."""
    return _merge_parameters(vendors.inputs, effective.inputs)


def outputs(vendors: Signature, effective: Signature) -> list[ShownInput]:
    return _merge_parameters(vendors.outputs, effective.outputs)


def _merge_parameters(vendors: Sequence[Parameter], effective: Sequence[Parameter]) -> list[ShownInput]:
    """Match the parameters by id, because a tuning may change the name."""
    tuned_by_id = {parameter.id: parameter for parameter in effective}
    merged = []
    for original in vendors:
        tuned = tuned_by_id.get(original.id, original)
        description = original.description if tuned.description != original.description else None
        name = original.name if tuned.name != original.name else ""
        is_hidden = original.id not in tuned_by_id
        merged.append(ShownInput(tuned, description, is_hidden=is_hidden, vendors_name=name))
    return merged
