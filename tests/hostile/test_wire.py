"""Every way to break the wire, in every protocol: the result, and its message.

End to end with one protocol, and with others where their result differs; `make soak ARGS=wire` does it
with all.
"""

import pytest

from tests.hostile.bench import SHORT, USUAL, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile.rounds import break_the_wire, expected
from tests.hostile.table import ELSEWHERE, SLOW, WIRE
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, reply

pytestmark = pytest.mark.django_db


@pytest.fixture(params=DIALECTS)
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin())


def test_every_behaviour_has_a_row():
    assert set(BEHAVIOURS) == WIRE.keys() | ELSEWHERE


def test_a_broken_wire_changes_nothing_and_says_why(bench):
    before, recovered = bench.dump(), set()
    for name, outcome in WIRE.items():
        if bench.dialect.name == "a2t" or bench.dialect.name in outcome.unless:
            break_the_wire(bench, name, before, recovers=outcome.code not in recovered)
            recovered.add(outcome.code)
    assert bench.enumerate().unchanged == 6
    assert bench.dump() == before
    assert all(request.headers.get("authorization") for request in bench.vendor.requests)


def test_every_protocol_ends_at_a_broken_wire_with_the_same_words(bench):
    error_texts = {}
    for name in WIRE:
        bench.shop.hostile = BEHAVIOURS[name]
        error_texts[name] = bench.hears(SHORT if name in SLOW else USUAL)
    assert error_texts == {name: expected(bench, name) for name in WIRE}
    bench.shop.well()
    assert bench.enumerate().unchanged == 6
