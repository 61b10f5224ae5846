"""Ten thousand tools are tuned, reverted, restored, settled and moved while their vendors change them.

Vendors also take them away and bring them back. No reading writes a tuning, and what agents show stays to the
letter.
"""

from collections import Counter
from random import Random

from soak.frame import Field
from tests.designer.walks import PROTOCOLS, Walks
from tests.hostile_vendor import HostileVendor, reply

TOOLS, ROUNDS = 100, 6


def storm(field: Field) -> None:
    done: Counter[str] = Counter()
    for number in range(field.times(short=4, long=100)):
        protocol = PROTOCOLS[number % len(PROTOCOLS)]
        with HostileVendor(reply()) as vendor:
            random = Random(f"{field.seed}/{number}")
            walks = Walks(vendor, protocol, random, TOOLS, first=number * TOOLS + 1)
            try:
                walks.walk(ROUNDS)
            except AssertionError as exc:
                field.violation(f"vendor {number}: {exc}")
        done += walks.done
        for _ in range(walks.done["readings"]):
            field.fault(f"{protocol}: a vendor of {TOOLS} tuned tools is read")
        # Reported after each vendor, for a storm that is interrupted.
        field.figure("random sequences", (number + 1) * TOOLS)
        for what, times in sorted(done.items()):
            field.figure(what, times)
