"""Signatures of public APIs in every format: they keep each target's rules, and each provider takes them."""

import pytest

from designer.exports.base import carried
from tests.designer.exports import real
from tests.designer.exports.formats import FORMATS, PROVED, VALIDATORS
from tests.designer.exports.test_by_sdk import JUDGES
from tests.designer.exports.test_exports import written

# Of some thousands; `python -m soak formats` takes them all.
SAMPLED = 300


@pytest.fixture(scope="module")
def release():
    found = real.signatures()
    return real.release_of(found[:: max(1, len(found) // SAMPLED)])


@pytest.mark.parametrize("name", PROVED)
def test_real_tools_are_carried_and_taken(release, name):
    if release.tools:  # nothing is tried where there are none
        assert carried(release, FORMATS[name].limits).is_whole
        document = written(name, release)
        VALIDATORS[name].validate(document)
        assert JUDGES.get(name, lambda taken: taken)(document) == document
