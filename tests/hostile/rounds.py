"""One hostile reply end to end: a good reading, the hostile one, a good one. For the suite and for storms."""

from tests.hostile.bench import SECRET, SHORT, USUAL, Bench
from tests.hostile.table import SLOW, WIRE
from tests.hostile_vendor import BEHAVIOURS


def break_the_wire(bench: Bench, name: str, before: str, *, recovers: bool = True) -> None:
    """`before` is what was known; with `recovers` a good reading follows, which finds all of it unchanged."""
    bench.shop.hostile = BEHAVIOURS[name]
    run = bench.enumerate(SHORT if name in SLOW else USUAL)
    code, message = expected(bench, name)
    assert (run.status, run.error_code, run.error_message) == ("failed", code, message), name
    assert run.finished_at is not None
    bench.is_told(run, code, message)
    assert bench.dump() == before, name
    assert (bench.endpoint.status, bench.endpoint.error_code) == ("failing", code), name
    assert SECRET not in before
    bench.shop.well()
    if recovers:
        assert bench.enumerate().unchanged == 6, name
        assert (bench.endpoint.status, bench.endpoint.failures) == ("ok", 0), name


def expected(bench: Bench, name: str) -> tuple[str, str]:
    code, message = WIRE[name].of(bench.dialect.name)
    path = f"/{bench.dialect.name}{bench.dialect.list_path}"
    return code, message.format(host=bench.host, path=path)
