"""Every way to break the wire, in every protocol, end to end: a good reading, the hostile one, a good one."""

import pytest

from tests.hostile.bench import SECRET, SHORT, USUAL, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile.table import ELSEWHERE, SLOW, WIRE
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, reply

pytestmark = pytest.mark.django_db


def test_every_behaviour_has_a_row():
    assert set(BEHAVIOURS) == WIRE.keys() | ELSEWHERE


@pytest.mark.parametrize("protocol", DIALECTS)
def test_a_broken_wire_changes_nothing_and_says_why(protocol):
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, DIALECTS[protocol], as_admin())
        path = f"/{protocol}{bench.dialect.list_path}"
        before = bench.dump()
        for name, outcome in WIRE.items():
            if not (outcome.number or protocol == "a2t" or protocol in outcome.unless):
                continue  # the same door for all: those outside the bar's table are tried on one
            bench.shop.hostile = BEHAVIOURS[name]
            run = bench.read(SHORT if name in SLOW else USUAL)
            code, says = outcome.of(protocol)
            says = says.format(host=bench.host, path=path)
            assert (run.status, run.error_code, run.error_message) == ("failed", code, says), name
            assert run.finished_at is not None
            bench.is_told(run, code, says)
            assert bench.dump() == before, name
            assert (bench.endpoint.status, bench.endpoint.error_code) == ("failing", code), name
            bench.shop.well()
            assert bench.read().unchanged == 6, name
            assert (bench.endpoint.status, bench.endpoint.failures) == ("ok", 0), name
        assert bench.dump() == before
        assert SECRET not in before
        assert all(request.headers.get("authorization") for request in vendor.requests)
