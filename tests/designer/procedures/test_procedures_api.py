"""Procedures over REST: written, checked, saved again, restored."""

import pytest

from catalog.models import Tool
from designer.models import Procedure, ProcedureReference, ProcedureVersion
from designer.pins import pins
from designer.procedures import editing
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user

URL = "/api/v1/agents/desk/procedures/"


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def look_up(desk):
    inputs = (make_parameter("account_id"),)
    outputs = (make_parameter("refills", required=False),)
    return make_pin(agent=desk, tool=make_tool(make_signature("look_up", inputs=inputs, outputs=outputs)))


def test_text_is_kept_by_identity_and_answered_by_name(api, look_up):
    reply = api.post(
        URL, {"title": "Refill", "body": "With {account_id}, use look_up() for look_up().refills."}
    )

    assert reply.status_code == 201
    created = reply.json()
    assert created["slug"] == "refill"
    assert created["version"] == 1
    assert created["body"] == "With {account_id}, use look_up() for look_up().refills."
    assert created["rendered"] == "With account_id, use look_up() for look_up().refills."
    assert [
        (reference["kind"], reference["target"], reference["member"]) for reference in created["references"]
    ] == [
        ("item", None, "account_id"),
        ("tool", look_up.pk, ""),
        ("output", look_up.pk, "refills"),
    ]
    assert created["lint"] == []
    stored = Procedure.objects.get().text
    assert stored == f"With {{item:account_id}}, use {{tool:{look_up.pk}}} for {{out:{look_up.pk}/refills}}."


def test_a_new_name_of_a_tool_changes_what_is_answered_and_not_what_is_kept(api, look_up):
    api.post(URL, {"title": "Refill", "body": "With {account_id}, use look_up()."})
    before = Procedure.objects.get().text

    pins.set_alias(look_up, actor=make_user(Role.ADMIN), alias="find_refills")

    assert api.get(f"{URL}refill/").json()["rendered"] == "With account_id, use find_refills()."
    assert Procedure.objects.get().text == before


def test_without_a_body_it_starts_with_the_template(api, desk):
    created = api.post(URL, {"title": "Refill"}).json()
    assert created["body"].startswith("## Goal")
    assert [remark["code"] for remark in created["lint"]] == ["hint_left"]


def test_each_save_is_a_version_and_an_old_one_can_be_restored(api, look_up):
    api.post(URL, {"title": "Refill", "body": "First."})
    api.put(f"{URL}refill/", {"title": "Refills", "body": "Second.", "why": "clearer"})

    restored = api.post(f"{URL}refill/restore/", {"version": 1}).json()

    assert (restored["version"], restored["title"], restored["body"]) == (3, "Refill", "First.")
    rows = api.get(f"{URL}refill/versions/").json()["results"]
    assert [(row["version"], row["why"]) for row in rows] == [
        (3, "Version 1 restored."),
        (2, "clearer"),
        (1, ""),
    ]
    assert api.get(f"{URL}refill/versions/2/").json()["body"] == "Second."
    assert [row.action for row in AuditEntry.objects.filter(kind="procedure").order_by("pk")] == [
        "create",
        "edit",
        "edit",
    ]


def test_saving_what_is_there_makes_no_version(api, desk):
    api.post(URL, {"title": "Refill", "body": "Same."})
    assert api.put(f"{URL}refill/", {"title": "Refill", "body": "Same."}).json()["version"] == 1
    assert ProcedureVersion.objects.count() == 1


def test_second_of_two_editors_is_told_what_the_first_wrote(api, desk):
    etag = api.post(URL, {"title": "Refill", "body": "First."}).headers["ETag"]
    api.put(f"{URL}refill/", {"title": "Refill", "body": "Theirs."}, headers={"If-Match": etag})

    late = api.put(f"{URL}refill/", {"title": "Refill", "body": "Mine."}, headers={"If-Match": etag})

    assert late.status_code == 409
    assert late.json()["code"] == "changed_meanwhile"
    assert Procedure.objects.get().text == "Theirs."


def test_lint_answers_for_any_text_and_stores_nothing(api, look_up):
    reply = api.post(f"{URL}lint/", {"body": "Ask.\nCall look_up() and look_down()."})

    assert reply.status_code == 200
    assert [(remark["line"], remark["code"], remark["severity"]) for remark in reply.json()["lint"]] == [
        (2, "input_not_supplied", "warning"),
        (2, "unknown_reference", "error"),
    ]
    assert not Procedure.objects.exists()


def test_lint_knows_what_the_catalog_and_the_tree_have(api, desk):
    tool = make_tool(make_signature("track_parcel"))
    child = make_agent(slug="billing", name="Billing", parent=desk)
    make_pin(agent=child, tool=make_tool(make_signature("pay_bill")))

    reply = api.post(f"{URL}lint/", {"body": "track_parcel(), pay_bill(), transfer_to_billing()"})

    parcel, bill = reply.json()["lint"]
    assert (parcel["code"], parcel["name"], parcel["tool"]) == ("not_pinned", "track_parcel", tool.pk)
    assert (bill["code"], bill["name"]) == ("other_agents_tool", "pay_bill")
    assert bill["tool"] == Tool.objects.get(name="pay_bill").pk


