"""No reading of a vendor touches our words: `make soak ARGS=tunings` takes 10,000 walks instead of these."""

from random import Random

import pytest

from tests.designer.walks import OF_DESIGNERS, OF_THE_VENDOR, PROTOCOLS, Walks
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db
TOOLS, ROUNDS = 60, 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_reading_changes_a_tuning_or_what_is_inherited_from_it(protocol):
    with HostileVendor(reply()) as vendor:
        walks = Walks(vendor, protocol, Random(f"walks/{protocol}"), TOOLS)
        walks.walk(ROUNDS)

    # The walks went where it matters.
    assert walks.done["members became stale by a reading"] > TOOLS / 20
    for deed in (*OF_DESIGNERS, *(f"vendor: {deed}" for deed in OF_THE_VENDOR)):
        assert walks.done[deed], f"no walk had a step “{deed}”"
