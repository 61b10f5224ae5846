"""Canonical JSON of texts that are more than texts."""

import pytest

from core.canonical_json import canonical
from core.translatable import Wording


def test_a_sentence_that_pages_translate_is_stored_as_it_reads():
    assert canonical({"message": Wording("No {thing}.", {"thing": "tool"})}) == b'{"message":"No tool."}'
    with pytest.raises(TypeError):
        canonical({"message": object()})
