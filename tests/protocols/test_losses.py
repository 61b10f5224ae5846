"""A document that is read, stored and written equals the original, or a loss report names the difference."""

import copy
import fnmatch
import json

import pytest
from hypothesis import given

import protocols
from core.canonical_json import canonical
from people.models import Role
from protocols import signature
from protocols.a2t.client import A2T
from protocols.list_pages import UnreadableItemError
from protocols.losses import losses, report
from tests.core.schema import schemas
from tests.factories import make_tool, make_user, make_version
from tests.protocols.test_contract import FIXTURES, Scene
from tests.protocols.toy.client import Toy
from tests.vendor import tool


def stored(protocol, document):
    """Return the signature as it comes back from the database."""
    return signature.from_json(signature.to_json(protocol.read(document)))


def lost_paths(protocol, item):
    return losses(item.document, protocol.write(stored(protocol, item.document), item.tool_id, item.label))


def is_known(protocol, path):
    """Members that this protocol's normal form is known to lose; each has its reason in docs/protocols.md."""
    losses_file = FIXTURES / protocol.name / "losses.json"
    patterns = json.loads(losses_file.read_text(encoding="utf-8"))["known"] if losses_file.exists() else []
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


@pytest.mark.parametrize("scene", ["list", "one_bad_item"])
@pytest.mark.parametrize("protocol", [*protocols.PROTOCOLS, Toy], ids=lambda protocol: protocol.name)
def test_recorded_items_are_written_as_they_came(protocol, scene):
    recorded = Scene(protocol, scene)
    items = [item for page in recorded.pages() for item in page.items]
    assert items
    for item in items:
        assert [path for path in lost_paths(recorded.protocol, item) if not is_known(protocol, path)] == []


@given(schemas.values, schemas.values)
def test_a_report_is_empty_for_equal_documents_and_for_no_others(before, after):
    assert losses({"a": before}, {"a": copy.deepcopy(before)}) == []
    # 1 and 1.0 are one number in JSON, but not in its canonical bytes.
    if json.loads(json.dumps(before), parse_int=float) != json.loads(json.dumps(after), parse_int=float):
        assert losses({"a": before}, {"a": after})


@given(schemas.values, schemas.values)
def test_what_is_not_named_is_equal(before, after):
    first, second = {"a": before, "b": [before]}, {"a": after, "b": [before]}
    for path in losses(first, second):
        assert path == "/a" or path.startswith("/a/")


@pytest.mark.parametrize(
    ("before", "after", "path", "message"),
    [
        ({"a": 1}, {}, "/a", "“a” is stored in the vendor's document only."),
        ({}, {"a": True}, "/a", "“a” is read as true; the vendor omitted it."),
        ({"a": "x"}, {"a": "y"}, "/a", "“a” is read as “y”; the vendor wrote “x”."),
        ({"a": [1]}, {"a": []}, "/a", "“a” is read as an array; the vendor wrote an array."),
        ({"a/b": {"~": 1}}, {"a/b": {}}, "/a~1b/~0", "“~” is stored in the vendor's document only."),
        ({"a": [{"b": 1}]}, {"a": [{}]}, "/a/0/b", "“b” is stored in the vendor's document only."),
        ({"a": None}, {"a": "x"}, "/a", "“a” is read as “x”; the vendor wrote null."),
        ({"a": 1}, {"a": True}, "/a", "“a” is read as true; the vendor wrote 1."),
    ],
)
def test_each_loss_has_a_pointer_and_a_sentence(before, after, path, message):
    assert [(loss.path, loss.message) for loss in report(before, after)] == [(path, message)]


@pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1e22, 10**22), (0.0, -0.0), (1e300, 10**300)])
def test_one_number_in_two_spellings_is_no_loss(before, after):
    assert losses({"a": before}, {"a": after}) == []


def test_numbers_beyond_all_floats_are_told_apart():
    assert losses({"a": 10**400}, {"a": 1.0}) == ["/a"]


def test_unknown_members_are_kept():
    document = tool(
        1,
        x={"y": [None]},
        input_parameters=[{"id": "i", "name": "City", "x-hint": 1, "required": True, "type": "string"}],
        output_parameters=[{"id": "o", "name": "Sky", "required": True, "type": "string"}],
    )
    signature_read = stored(A2T(), document)
    assert signature_read.rest == {"x": {"y": [None]}}
    assert signature_read.inputs[0].rest == {"x-hint": 1}
    assert signature_read.outputs[0].rest == {"required": True}


@pytest.mark.parametrize(
    ("member", "value"),
    [("maxLength", 5), ("allowedValues", [{"name": "A"}]), ("type", "String"), ("max", None)],
)
def test_other_spellings_are_named(member, value):
    document = tool(1, input_parameters=[{"id": "i", "name": "City", member: value}])
    document_written = A2T().write(stored(A2T(), document), document["toolId"], "1")
    assert f"/input_parameters/0/{member}" in losses(document, document_written)


@given(schemas.values)
def test_whatever_an_unknown_member_holds_comes_back(value):
    document = tool(1, x=value)
    document_written = A2T().write(stored(A2T(), document), document["toolId"], "1")
    assert losses({"x": document["x"]}, {"x": document_written["x"]}) == []


@pytest.fixture
def visitor(db, client):
    client.force_login(make_user(Role.VIEWER))
    return client


def version_of(document):
    row = make_tool(tool_id=document["toolId"])
    return make_version(row, A2T().read(document), raw=canonical(document).decode())


def test_loss_report_comes_with_the_version(visitor):
    parameter = {"id": "c", "name": "city", "type": "STRING", "description": "", "required": True}
    version = version_of(tool(1, 2, input_parameters=[parameter]))

    version_body = visitor.get(f"/api/v1/tools/{version.tool_id}/versions/{version.ordinal}/").json()
    page = visitor.get(f"/tools/{version.tool_id}/raw/").content.decode()

    path = "/input_parameters/0/type"
    message = "“type” is read as “string”; the vendor wrote “STRING”."
    assert version_body["losses"] == [{"path": path, "message": message}]
    assert path in page
    assert message in page


def test_raw_tab_says_when_nothing_is_lost(visitor):
    version = version_of(tool(1, 2))

    assert "exactly as it was imported" in visitor.get(f"/tools/{version.tool_id}/raw/").content.decode()


def test_a_member_of_the_wrong_kind_still_costs_the_item():
    with pytest.raises(UnreadableItemError):
        A2T().read(tool(1, input_parameters={"x": 1}))
