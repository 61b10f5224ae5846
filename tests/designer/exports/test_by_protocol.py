"""Tools of any protocol can be pinned and exported, in every format that can express them."""

import pytest

import protocols
from designer.exports.base import carried
from tests.designer.exports.formats import FORMATS, PROVED, VALIDATORS
from tests.designer.exports.test_exports import export, make_release
from tests.protocols.test_contract import Scene


@pytest.fixture(params=protocols.PROTOCOLS, ids=lambda protocol: protocol.name)
def release(request):
    scene = Scene(request.param, "list")
    items = [item for page in scene.pages() for item in page.items]
    return make_release(*[scene.protocol.read(item.document) for item in items])


@pytest.mark.parametrize("name", PROVED)
def test_recorded_tools_keep_the_rules_of_every_target(release, name):
    fitting = carried(release, FORMATS[name].limits).fitting
    if fitting.tools:
        VALIDATORS[name].validate(export(name, fitting))


def test_our_own_format_carries_every_tool(release):
    assert carried(release, FORMATS["json-schema"].limits).is_whole
