import json

import pytest

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Run, Tool
from catalog.models.runs import Trigger
from catalog.rules import diff, promises
from catalog.rules.promises import Update, find_breaches
from protocols import PROTOCOLS
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_parameter, make_signature
from tests.vendor import Vendor, serving, tool

EVERY = frozenset(promises.PROMISES)


def breaches_by_code(old, new, *, labels=("1", "2"), promised=EVERY):
    update = Update(old, new, *labels, "d" * 64, diff.compare(old, new))
    return {breach.code: breach for breach in find_breaches(update, promised)}


def test_protocols_promise_only_what_can_be_checked():
    assert all(protocol.promises <= promises.PROMISES.keys() for protocol in PROTOCOLS)
    assert any(protocol.promises for protocol in PROTOCOLS)


def test_every_code_belongs_to_one_promise():
    assert len(set(promises.CODES)) == len(promises.CODES)


def test_a_version_that_takes_something_away_says_what():
    breach = breaches_by_code(make_signature(), make_signature(inputs=()))["BREAKING"]
    assert (breach.severity, breach.waits, breach.subject) == ("medium", True, "d" * 64)
    assert all(word in breach.message for word in ("“forecast”", "2", "1", "“city”"))


def test_only_the_first_reasons_are_told_and_the_rest_counted():
    many = make_signature(inputs=tuple(make_parameter(name) for name in "abcde"))
    message = breaches_by_code(many, make_signature(inputs=()))["BREAKING"].message
    assert message.count("was removed") == 3
    assert message.endswith("And 2 more.")


def test_a_version_that_adds_breaks_no_promise():
    more = make_signature(inputs=(make_parameter(), make_parameter("day", required=False)))
    assert breaches_by_code(make_signature(), more) == {}


def test_a_version_changed_in_place_is_told_where_it_is_written():
    assert breaches_by_code(make_signature(), make_signature(inputs=()), labels=("1", "1")) == {}


@pytest.mark.parametrize(
    ("change", "severity", "waits"),
    [
        ({"inputs": ()}, "medium", True),
        ({"annotations": Annotations(destructive=True)}, "medium", True),
        ({"description": "Other words."}, "low", False),
    ],
)
def test_a_change_without_versions_is_told_as_such(change, severity, waits):
    findings_by_code = breaches_by_code(
        make_signature(), make_signature(**change), labels=("", ""), promised=frozenset()
    )
    assert list(findings_by_code) == ["CHANGED"]
    assert (findings_by_code["CHANGED"].severity, findings_by_code["CHANGED"].waits) == (severity, waits)


def test_the_gravest_reason_of_a_change_comes_first():
    new = make_signature(description="Other words.", inputs=())
    message = breaches_by_code(make_signature(), new, labels=("", ""))["CHANGED"].message
    assert message.index("was removed") < message.index("The description of the tool")


def test_another_way_to_write_a_tool_without_versions_is_no_finding():
    assert breaches_by_code(make_signature(), make_signature(rest={"icons": []}), labels=("", "")) == {}


def test_a_parameter_with_a_new_id_and_its_old_name_is_told():
    old, new = (make_signature(inputs=(make_parameter(id=number),)) for number in ("p1", "p9"))
    breach = breaches_by_code(old, new)["NEW_PARAMETER_ID"]
    assert "“city” was “p1” and is now “p9”" in breach.message
    assert "NEW_PARAMETER_ID" not in breaches_by_code(old, new, promised=frozenset())


def test_two_parameters_that_swap_names_keep_their_ids():
    one, other = make_parameter("a", id="p1"), make_parameter("b", id="p2")
    old = make_signature(inputs=(one, other))
    new = make_signature(inputs=(make_parameter("b", id="p1"), make_parameter("a", id="p2")))
    assert "NEW_PARAMETER_ID" not in breaches_by_code(old, new)


@pytest.fixture
def endpoint(vendor):
    return make_endpoint(url=vendor.url)


def run_enumeration(endpoint) -> Run:
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def findings() -> list[tuple[str, str]]:
    return [(finding.code, finding.tool.name) for finding in Finding.objects.order_by("code", "pk")]


in_database = pytest.mark.django_db(transaction=True)


@in_database
def test_a_version_number_written_as_text_is_no_drift(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version="1", currentVersion="1")
    run_enumeration(endpoint)
    assert findings() == []
    assert Tool.objects.get(name="tool_5").versions.count() == 1


