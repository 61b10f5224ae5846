"""Lists with something dropped, doubled, retyped, nested or misspelt, by the thousand, in every protocol."""

from hypothesis import HealthCheck, given, seed, settings

from soak.frame import Field
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile.test_mutations import Mutant, deeds, pages
from tests.hostile_vendor import HostileVendor, reply


def storm(field: Field) -> None:
    for protocol, dialect in DIALECTS.items():
        with HostileVendor(reply()) as vendor:
            mutant = Mutant(Bench(vendor, dialect, as_admin(), through_the_product=True))
            try:
                mutate(field, mutant, protocol)
            except AssertionError as exc:
                field.violation(f"{protocol}: {exc}")
        field.figure(f"{protocol}: ways to end", len(mutant.shown))


def mutate(field: Field, mutant: Mutant, protocol: str) -> None:
    count = field.times(short=10, long=4_000)

    @seed(field.seed)
    @given(steps=deeds, page=pages)
    @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None, deadline=None)
    def attempt(steps: object, page: int) -> None:
        field.fault(f"{protocol}: a list went wrong")
        mutant.goes_right(mutant.goes_wrong(steps, page))

    attempt()
