"""The contract of every protocol, driven by recorded replies in tests/fixtures/<protocol>/."""

import ast
import json
import re
from itertools import islice
from pathlib import Path

import grimp
import msgspec
import pytest

import protocols
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, Tool
from catalog.models.runs import Trigger
from core.outbound.errors import ProtocolViolationError
from execution.calls import requesting
from execution.calls.checks import ArgumentsError
from people.models import Role
from protocols import signature
from protocols.base import Protocol
from protocols.list_pages import NoKnownPages
from tests.factories import make_endpoint, make_tool, make_user
from tests.protocols.toy.client import Toy
from tests.scripted import Exchange, ScriptedSession
from tests.vendor import Vendor, serving

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "protocols.md"
FIXTURES = ROOT / "tests" / "fixtures"


@pytest.fixture(params=[*protocols.PROTOCOLS, Toy], ids=lambda protocol: protocol.name)
def protocol(request):
    return request.param


class Scene:
    """One recorded conversation and what has to come of it."""

    def __init__(self, protocol: type[Protocol], name: str) -> None:
        path = FIXTURES / protocol.name / f"{name}.json"
        assert path.exists(), f"{path.relative_to(ROOT)} is missing; docs/protocols.md says what it holds"
        recorded = json.loads(path.read_text(encoding="utf-8"))
        exchanges = [msgspec.convert(exchange, Exchange) for exchange in recorded["exchanges"]]
        self.session = ScriptedSession(*exchanges, root=recorded.get("root", "https://vendor.example"))
        self.protocol = protocol(recorded.get("settings"))
        self.tool_id = recorded.get("tool_id", "")
        self.label = recorded.get("label")
        self.arguments = recorded.get("arguments", {})
        self.expected = recorded["expect"]
        if "signature" in recorded:
            self.signature = self.protocol.read(recorded["signature"])

    def pages(self, max_pages=50):
        return list(islice(self.protocol.enumerate(self.session, NoKnownPages()), max_pages))

    def invoke(self):
        return self.protocol.invoke(self.session, self.tool_id, self.label, self.signature, self.arguments)


def listed_ids(pages):
    return [[item.tool_id, item.label] for page in pages for item in page.items]


def test_protocol_introduces_itself(protocol):
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,19}", protocol.name)
    assert protocol.label
    assert protocol.summary.endswith(".")
    assert protocol.url_hint.endswith(".")
    assert protocol.revision >= 1


def test_settings_have_defaults_that_fit(protocol):
    for setting in protocol.settings:
        assert setting.label
        assert protocol().values[setting.name] == setting.default
        if setting.kind == "integer":
            assert setting.minimum <= setting.default <= setting.maximum


def test_listing_is_read_page_by_page_to_its_end(protocol):
    scene = Scene(protocol, "list")
    pages = scene.pages()
    assert listed_ids(pages) == scene.expected["tools"]
    assert len(pages) == scene.expected["pages"]
    assert [page.cursor for page in pages] == ["", *(page.next for page in pages[:-1])]
    assert pages[-1].next is None
    assert not any(page.rejected for page in pages)
    assert not scene.session.left


def test_next_page_is_asked_for_only_when_it_is_wanted(protocol):
    scene = Scene(protocol, "list")
    next(scene.protocol.enumerate(scene.session, NoKnownPages()))
    assert bool(scene.session.left) == (scene.expected["pages"] > 1)


def test_listed_items_can_be_stored_and_read(protocol):
    scene = Scene(protocol, "list")
    items = [item for page in scene.pages() for item in page.items]
    signatures_read = [scene.protocol.read(item.document) for item in items]
    for item, normal in zip(items, signatures_read, strict=True):
        assert 0 < len(item.tool_id) <= 255
        assert len(item.label) <= 100
        assert re.fullmatch("[0-9a-f]{64}", item.digest)
        assert signature.from_json(signature.to_json(normal)) == normal
        assert all(note.code and note.message for note in scene.protocol.notes(item.document, normal))
    assert [normal.name for normal in signatures_read] == scene.expected["names"]


