"""Sentences that pages translate late, at the doors of programs."""

import json

from core.errors import DomainError
from core.translatable import Wording
from execution.calls import results
from protocols.calls import outcomes
from serving.serve.base import refusal_of


def test_a_wording_is_stored_and_sent_as_plain_text():
    """It is a text of a class of its own, which msgspec does not encode."""
    wording = Wording("It was removed.")
    refusal = refusal_of(DomainError("removed", wording, fields={"tool": wording}, status=409))

    assert json.loads(results.encode_result(outcomes.failed("refused", "removed", wording), []))
    assert {type(refusal.message), *map(type, refusal.fields.values())} == {str}