def test_of_several_tools_of_one_name_none_is_proposed(api, desk):
    for _ in range(2):
        make_tool(make_signature("track_parcel"))
    (remark,) = api.post(f"{URL}lint/", {"body": "track_parcel()"}).json()["lint"]
    assert (remark["code"], remark["name"], remark["tool"]) == ("ambiguous_reference", "track_parcel", None)


def test_references_are_rows_of_the_current_text(api, look_up):
    api.post(URL, {"title": "Refill", "body": "look_up(account_id)\nlook_up()"})
    rows = ProcedureReference.objects.values_list("line", "kind", "pin", "member")
    assert list(rows) == [(1, "input", look_up.pk, "account_id"), (2, "tool", look_up.pk, "")]

    api.put(f"{URL}refill/", {"title": "Refill", "body": "Nothing."})
    assert not ProcedureReference.objects.exists()


def test_a_pin_of_another_agent_is_no_reference(api, desk):
    other = make_pin(agent=make_agent(slug="other"), tool=make_tool())
    created = api.post(URL, {"title": "Refill", "body": f"{{tool:{other.pk}}}"}).json()
    assert created["references"] == []
    assert [remark["code"] for remark in created["lint"]] == ["unknown_reference"]


def test_a_removed_pin_is_told_by_its_last_name(api, look_up):
    api.post(URL, {"title": "Refill", "body": "With {account_id}: look_up()"})
    pins.remove_pin(look_up, actor=make_user(Role.ADMIN))

    procedure = api.get(f"{URL}refill/").json()

    assert procedure["body"] == "With {account_id}: look_up()"
    assert [remark["code"] for remark in procedure["lint"]] == ["not_pinned"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"title": "Refill", "body": "x" * (editing.MAX_TEXT_LENGTH + 1)}, 400, "invalid"),
        ({"title": "Refill", "body": "a\0b"}, 400, "invalid"),
        ({"title": " ", "body": ""}, 400, "invalid"),
        ({"title": "Refill", "slug": "lint"}, 409, "slug_taken"),
        ({"title": "Refill", "text": "misspelt"}, 400, "invalid"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(api, desk, body, status, code):
    reply = api.post(URL, body)
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert not Procedure.objects.exists()


def test_removed_procedures_free_their_address(api, desk):
    api.post(URL, {"title": "Refill", "body": "First."})
    api.post(URL, {"title": "Transfer", "body": "Second."})
    assert api.delete(f"{URL}refill/").status_code == 204
    assert [(row["slug"], row["position"]) for row in api.get(URL).json()["results"]] == [("transfer", 1)]
    assert api.post(URL, {"title": "Refill", "body": "Again."}).json()["slug"] == "refill"


def test_list_asks_as_many_queries_for_ten_procedures_as_for_one(api, look_up, django_assert_max_num_queries):
    for number in range(10):
        api.post(URL, {"title": f"Flow {number}", "body": "With {account_id}: look_up()"})
    with django_assert_max_num_queries(16):
        assert len(api.get(URL).json()["results"]) == 10


def test_release_holds_the_procedures_as_a_model_reads_them(api, look_up):
    api.post(
        URL, {"title": "Refill", "body": "With {account_id}: look_up(account_id), then look_up().refills."}
    )
    api.post("/api/v1/agents/desk/releases/", {"channel": "live"})
    api.put(f"{URL}refill/", {"title": "Refill", "body": "Later words."})
    pins.remove_pin(look_up, actor=make_user(Role.ADMIN))

    text = "With account_id: look_up(account_id), then look_up().refills."
    (row,) = api.get("/api/v1/agents/desk/releases/live/procedures/").json()["results"]
    assert row["text"] == text
    assert [
        (reference["kind"], reference["name"], reference["member"]) for reference in row["references"]
    ] == [
        ("item", "", "account_id"),
        ("input", "look_up", "account_id"),
        ("output", "look_up", "refills"),
    ]
    one = api.get("/api/v1/agents/desk/releases/1/procedures/refill/")
    assert one.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert one.content.decode() == text
    tag = {"If-None-Match": one.headers["ETag"]}
    assert api.get("/api/v1/agents/desk/releases/1/procedures/refill/", headers=tag).status_code == 304
    assert api.get("/api/v1/agents/desk/releases/1/procedures/gone/").status_code == 404
    bundle = api.get("/api/v1/agents/desk/releases/1/bundle/").json()
    assert bundle["procedures"][0]["slug"] == "refill"


def test_difference_of_two_releases_names_their_procedures(api, look_up):
    api.post(URL, {"title": "Refill", "body": "First."})
    api.post("/api/v1/agents/desk/releases/", {})
    api.put(f"{URL}refill/", {"title": "Refill", "body": "Second."})
    api.post(URL, {"title": "Transfer", "body": "New."})
    api.post("/api/v1/agents/desk/releases/", {})

    changes = api.get("/api/v1/agents/desk/releases/2/diff/").json()["procedures"]

    assert [(change["mark"], change["slug"], change["before"], change["after"]) for change in changes] == [
        ("changed", "refill", "First.", "Second."),
        ("added", "transfer", "", "New."),
    ]