def test_same_reply_gives_the_same_digests(protocol):
    first, second = (
        [item.digest for page in Scene(protocol, "list").pages() for item in page.items] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) == len(first)


def test_empty_listing_is_a_listing(protocol):
    (page,) = Scene(protocol, "empty").pages()
    assert (list(page.items), list(page.rejected), page.next) == ([], [], None)


def test_bad_item_costs_itself_alone(protocol):
    scene = Scene(protocol, "one_bad_item")
    pages = scene.pages()
    assert listed_ids(pages) == scene.expected["tools"]
    rejected = [item for page in pages for item in page.rejected]
    assert [[item.tool, item.code] for item in rejected] == scene.expected["rejected"]
    assert all(item.reason.endswith(".") for item in rejected)


def test_reply_that_is_not_json_ends_the_listing_there(protocol):
    scene = Scene(protocol, "not_json")
    before = []
    with pytest.raises(ProtocolViolationError) as caught:
        before.extend(scene.protocol.enumerate(scene.session, NoKnownPages()))
    assert listed_ids(before) == scene.expected["tools"]
    assert caught.value.code == scene.expected["code"]


def test_cursor_that_comes_back_shows_on_the_pages(protocol):
    """The caller guards against it, so the pages have to name their next cursor."""
    if Scene(protocol, "list").expected["pages"] == 1:
        return
    scene = Scene(protocol, "loop")
    pages = scene.pages(max_pages=3)
    if scene.expected.get("ends"):
        # Where the cursor is our own, a vendor that goes in circles is for the protocol to notice.
        assert pages[-1].next is None
        return
    assert len(pages) == 3
    assert pages[2].next in [page.cursor for page in pages]


def test_one_tool_is_fetched_in_the_version_asked_for(protocol):
    for name in ("current", "version"):
        scene = Scene(protocol, name)
        item = scene.protocol.fetch(scene.session, scene.tool_id, scene.label)
        assert [item.tool_id, item.label] == scene.expected["tool"]
        assert scene.protocol.read(item.document).name == scene.expected["name"]


def test_fetched_tool_has_the_digest_it_was_listed_with(protocol):
    by_id = {item.tool_id: item for page in Scene(protocol, "list").pages() for item in page.items}
    scene = Scene(protocol, "current")
    assert scene.protocol.fetch(scene.session, scene.tool_id).digest == by_id[scene.tool_id].digest


def test_versions_are_listed(protocol):
    scene = Scene(protocol, "versions")
    pages = list(scene.protocol.versions(scene.session, scene.tool_id))
    assert listed_ids(pages) == scene.expected["tools"]
    assert not scene.session.left


def test_vendor_without_versions_is_no_error(protocol):
    scene = Scene(protocol, "no_versions")
    assert listed_ids(scene.protocol.versions(scene.session, scene.tool_id)) == []


def test_tool_is_run_and_its_outputs_come_back(protocol):
    scene = Scene(protocol, "invoke")
    outcome = scene.invoke()
    assert (outcome.outcome, dict(outcome.outputs)) == ("ok", scene.expected["outputs"])
    assert outcome.error is None
    assert not scene.session.left


@pytest.mark.parametrize("name", ["invoke_tool_error", "invoke_refused", "invoke_unavailable"])
def test_failed_call_becomes_an_outcome_in_words(protocol, name):
    scene = Scene(protocol, name)
    outcome = scene.invoke()
    assert outcome.outcome == scene.expected["outcome"]
    assert outcome.error["code"] == scene.expected["code"]
    assert outcome.error["message"]
    assert outcome.retry_after == scene.expected.get("retry_after")
    assert not scene.session.left


