import pytest

from protocols.signature import Annotations


@pytest.mark.parametrize(
    ("stated", "effect"),
    [
        ({}, "unknown"),
        ({"destructive": False, "idempotent": True}, "unknown"),
        ({"read_only": True}, "reads"),
        ({"read_only": True, "destructive": False}, "reads"),
        ({"read_only": False}, "changes"),
        ({"read_only": False, "destructive": False}, "changes"),
        ({"destructive": True}, "destroys"),
        ({"read_only": True, "destructive": True}, "destroys"),
    ],
)
def test_the_worst_that_is_stated_counts_and_silence_is_not_harmless(stated, effect):
    assert Annotations(**stated).effect == effect
