"""Tools that others wrote in every format: they keep each target's rules, and each provider accepts them."""

import pytest

from designer.exports.base import carried
from tests.designer.exports import real_tools
from tests.designer.exports.formats import FORMATS, PROVED, VALIDATORS
from tests.designer.exports.test_by_sdk import JUDGES
from tests.designer.exports.test_exports import export


@pytest.fixture(scope="module")
def release():
    return real_tools.release_of(real_tools.signatures())


@pytest.mark.parametrize("name", PROVED)
def test_real_tools_are_carried_and_taken(release, name):
    result = carried(release, FORMATS[name].limits)
    assert set(result.left_out) == {remark.tool for remark in result.blocking}
    assert len(result.fitting.tools) > 200
    document = export(name, result.fitting)
    VALIDATORS[name].validate(document)
    assert JUDGES.get(name, lambda document: document)(document) == document
