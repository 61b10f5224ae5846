import pytest

from catalog.models import Finding
from people.models import AuditEntry
from tests.factories import make_endpoint, make_signature, make_tool, make_version

pytestmark = pytest.mark.django_db
URL = "/api/v1/findings/"


def refusal(answer) -> tuple[int, str, set[str]]:
    body = answer.json()
    return answer.status_code, body["code"], set(body.get("fields", {}))


@pytest.fixture
def drifted():
    """Three findings about one tool, one about another; the last is decided."""
    endpoint = make_endpoint()
    tools = [make_tool(endpoint=endpoint, name="forecast"), make_tool(endpoint=endpoint)]
    facts = {"code": "DRIFT", "severity": "high", "message": "It changed in place.", "endpoint": endpoint}
    return [
        Finding.objects.create(tool=tool, subject=str(number), state=state, version=tool.current, **facts)
        for number, (tool, state) in enumerate(
            [(tools[0], "open"), (tools[0], "open"), (tools[1], "open"), (tools[0], "blocked")]
        )
    ]


def list_findings(api, **query) -> list[int]:
    return [row["id"] for row in api.get(URL, query).json()["results"]]


def test_findings_are_listed_newest_first_and_filtered(designer_api, drifted):
    first, second, other, decided = [finding.pk for finding in drifted]

    assert list_findings(designer_api) == [decided, other, second, first]
    assert list_findings(designer_api, state="open") == [other, second, first]
    assert list_findings(designer_api, tool=drifted[0].tool_id) == [decided, second, first]
    assert list_findings(designer_api, tool=drifted[0].tool_id, state="blocked") == [decided]
    assert list_findings(designer_api, tool=999999) == []
    assert list_findings(designer_api, severity="high", code="DRIFT") == [decided, other, second, first]
    assert list_findings(designer_api, severity="low") == []
    assert list_findings(designer_api, endpoint=drifted[0].endpoint_id, state="open") == [
        other,
        second,
        first,
    ]


def test_row_says_what_it_is_about(designer_api, drifted):
    row = designer_api.get(URL).json()["results"][-1]

    assert (row["code"], row["severity"], row["state"]) == ("DRIFT", "high", "open")
    assert (row["tool"], row["tool_name"]) == (drifted[0].tool_id, "forecast")
    assert (row["version"], row["run"], row["note"]) == ("1", None, "")
    assert row["message"] == "It changed in place."


@pytest.mark.parametrize(
    ("query", "field"), [({"state": "odd"}, "state"), ({"tool": "x"}, "tool"), ({"tool": -1}, "tool")]
)
def test_bad_filter_is_refused_at_its_field(designer_api, query, field):
    assert refusal(designer_api.get(URL, query)) == (400, "invalid", {field})


def test_list_pages_and_costs_the_same_however_long(designer_api, drifted, django_assert_max_num_queries):
    pages, url = [], f"{URL}?limit=3"
    while url:
        with django_assert_max_num_queries(3):
            pages.append(designer_api.get(url).json())
        url = pages[-1]["next"]

    assert [len(page["results"]) for page in pages] == [3, 1]


@pytest.mark.parametrize(("decision", "state"), [("accept", "accepted"), ("block", "blocked")])
def test_administrator_decides(admin_api, drifted, decision, state):
    answer = admin_api.post(f"{URL}{drifted[0].pk}/resolve/", {"decision": decision, "note": "Talked."})

    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["note"]) == (state, "Talked.")
    assert answer.json()["resolved_at"]
    assert AuditEntry.objects.get().action == decision


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "decision"),
        ({"decision": "shrug"}, "decision"),
        ({"decision": None}, "decision"),
        ({"decision": ["accept"]}, "decision"),
        ({"decision": "accept", "note": "x" * 2_001}, "note"),
        ({"decision": "accept", "note": 5}, "note"),
    ],
)
def test_bad_decision_is_refused_at_its_field(admin_api, drifted, body, field):
    answer = admin_api.post(f"{URL}{drifted[0].pk}/resolve/", body)

    assert refusal(answer) == (400, "invalid", {field})
    assert not AuditEntry.objects.exists()


def test_nul_byte_in_a_note_is_refused(admin_api, drifted):
    body = b'{"decision": "accept", "note": "\\u0000"}'
    answer = admin_api.generic(
        "POST", f"{URL}{drifted[0].pk}/resolve/", body, content_type="application/json"
    )

    assert refusal(answer) == (400, "invalid", {"note"})


def test_designer_reads_and_does_not_decide(designer_api, drifted):
    answer = designer_api.post(f"{URL}{drifted[0].pk}/resolve/", {"decision": "accept"})

    assert refusal(answer) == (403, "role_required", set())
    assert Finding.objects.get(pk=drifted[0].pk).state == "open"


def test_unknown_finding_is_not_found(admin_api):
    assert refusal(admin_api.post(f"{URL}999999/resolve/", {"decision": "accept"})) == (
        404,
        "not_found",
        set(),
    )


def test_blocking_a_version_brings_back_the_newest_before_it_that_nobody_blocked(admin_api, designer_api):
    tool = make_tool(make_signature("forecast", description="First words"))
    rows = [
        make_version(tool, make_signature("forecast", description=words))
        for words in ("Second words", "Third words", "Fourth words")
    ]
    raised = [
        Finding.objects.create(
            endpoint=tool.endpoint, tool=tool, version=row, subject=row.digest, code="X", severity="high"
        )
        for row in rows
    ]
    tools_shown = []
    for finding in (raised[1], raised[2]):  # one that is not current, then the current one
        admin_api.post(f"{URL}{finding.pk}/resolve/", {"decision": "block"})
        tools_shown.append(designer_api.get(f"/api/v1/tools/{tool.pk}/").json())

    assert [(row["version"], row["description"]) for row in tools_shown] == [
        ("4", "Fourth words"),
        ("2", "Second words"),
    ]


def test_the_last_decision_is_taken_back_once_by_who_made_it(admin_api, designer_api, drifted):
    address = f"{URL}{drifted[0].pk}/"
    assert refusal(admin_api.post(f"{address}reopen/")) == (409, "no_decision", set())
    admin_api.post(f"{address}resolve/", {"decision": "block", "note": "Talked."})
    assert designer_api.post(f"{address}reopen/").status_code == 403

    reopened = admin_api.post(f"{address}reopen/")

    assert reopened.status_code == 200
    assert (reopened.json()["state"], reopened.json()["note"]) == ("open", "")
    assert refusal(admin_api.post(f"{address}reopen/")) == (409, "decision_changed", set())
