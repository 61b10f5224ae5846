import csv
import io
import json
import re
from datetime import datetime

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from designer.pins import pins
from people import audit
from people.audit import export
from people.audit.readable_entries import summarize_entry
from people.models import Role, Team
from tests.factories import make_agent, make_tool, make_user
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def record(actor, action="change", label="Weather agent", **facts):
    target = make_user(Role.VIEWER, name=label)
    with transaction.atomic():
        return audit.record(actor, action, target, **facts)


@pytest.mark.parametrize(
    "statement", ["UPDATE people_auditentry SET action = 'x'", "DELETE FROM people_auditentry"]
)
def test_no_statement_rewrites_the_trail_not_even_in_sql(statement):
    from django.db import connection

    record(make_user())
    with pytest.raises(DatabaseError, match="never changes"), transaction.atomic():
        connection.cursor().execute(statement)


@pytest.mark.django_db(transaction=True)
def test_audit_row_needs_the_transaction_of_its_change():
    with pytest.raises(RuntimeError):
        audit.record(None, "change", make_user())


def test_rows_hold_only_what_differs():
    entry = record(None, before={"a": 1, "b": 2}, after={"a": 1, "b": 3})
    assert (entry.before, entry.after) == ({"b": 2}, {"b": 3})
    assert entry.actor_name == "Pegboard"


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("", ["Train agent", "Hotel agent", "Weather agent"]),
        ("?q=weath", ["Weather agent"]),
        ("?kind=user", ["Train agent", "Hotel agent", "Weather agent"]),
        ("?kind=pin", []),
        ("?actor=bob", ["Hotel agent"]),
        ("?actor=bob&q=weather", []),
        ("?by=workers", ["Train agent"]),
        ("?by=workers&actor=bob", []),
        ("?by=people&kind=user", ["Hotel agent", "Weather agent"]),
    ],
)
def test_trail_is_filtered_over_rest(program, query, labels):
    admin = make_user(username="ada")
    client = program(admin)
    record(admin, label="Weather agent")
    record(make_user(username="bob"), label="Hotel agent")
    record(None, label="Train agent")
    results = client.get(f"/api/v1/audit/{query}").json()["results"]
    assert [row["label"] for row in results if row["kind"] != "apikey"] == labels


def test_unknown_person_in_a_filter_is_refused(program):
    answer = program(make_user()).get("/api/v1/audit/?actor=nobody")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["actor"])


def test_page_shows_before_and_after_and_who(client):
    ada = make_user(name="Ada")
    entry = record(ada, before={"role": "viewer"}, after={"role": "designer"})
    client.force_login(make_user(Role.VIEWER))
    for address in ("/audit/", f"/audit/{entry.pk}/"):
        page = text_of(client.get(address))
        assert "Ada" in page
        assert "Role changed from “Viewer” to “Designer”." in page


def test_a_line_of_the_page_names_the_version_and_leaves_out_what_is_empty(client):
    actor = make_user(Role.ADMIN)
    client.force_login(actor)
    pins.pin_tool(make_agent(slug="desk"), actor=actor, tool=make_tool(name="forecast"))

    page_text = text_of(client.get("/audit/"))

    assert "Agent: “desk”. Name: “forecast”. Tool: “tool-" in page_text
    assert "Version: “1”" in page_text
    assert "ordinal" not in page_text.lower()
    assert "alias" not in page_text


def test_page_of_fifty_entries_costs_few_queries_and_little_room(client, django_assert_max_num_queries):
    for number in range(60):
        record(make_user(), label=f"Agent {number}", before={"text": "x" * 5000}, after={"text": "y" * 5000})
    client.force_login(make_user(Role.VIEWER))
    with django_assert_max_num_queries(8):
        page = client.get("/audit/")
    assert len(page.content) < 60_000
    assert page.context["page"].next


def test_filters_offer_the_kinds_that_occur(client):
    record(make_user())
    assert audit.kinds() == [("user", "person")]


def test_odd_filters_on_the_page_find_nothing_and_say_so(client):
    client.force_login(make_user())
    page = client.get("/audit/?kind=nonsense&actor=nobody")
    assert page.status_code == 200
    assert "Nothing matches" in page.content.decode()


@pytest.mark.parametrize(
    ("who", "labels"),
    [
        ("", {"Weather agent", "Train agent"}),
        (":workers", {"Train agent"}),
        (":people", {"Weather agent"}),
        ("workers", {"Weather agent"}),  # a user may be called so
    ],
)
def test_page_shows_what_workers_did_by_themselves(client, who, labels):
    user = make_user(username="workers")
    client.force_login(user)
    record(user, label="Weather agent")
    record(None, label="Train agent")
    page = client.get("/audit/", {"actor": who, "kind": "user"})
    assert {entry.label for entry in page.context["page"].rows} == labels
    assert "Pegboard itself" in page.content.decode()


def test_who_is_neither_a_person_nor_workers_is_refused(client, program):
    admin = make_user()
    client.force_login(admin)
    page = client.get("/audit/?actor=:robots")
    assert list(page.context["page"].rows) == []
    assert page.context["form"].errors["actor"]
    assert program(admin).get("/api/v1/audit/?by=robots").json()["fields"].keys() == {"by"}


def test_page_without_a_filter_shows_what_people_did(client):
    client.force_login(make_user())
    record(make_user(), label="Weather agent")
    record(None, label="Train agent")

    def labels(query):
        return {entry.label for entry in client.get(f"/audit/{query}").context["page"].rows}

    assert labels("") == {"Weather agent"}
    assert labels("?actor=&q=agent") == {"Weather agent", "Train agent"}


