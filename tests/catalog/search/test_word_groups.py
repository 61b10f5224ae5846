import pytest

from catalog.models import CustomWordGroup
from catalog.search import index, word_groups
from core.errors import DomainError
from people.models import AuditEntry
from tests.factories import make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db
REST = "/api/v1/search/word-groups/"
JSON = {"content_type": "application/json"}


def test_a_question_finds_a_tool_by_a_word_of_the_organization(client):
    tool = make_tool(make_signature("book_trip", description="Books a journey."))
    make_tool(make_signature("list_invoices", description="Lists invoices."))
    client.force_login(make_user("admin"))
    before = index.current_recipe()
    group = client.post(REST, {"words": ["Wanderflug", "journey"]}, **JSON).json()
    assert index.current_recipe() != before
    index.index_pending()
    row = client.get("/api/v1/tools/?q=wanderflug").json()["results"][0]
    assert (row["id"], row["why"]["job_words"]) == (tool.pk, ["wanderflug"])
    client.delete(f"{REST}{group['id']}/")
    assert index.current_recipe() == before
    assert not word_groups.current_groups()


def test_a_group_that_begins_like_a_shipped_one_extends_it():
    word_groups.create_group(actor=make_user("admin"), words=["Payslip", "Monatszettel", "月末单"])
    job_words = word_groups.current_job_words()
    (shipped,) = {match.group.token for match in job_words.find("paystub")}
    for question in ("the monatszettel of june", "我的月末单"):
        assert shipped in {match.group.token for match in job_words.find(question)}


def test_rest_edits_groups_and_detects_late_edits(client):
    client.force_login(make_user("admin"))
    made = client.post(REST, {"words": [" PTO ", "pto", "time  off"]}, **JSON)
    assert (made.status_code, made.json()["words"]) == (201, ["PTO", "time off"])
    address = f"{REST}{made.json()['id']}/"
    headers = {"If-Match": made.headers["ETag"]}
    changed = client.put(address, {"words": ["PTO", "leave"]}, headers=headers, **JSON)
    assert changed.json()["words"] == client.get(REST).json()["results"][0]["words"] == ["PTO", "leave"]
    late = client.put(address, {"words": ["PTO", "holiday"]}, headers=headers, **JSON)
    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    assert client.delete(address).status_code == 204
    trail = AuditEntry.objects.filter(kind="customwordgroup").order_by("pk")
    assert [entry.action for entry in trail] == ["create", "edit", "remove"]


@pytest.mark.parametrize(
    "words",
    [
        *(["one"], ["one", "ONE "], ["a,b", "c"], ["a|b", "c"], ["...", "c"], ["a\0", "c"]),
        *(["x" * 81, "c"], [f"word{number}" for number in range(41)]),
    ],
)
def test_words_that_cannot_be_a_group_are_refused(client, words):
    with pytest.raises(DomainError) as refusal:
        word_groups.create_group(actor=make_user("admin"), words=words)
    assert refusal.value.fields.keys() == {"words"}
    client.force_login(make_user("admin"))
    assert client.post(REST, {"words": words}, **JSON).status_code == 400
    assert not CustomWordGroup.objects.exists()


def test_the_number_of_groups_is_limited(monkeypatch):
    monkeypatch.setattr(word_groups, "MAX_GROUPS", 1)
    admin = make_user("admin")
    word_groups.create_group(actor=admin, words=["a1", "b1"])
    with pytest.raises(DomainError) as refusal:
        word_groups.create_group(actor=admin, words=["c1", "d1"])
    assert refusal.value.code == "too_many_groups"


def test_administrators_edit_groups_on_the_page(client):
    client.force_login(make_user("admin"))
    assert client.post("/search/words/new/", {"words": "PTO"}).context["form"].errors["words"]
    assert client.post("/search/words/new/", {"words": "PTO, vacation\ntime off"}).status_code == 302
    group = CustomWordGroup.objects.get()
    assert group.words == ["PTO", "vacation", "time off"]
    address = f"/search/words/{group.pk}/"
    state = client.get(address).context["form"].expected
    assert client.post(address, {"words": "PTO, leave", "expected": state}).status_code == 302
    assert client.post(address, {"words": "PTO, holiday", "expected": state}).status_code == 409
    page = client.get("/search/words/?q=Lohnzettel")
    assert [row.words for row in page.context["groups"]] == [["PTO", "leave"]]
    assert [row.key for row in page.context["shipped"]] == ["payslip"]
    client.post(f"{address}remove/")
    assert not CustomWordGroup.objects.exists()


def test_viewers_read_groups(client):
    client.force_login(make_user("viewer"))
    assert client.get(REST).status_code == client.get("/search/words/").status_code == 200
    assert client.post(REST, {"words": ["a1", "b1"]}, **JSON).status_code == 403
