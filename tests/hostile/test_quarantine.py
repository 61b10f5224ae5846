"""Forty kinds of bad tools among good ones: each costs itself and nothing else (H6).

All at once here; one at a time among 300 in `make soak ARGS=quarantine`.
"""

import pytest

from tests.hostile.bad_tools import bad_ones
from tests.hostile.bench import Bench, as_admin, rejections
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db
GOOD, KINDS = 30, 40


@pytest.mark.parametrize("protocol", DIALECTS)
def test_forty_kinds_of_bad_tools_cost_themselves_alone(protocol):
    dialect = DIALECTS[protocol]
    kinds = list(bad_ones(dialect))
    assert len(kinds) >= KINDS
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, dialect, as_admin(), count=GOOD)
        bench.widen()
        bench.enumerate()
        before = bench.dump(pages=False)
        spoiled = {
            str(dialect.id_of(dialect.tool(number))): (kind, kind.spoil(dialect, dialect.tool(number)))
            for number, kind in enumerate(kinds, start=1_001)
        }
        bench.shop.tools += [tool for _, tool in spoiled.values()]
        run = bench.enumerate()
        assert (run.status, run.unchanged, run.added) == ("succeeded", GOOD, 0), run.error_message
        assert (run.seen, run.rejected) == (GOOD + len(kinds), len(kinds))
        code_of = dict(rejections(run))
        wrong = {
            kind.name: code_of.get(tool)
            for tool, (kind, _) in spoiled.items()
            if code_of.get(tool) != kind.code
        }
        assert wrong == {}
        page_text = bench.run_page(run)
        assert str(len(kinds)) in page_text
        assert all(rejection.reason.isprintable() for rejection in run.rejections.all())
        assert bench.dump(pages=False) == before
