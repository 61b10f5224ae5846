"""Requests and threads share the decoded signature of a stored text, so nothing may change it.

In these tests the mappings and lists of a shared signature refuse each change, and exports of shared
signatures are compared with those of signatures that were decoded for one export alone.
"""

from typing import Any, NoReturn

import msgspec
import pytest
from msgspec.structs import replace

import protocols
from catalog.models import ToolVersion
from catalog.rules.diff import signatures as differences
from catalog.translations import tool_texts
from core.content_cache import ContentCache
from designer.exports import inputs, round_trip
from designer.exports.base import carried
from designer.exports.round_trip import Exported
from designer.forms.words_form import WordsForm
from designer.pins import token_budget
from designer.procedures import editing, vocabulary
from designer.releases import publishing
from designer.signatures.effective import as_document, effective, misfits
from designer.signatures.words import NOTHING, ParameterWords, ValueWords, Words
from execution.activities import interfaces
from people.models import Role
from protocols import signature as normal_form
from protocols.calls import arguments
from protocols.signature import AllowedValue, from_json, read_stored, to_json
from tests.designer.exports import real_tools
from tests.designer.exports.formats import FORMATS
from tests.designer.strategies import SCHEMAS, with_schemas
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import signed_in_as
from tests.protocols.test_contract import Scene
from tests.protocols.test_documents import IDENTITIES

# Of the operations of this product's own REST interface, which are alike; all recorded tools are tested.
EVERY = 12
WRITING = [name for name in IDENTITIES if name != "toy"]  # protocols that write any signature


def refuse(*_arguments: object, **_members: object) -> NoReturn:
    raise AssertionError("A shared signature was changed.")


class ReadOnlyMapping(dict[str, Any]):
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = refuse

    def __deepcopy__(self, _memo: object) -> dict[str, Any]:
        return msgspec.to_builtins(self)


class ReadOnlyList(list[Any]):
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = refuse
    remove = reverse = sort = refuse

    def __deepcopy__(self, _memo: object) -> list[Any]:
        return msgspec.to_builtins(self)