@in_database
def test_a_member_that_no_model_sees_and_no_call_needs_is_no_drift(endpoint, vendor):
    """It cannot reach an agent: a version is served as it was read."""
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, price="10 EUR")
    run = run_enumeration(endpoint)
    assert findings() == []
    assert [(note["code"], note["count"]) for note in run.notes] == [("REST_CHANGED", 1)]
    vendor.listed[4] = tool(5, price="10 EUR", description="Something else.")
    run_enumeration(endpoint)
    assert findings() == [("DRIFT", "tool_5"), ("HELD", "tool_5")]


@in_database
def test_an_older_version_written_another_way_is_no_drift(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version=2)
    run_enumeration(endpoint)
    vendor.history[tool(5)["toolId"]] = [tool(5, version=2), tool(5, version="1", currentVersion=2)]
    older_versions.read_all(endpoint.pk)
    assert findings() == []
    assert Tool.objects.get(name="tool_5").versions.count() == 2


@in_database
def test_drift_after_another_way_of_writing_is_still_drift(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version="1", currentVersion="1")
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version="1", currentVersion="1", description="Something else.")
    run_enumeration(endpoint)
    assert findings() == [("DRIFT", "tool_5"), ("HELD", "tool_5")]


@in_database
def test_two_tools_of_one_name_are_told_once(endpoint, vendor):
    vendor.listed[4] = tool(5, name="tool_4")
    run_enumeration(endpoint)
    vendor.listed[9] = tool(10, version=2, description="Better.")
    run_enumeration(endpoint)
    finding = Finding.objects.get()
    assert (finding.code, finding.tool.tool_id) == ("SAME_NAME", vendor.listed[4]["toolId"])
    assert vendor.listed[3]["toolId"] in finding.message


@in_database
def test_names_that_are_equal_after_normalization_are_found(endpoint, vendor):
    vendor.listed[4] = tool(5, name="caf\u00e9")
    run_enumeration(endpoint)
    assert findings() == []
    vendor.listed[6] = tool(7, version=2, name="cafe\u0301")
    run_enumeration(endpoint)
    assert [code for code, _ in findings()].count("SAME_NAME") == 1
    vendor.listed[9] = tool(10, version=2, description="Better.")
    run_enumeration(endpoint)
    assert [code for code, _ in findings()].count("SAME_NAME") == 1


@in_database
def test_a_name_that_comes_back_under_another_id_is_told(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(500, name="tool_5")
    run_enumeration(endpoint)
    finding = Finding.objects.get()
    assert (finding.code, finding.tool.tool_id) == ("NEW_TOOL_ID", vendor.listed[4]["toolId"])
    assert tool(5)["toolId"] in finding.message
    run_enumeration(endpoint)
    assert Finding.objects.count() == 1


@in_database
def test_a_breaking_version_is_found_beside_what_it_breaks(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version=2, input_parameters=[])
    run_enumeration(endpoint)
    finding = Finding.objects.get()
    assert (finding.code, finding.version) == ("BREAKING", Tool.objects.get(name="tool_5").current)


@in_database
def test_a_parameter_that_changes_its_id_is_found(endpoint, vendor):
    run_enumeration(endpoint)
    renumbered = [{"id": "p7", "name": "city", "type": "string", "required": True, "description": "A city"}]
    vendor.listed[4] = tool(5, version=2, input_parameters=renumbered)
    run_enumeration(endpoint)
    assert ("NEW_PARAMETER_ID", "tool_5") in findings()


class Shelf(Vendor):
    """Publishes a document that gives its operations no versions."""

    summary = "Lists books."
    limit: dict[str, object] = {"type": "integer"}

    def answer(self, path, query):
        limit = {"name": "limit", "in": "query", "schema": self.limit}
        operation = {"operationId": "books", "summary": self.summary, "parameters": [limit], "responses": {}}
        document = {
            "openapi": "3.1.0",
            "info": {"title": "Shelf", "version": "1"},
            "paths": {"/books": {"get": operation}},
        }
        return 200, json.dumps(document).encode()


@pytest.fixture
def shelf():
    with serving(Shelf([])) as shelf:
        yield shelf


@in_database
def test_a_tool_without_versions_raises_its_own_finding_once_per_change(shelf):
    endpoint = make_endpoint(protocol="openapi", url=f"{shelf.url}/openapi.json")
    run_enumeration(endpoint)
    shelf.summary = "Lists all books."
    run_enumeration(endpoint)
    shelf.limit = {"type": "string"}
    run_enumeration(endpoint)
    run_enumeration(endpoint)
    findings = Finding.objects.order_by("pk").values_list("code", "severity", "state", "version__ordinal")
    assert list(findings) == [("CHANGED", "low", "noted", 2), ("CHANGED", "medium", "open", 3)]
    assert "type of input “limit”" in Finding.objects.latest("pk").message
