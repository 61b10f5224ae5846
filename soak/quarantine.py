"""One bad tool among 300 good ones, of forty kinds and more, in every protocol: it costs itself alone."""

from soak.frame import Field
from tests.hostile.bad_tools import Bad, bad_ones
from tests.hostile.bench import Bench, as_admin, rejections
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, reply


def storm(field: Field) -> None:
    good = field.times(short=30, long=300)
    for protocol, dialect in DIALECTS.items():
        with HostileVendor(reply()) as vendor:
            bench = Bench(vendor, dialect, as_admin(), count=good, through_the_product=True)
            bench.widen()
            bench.enumerate()
            before = bench.dump(pages=False)
            for number, kind in enumerate(list(bad_ones(dialect))[:: field.times(short=20, long=1)], 1_001):
                play(field, bench, number, kind)
                field.fault(f"{protocol}: one bad tool of {good + 1}", kind.name)
            field.expect(bench.dump(pages=False) == before, f"{protocol}: what was known has changed")


def play(field: Field, bench: Bench, number: int, kind: Bad) -> None:
    good = bench.shop.tools
    tool = bench.dialect.tool(number)
    bench.shop.tools = [*good, kind.spoil(bench.dialect, tool)]
    run = bench.enumerate()
    reported = [(str(rejected), code) for rejected, code in rejections(run)]
    is_so = (run.unchanged, run.added, reported) == (
        len(good),
        0,
        [(str(bench.dialect.id_of(tool)), kind.code)],
    )
    field.expect(is_so, f"{bench.dialect.name}, {kind.name}: {run.unchanged} unchanged, rejected {reported}")
    bench.shop.tools = good