def read_only(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        members = {name: read_only(getattr(value, name)) for name in value.__struct_fields__}
        return replace(value, **members)
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    if isinstance(value, list):
        return ReadOnlyList(map(read_only, value))
    if isinstance(value, dict):
        return ReadOnlyMapping({name: read_only(member) for name, member in value.items()})
    return value


def awkward_signatures():
    values = (AllowedValue("OPEN", "Not closed"), AllowedValue("CLOSED"))
    default = {"b": [1, {"c": None}], "a": 1.0}
    own = make_signature(
        inputs=(
            make_parameter("state", type="enum", allowed_values=values, default="OPEN"),
            make_parameter("extra", type="json", required=False, default=default, rest={"x-order": [2, 1]}),
            make_parameter("due date", schema={"type": ["string", "null"], "enum": ["now", None]}),
        ),
        outputs=(
            make_parameter("rows", type="json", schema={"type": "array", "items": {"$ref": "#/$defs/a"}}),
        ),
        outputs_rest={"$defs": {"a": {"type": "object", "properties": {"b": {}}}}},
        rest={"z": {"list": [3, 1, 2]}, "a": True},
    )
    described = [
        with_schemas(inputs, outputs) for inputs, outputs in zip(SCHEMAS, SCHEMAS[::-1], strict=True)
    ]
    return [own, *described, *real_tools.recorded_tools(), *real_tools.rest_operations()[::EVERY]]


@pytest.fixture(scope="module")
def texts():
    return [to_json(signature).decode() for signature in awkward_signatures()]


@pytest.fixture
def shared(texts, monkeypatch):
    """The shared signatures, which refuse changes. What was shared before stays outside the test."""
    monkeypatch.setattr(normal_form, "_signatures", ContentCache(size=1_000))
    monkeypatch.setattr(normal_form, "from_json", lambda text: read_only(from_json(text)))
    return [read_stored(text) for text in texts]


def contents(signatures):
    """The bytes with all members in their order, which exports keep."""
    return [msgspec.json.encode(signature) for signature in signatures]


def write(name, release):
    return msgspec.json.encode(FORMATS[name].write(carried(release, FORMATS[name].limits).fitting))


def test_exports_of_shared_signatures_are_those_of_fresh_ones_in_any_order(texts, shared):
    release = real_tools.release_of(shared)
    names = list(FORMATS)
    expected = {name: write(name, real_tools.release_of(list(map(from_json, texts)))) for name in names}
    before = contents(shared)

    for order in (names, names[::-1], names[1::2] + names[::2]):
        for name in order:
            assert write(name, release) == expected[name], (name, order)
    assert contents(shared) == before
    assert all(
        read_stored(text) is signature
        for text, signature in zip(texts, shared, strict=True)
        if len(text) <= normal_form.MAX_SHARED_TEXT
    )


def tunings_of(signature):
    """Tuned texts, and presets and hidden values that make the tool's schemas be written again."""
    hides_value = {
        parameter.name: ParameterWords(values={parameter.allowed_values[0].name: ValueWords(hidden=True)})
        for parameter in signature.inputs
        if len(parameter.allowed_values) > 1
    }
    presets = {
        parameter.name: ParameterWords(preset=parameter.default, hidden=True, description="Tuned")
        for parameter in signature.inputs
    }
    described = {parameter.name: ParameterWords(description="Tuned") for parameter in signature.inputs}
    return [
        NOTHING,
        *(Words(description="Tuned", parameters=tuned) for tuned in (hides_value, presets, described)),
    ]


def test_no_function_of_a_signature_changes_it(texts, shared):
    before = contents(shared)
    for signature, other in zip(shared, [*shared[1:], shared[0]], strict=True):
        changed = from_json(to_json(signature))
        differences._compare(signature, other)
        differences._compare(changed, replace(signature, description="Another"))
        interfaces.why_unfit(signature, other)
        tool_texts.texts_of(signature)
        token_budget.tokens_of_signature(signature)
        arguments.find_problems(signature, {})
        WordsForm(version=ToolVersion(signature=to_json(signature).decode(), ordinal=1), words=NOTHING)
        for name in WRITING:
            protocols.get(name)().write(signature, *IDENTITIES[name])
        for words in tunings_of(signature):
            tool = effective(signature, name="tool", agent_tuning=words)
            misfits(signature, words)
            as_document(tool)
            vocabulary._describe_tool(tool)
            token_budget.shown_signature(tool)
            for format_ in FORMATS.values():
                list(format_.limits.remarks_on(tool))
            written = inputs.write(tool, FORMATS["gemini"].limits.contract)
            round_trip.check(written.tool, Exported(written.schema, inputs.names_in(written)), is_quick=False)
    for protocol in protocols.PROTOCOLS:
        scene = Scene(protocol, "list")
        for item in (item for page in scene.pages() for item in page.items):
            scene.protocol.write(read_only(scene.protocol.read(item.document)), item.tool_id, item.label)
    assert contents(shared) == before


PAGES = (
    "",
    "publish/",
    "upgrades/",
    "procedures/",
    "procedures/refill/",
    "procedures/refill/proposals/",
    "tree/",
    "mocks/",
    "rehearsals/",
    "environments/",
    "pins/{pin}/",
    "releases/1/",
)
TOOL_PAGES = ("", "versions/", "try/", "tuning/")


@pytest.mark.django_db
def test_no_page_changes_the_signatures_that_it_shares(texts, shared):
    admin, agent = make_user(Role.ADMIN), make_agent(slug="desk")
    for number, text in enumerate(texts[:24]):
        pin = make_pin(agent, make_tool(from_json(text), tool_id=f"tool-{number}"), name=f"tool_{number}")
        make_version(pin.tool, replace(from_json(text), description="Another"))
    editing.create_procedure(agent, actor=admin, title="Refill", body="Call tool_0(). Close the account.")
    publishing.publish(agent, actor=admin, channel="live")
    browser, tools = signed_in_as(admin), agent.pins.values_list("tool", flat=True)[::4]
    paths = [f"/agents/desk/{path.format(pin=pin.pk)}" for path in PAGES]
    paths += [f"/tools/{tool}/{path}" for tool in tools for path in TOOL_PAGES]

    for path in paths:
        assert browser.get(path).status_code == 200, path
    signatures = {text: signature for text, (signature, _) in normal_form._signatures._results.items()}
    assert len(signatures) > len(texts)
    assert contents(signatures.values()) == contents(read_only(from_json(text)) for text in signatures)