@pytest.mark.django_db
def test_arguments_that_do_not_fit_make_no_call(protocol, toy):
    scene = Scene(protocol, "invoke")
    closed = {**(scene.signature.schema_rest or {}), "additionalProperties": False}
    signature = msgspec.structs.replace(scene.signature, schema_rest=closed)
    tool = make_tool(signature, endpoint=make_endpoint(protocol=protocol.name))
    arguments = {"an input that no tool has": 1}
    with pytest.raises(ArgumentsError) as refused:
        requesting.request_call(tool.current, actor=make_user(Role.DESIGNER), arguments=arguments)
    assert refused.value.outcome.outcome == "invalid_arguments"
    assert refused.value.fields["an input that no tool has"]
    assert not Call.objects.exists()


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(protocols, "PROTOCOLS", (*protocols.PROTOCOLS, Toy))
    return Toy


def test_name_in_the_registry_is_all_that_a_new_protocol_needs(toy):
    assert protocols.get("toy") is toy
    assert ("toy", toy.label) in protocols.choices()
    assert dict(Endpoint._meta.get_field("protocol").choices)["toy"] == toy.label
    assert isinstance(Endpoint(protocol="toy").build_protocol(), toy)


NO_CODES = {"GET", "POST", "PUT", "PATCH", "HEAD", "DELETE", "OPTIONS", "GB", "KB", "MB"}


def codes_in(path: Path) -> set[str]:
    """Return texts that look like codes: upper case, and an argument or half of a pair."""
    codes = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
        elif isinstance(node, ast.Yield | ast.Return | ast.Assign) and isinstance(node.value, ast.Tuple):
            values = node.value.elts
        codes |= {value.value for value in values if isinstance(value, ast.Constant)}
    codes = {code for code in codes if re.fullmatch("[A-Z][A-Z0-9]+(_[A-Z0-9]+)*", str(code))} - NO_CODES
    # Names of settings, which docs/operations.md explains.
    return {code for code in codes if not code.startswith("PEGBOARD_")}


def test_every_code_is_explained():
    folders = ("protocols", "catalog/enumeration", "core/outbound")
    modules = [ROOT / "catalog" / "credentials" / "sessions.py"]
    modules += [module for folder in folders for module in (ROOT / folder).rglob("*.py")]
    raised = set().union(*map(codes_in, modules))
    documents = DOCUMENT.read_text(encoding="utf-8") + (DOCUMENT.parent / "runtimes.md").read_text(
        encoding="utf-8"
    )
    explained = set(re.findall("`([A-Z][A-Z0-9_]+)`", documents))
    assert len(raised) > 60
    assert raised - explained == set()


def test_every_protocol_is_documented():
    text = DOCUMENT.read_text(encoding="utf-8")
    for protocol in protocols.PROTOCOLS:
        assert f"| `{protocol.name}` |" in text
        assert all(f"`{setting.name}`" in text for setting in protocol.settings)


class ToyVendor(Vendor):
    """Serves the recorded listing over real HTTP, by the cursor asked for."""

    def answer(self, path, query):
        recorded = {exchange.params.get("after", ""): exchange.body for exchange in self.listed}
        return 200, json.dumps(recorded[query.get("after", [""])[0]]).encode()


@pytest.mark.django_db(transaction=True)
def test_tools_of_a_new_protocol_reach_the_catalog(toy):
    scene = Scene(toy, "list")
    with serving(ToyVendor(list(scene.session.left))) as vendor:
        endpoint = make_endpoint(protocol="toy", url=vendor.url)
        run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error_code) == ("succeeded", "")
    tools = Tool.objects.filter(endpoint=endpoint)
    assert sorted(tools.values_list("name", flat=True)) == sorted(scene.expected["names"])


def test_no_protocol_knows_another():
    graph = grimp.build_graph("protocols", cache_dir=None)
    packages = [".".join(protocol.__module__.split(".")[:2]) for protocol in protocols.PROTOCOLS]
    for package in packages:
        imported_by = graph.find_upstream_modules(package, as_package=True)
        assert imported_by, f"{package} is not in the graph"
        assert not [module for module in imported_by for other in packages if module.startswith(other)], (
            package
        )
