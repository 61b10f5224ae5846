"""Lists with something dropped, doubled, retyped, nested or misspelt: every item ends somewhere, by name.

PEGBOARD_MUTATIONS=20000 tries so many instead of 100; `make soak ARGS=mutations` does that.
"""

import copy
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run, Tool
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db

EXAMPLES = int(os.environ.get("PEGBOARD_MUTATIONS", "100")) // len(DIALECTS)
ODD = [
    *(None, True, 0, -1, 1.5, 10**30, 1e308, "", " ", "x" * 300, "x" * 40_000, [], {}, [[]], {"": {}}),
    *("\0", "\ud800", "\u202e", "\u200b", "é", "e\u0301", "\U000e0041", "\r\n", "<script>", "../..", "a/b"),
    *({"$ref": "#"}, {"$ref": "http://127.0.0.66/"}, {"type": "string"}, [None], [{"a": 1}], ["a"]),
]


def places(value, path=()):
    """Every place in a document, the whole first."""
    yield path
    if isinstance(value, dict):
        for name, child in value.items():
            yield from places(child, (*path, name))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from places(child, (*path, number))


def mutated(document, deed, where, value):
    """The document after one deed at the `where`-th of its places (counted round)."""
    paths = list(places(document))
    path = paths[where % len(paths)]
    if not path:
        return value if deed == "retype" else [document] if deed == "nest" else document
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    if deed == "drop":
        del holder[last]
    elif deed == "double" and isinstance(holder, list):
        holder.insert(last, holder[last])
    elif deed == "double" and isinstance(last, str):
        holder[last.swapcase()] = holder[last]
    elif deed == "nest":
        for _ in range(80 if where % 2 else 1):
            holder[last] = {"a": holder[last]} if isinstance(holder[last], dict) else [holder[last]]
    elif deed == "rename" and isinstance(holder, dict):
        holder[f"{last}\u200b"] = holder.pop(last)
    else:
        holder[last] = value
    return document


deeds = st.lists(
    st.tuples(
        st.sampled_from(["drop", "double", "retype", "nest", "rename"]),
        st.integers(0, 500),
        st.sampled_from(ODD),
    ),
    min_size=1,
    max_size=4,
)

pages = st.integers(1, 3)


def applied(steps, document):
    """A copy of the document after all deeds; a value put in twice is two values."""
    document = copy.deepcopy(document)
    for deed, where, value in steps:
        document = mutated(document, deed, where, copy.deepcopy(value))
    return document


class Mutant:
    """A bench whose vendor breaks one page, or one descriptor of an agent."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.before = bench.dump(pages=False)
        self.shown = set()
        self.tools = {bench.dialect.id_of(tool) for tool in bench.shop.tools}

    def goes_wrong(self, steps: Any, page: int) -> Run:
        dialect, shop = self.bench.dialect, self.bench.shop
        shop.turn = lambda number, document: (
            applied(steps, document) if number == page or not dialect.is_paged else document
        )

        def describe(request, tools):
            reply = dialect.extra_reply(request, tools)
            return applied(steps, reply) if reply and str(page) in request.path[-30:] else reply

        shop.describe = describe
        run = self.bench.enumerate()
        assert run.error_code != "INTERNAL", run.error_message
        if run.status == "succeeded":
            assert run.added + run.changed + run.unchanged + run.rejected == run.seen
            assert all(rejection.code and rejection.reason for rejection in run.rejections.all())
        else:
            assert run.error_code
            assert run.error_message.isprintable()
        self.is_shown(run)
        return run

    def is_shown(self, run):
        """Once for each way to end; the pages look at nothing else."""
        ends = {run.error_code, *run.rejections.values_list("code", flat=True)}
        if ends - self.shown:
            self.shown |= ends
            assert self.bench.pages.get(f"/runs/{run.pk}/").status_code == 200
            assert run.status == "succeeded" or (
                self.bench.pages.get(f"/runs/{run.pk}/reply/").status_code == 200
            )

    def goes_right(self, wrong: Run) -> None:
        self.bench.shop.well()
        if wrong.status == "failed":  # and nothing is to be put right again
            assert self.bench.dump(pages=False) == self.before
            return
        run = self.bench.enumerate()
        if run.error_code in {"EMPTY_HELD", "SHRINK_HELD"}:  # odd tools were taken, and a person lets them go
            run = enumeration_runs.perform(enumeration_runs.confirm_held(run, actor=self.bench.admin).pk)
        assert run.status == "succeeded", run.error_message
        active = Tool.objects.filter(endpoint=self.bench.endpoint, status="active")
        assert set(active.values_list("tool_id", flat=True)) == self.tools
        for tool in active.select_related("current"):
            assert "Does thing" in tool.current.raw
        self.before = self.bench.dump(pages=False)


@pytest.mark.parametrize("protocol", DIALECTS)
def test_every_item_is_stored_quarantined_or_refused_by_name(protocol):
    with HostileVendor(reply()) as vendor:
        mutant = Mutant(Bench(vendor, DIALECTS[protocol], as_admin()))

        @given(steps=deeds, page=pages)
        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
        def attempt(steps, page):
            mutant.goes_right(mutant.goes_wrong(steps, page))

        attempt()