def test_entries_that_one_run_wrote_are_one_row(client):
    client.force_login(make_user())
    for number in range(4):
        record(None, label=f"Tool {number}", why="Run 12 of Acme")
    record(None, label="Tool of another run", why="Run 13 of Acme")
    record(None, label="Tool without a reason")

    page = client.get("/audit/", {"actor": ":workers"})

    groups = [(group.is_folded, len(group.entries)) for group in page.context["groups"]]
    assert groups == [(False, 1), (False, 1), (True, 4)]
    links = re.findall(r'href="/audit/(\d+)/"', page.content.decode())
    assert len(links) == 6, "each entry can be opened"


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ({"first_day": "2026-03-02"}, ["Third", "Second"]),
        ({"last_day": "2026-03-02"}, ["Second", "First"]),
        ({"first_day": "2026-03-02", "last_day": "2026-03-02"}, ["Second"]),
        ({"first_day": "0001-01-01", "last_day": "9999-12-31"}, ["Third", "Second", "First"]),
    ],
)
def test_trail_is_filtered_by_days(client, program, monkeypatch, query, labels):
    actor = make_user()
    client.force_login(actor)
    api = program(make_user(Role.ADMIN))
    for label, day in (("First", 1), ("Second", 2), ("Third", 3)):
        at = datetime(2026, 3, day, 23, 59, 59, tzinfo=timezone.get_default_timezone())
        monkeypatch.setattr(timezone, "now", lambda at=at: at)
        record(actor, label=label)
    monkeypatch.undo()

    on_page = client.get("/audit/", query | {"actor": actor.username}).context["page"].rows
    over_rest = api.get("/api/v1/audit/", query | {"actor": actor.username}).json()["results"]

    assert [entry.label for entry in on_page] == labels
    assert [entry["label"] for entry in over_rest] == labels


def test_days_in_the_wrong_order_are_refused(client):
    client.force_login(make_user())
    query = {"first_day": "2026-03-02", "last_day": "2026-03-01"}
    page = client.get("/audit/", query)
    assert page.context["form"].errors.keys() == {"last_day"}
    assert list(page.context["page"].rows) == []
    assert client.get("/audit/export/", query | {"type": "csv"}).status_code == 400


def exported(client, name, **query):
    response = client.get("/audit/export/", {"type": name} | query)
    assert response.status_code == 200
    assert f'.{name}"' in response.headers["Content-Disposition"]
    return b"".join(response.streaming_content).decode()


def test_trail_is_exported_as_csv_and_json_lines(client, monkeypatch):
    monkeypatch.setattr(export, "BATCH", 2)
    client.force_login(make_user())
    for number in range(5):
        record(make_user(), label=f"Agent {number}", before={"role": "viewer"}, after={"role": "designer"})
    record(None, label="Train agent", why="line one\nline two, and “three”")

    rows = list(csv.DictReader(io.StringIO(exported(client, "csv", actor="", kind="user"))))
    documents = [json.loads(line) for line in exported(client, "jsonl", actor="", kind="user").splitlines()]

    assert [row["label"] for row in rows] == [document["label"] for document in documents]
    assert [row["label"] for row in rows] == [
        "Train agent",
        *(f"Agent {number}" for number in (4, 3, 2, 1, 0)),
    ]
    assert rows[0]["why"] == documents[0]["why"] == "line one\nline two, and “three”"
    assert json.loads(rows[1]["after"]) == documents[1]["after"] == {"role": "designer"}
    assert len(exported(client, "jsonl").splitlines()) == 5, "as the page without a filter"


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_of_the_export_is_a_formula(client, label):
    client.force_login(make_user())
    record(make_user(), label=label)
    (row,) = csv.DictReader(io.StringIO(exported(client, "csv")))
    assert row["label"] == f"'{label}"


def test_export_contains_only_what_its_reader_sees(client):
    client.force_login(make_user(Role.VIEWER, username="vera"))
    team = Team.objects.create(name="Secret team")
    with transaction.atomic():
        audit.record(make_user(), "create", team)
    assert "Secret team" not in exported(client, "jsonl", actor="")


def test_export_of_too_many_entries_asks_for_days(client, monkeypatch):
    monkeypatch.setattr(export, "MAX_ENTRIES", 1)
    client.force_login(make_user())
    record(make_user())
    record(make_user())
    assert client.get("/audit/export/?type=jsonl").status_code == 413
    assert client.get("/audit/export/?type=xml").status_code == 400


def test_a_row_of_the_trail_tells_what_a_sentence_can_tell(client):
    client.force_login(make_user(Role.ADMIN))
    facts = {
        "config": {"steps": [{"tool": 157, "inputs": {"title": {"input": "subject"}}}]},
        "digest": "8d481b60a8e1931334d90d369e27f25caad73f67d413585172f185a4e84fd0aa",
        "note": "A sentence of its own.",
        "runs": "implementation “Send by mail”",
    }
    created = record(None, "create", after=facts)
    changed = record(None, "edit", before={"retries": {"limit": 2}}, after={"retries": {"limit": 3}})
    page_text = text_of(client.get("/audit/?actor="))
    assert summarize_entry(created) == ["Implementation: “implementation \u2018Send by mail\u2019”."]
    assert summarize_entry(changed) == ["Retries, limit changed from 2 to 3."]
    assert "Retries, limit changed from 2 to 3." in page_text
    assert "157" not in page_text
    assert "8d481b60" not in page_text
    assert "157" in text_of(client.get(f"/audit/{created.pk}/"))
