"""Every way to break the wire, end to end with every protocol: good reading, hostile one, good one."""

from soak.frame import Field, stopwatch
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile.rounds import break_the_wire
from tests.hostile.table import WIRE
from tests.hostile_vendor import HostileVendor, reply


def storm(field: Field) -> None:
    for protocol, dialect in DIALECTS.items():
        with HostileVendor(reply()) as vendor:
            bench = Bench(vendor, dialect, as_admin(), through_the_product=True)
            before = bench.dump()
            for name in list(WIRE)[:: field.times(short=10, long=1)]:
                with stopwatch() as seconds:
                    try:
                        break_the_wire(bench, name, before)
                    except AssertionError as exc:
                        field.violation(f"{protocol}, {name}: {exc}")
                        bench.shop.well()
                        before = bench.dump()
                field.fault(f"{protocol}: wire broken", name, recovery=seconds())
