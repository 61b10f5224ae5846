"""What any protocol reads can be pinned and exported, in every format that has a place for it."""

import pytest

from catalog import protocols
from designer.exports.base import CannotCarryError, blocking
from tests.catalog.protocols.test_contract import Scene
from tests.designer.exports.formats import FORMATS, PROVED, VALIDATORS
from tests.designer.exports.test_exports import make_release, written


@pytest.fixture(params=protocols.PROTOCOLS, ids=lambda protocol: protocol.name)
def release(request):
    scene = Scene(request.param, "list")
    items = [item for page in scene.pages() for item in page.items]
    return make_release(*[scene.protocol.read(item.document) for item in items])


@pytest.mark.parametrize("name", PROVED)
def test_recorded_tools_keep_the_rules_of_every_target(release, name):
    if blocking(release, FORMATS[name].limits):
        with pytest.raises(CannotCarryError):
            written(name, release)
    else:
        VALIDATORS[name].validate(written(name, release))


def test_only_strict_targets_are_without_a_place_for_a_tool(release):
    blocked = {name for name, format_ in FORMATS.items() if blocking(release, format_.limits)}
    assert blocked <= {"a2t"}
