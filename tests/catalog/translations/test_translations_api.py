import pytest

from catalog.models import Translation
from catalog.translations.tool_texts import digest_of
from people.models import AuditEntry
from tests.clients import signed_in
from tests.factories import make_signature, make_tool

pytestmark = pytest.mark.django_db
SOURCE = "Creates an invoice for a customer"
DIGEST = digest_of(SOURCE)
TEXTS, FILE, IMPORT = "/api/v1/translations/", "/api/v1/translations/file/", "/api/v1/translations/import/"


def address_of(tool, language: str = "de") -> str:
    return f"/api/v1/tools/{tool.pk}/translations/{language}/"


def make_invoice_tool():
    return make_tool(make_signature("make_bill", description=SOURCE))


def put(client, address: str, text: str, **headers):
    return client.put(address, {"text": text}, format="json", headers=headers)


def test_a_program_adds_corrects_and_removes_a_translation():
    tool, client = make_invoice_tool(), signed_in("designer")
    address = f"{address_of(tool)}{DIGEST}/"
    start = client.get(address)
    assert start.json()["translation"] is None
    made = put(client, address, "Legt an", **{"If-Match": start.headers["ETag"]})
    assert (made.status_code, made.json()["translation"]["text"]) == (200, "Legt an")
    late = put(client, address, "Erstellt", **{"If-Match": start.headers["ETag"]})
    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    assert put(client, address, "Erstellt", **{"If-Match": made.headers["ETag"]}).status_code == 200
    rows = client.get(address_of(tool)).json()
    assert [(row["member"], row["translation"] and row["translation"]["text"]) for row in rows] == [
        ("description", "Erstellt"),
        ("input", None),
    ]
    assert [row["digest"] for row in client.get(f"{TEXTS}?language=de").json()["results"]] == [DIGEST]
    assert client.delete(address).status_code == 204
    assert client.delete(address).status_code == 404
    trail = AuditEntry.objects.filter(kind="translation").order_by("pk")
    assert [entry.action for entry in trail] == ["add", "edit", "remove"]


def test_only_texts_of_the_tool_and_known_languages_are_translated():
    tool, client = make_invoice_tool(), signed_in("designer")
    unknown = put(client, f"{address_of(tool)}{'0' * 64}/", "Text")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_text")
    for language in ("xx", "de-DE", "../de"):
        assert put(client, f"{address_of(tool, language)}{DIGEST}/", "Text").status_code == 404
    assert client.get(f"{TEXTS}?language=xx").status_code == 400
    assert client.get(TEXTS).status_code == 400
    assert not Translation.objects.exists()


@pytest.mark.parametrize("text", ["", " ", "a\u202eb", "a\0b", "x" * 20_001, 5])
def test_a_text_that_cannot_be_read_is_refused(text):
    tool, client = make_invoice_tool(), signed_in("designer")
    refused = put(client, f"{address_of(tool)}{DIGEST}/", text)
    assert refused.status_code == 400
    assert refused.json()["fields"].keys() == {"text"}


@pytest.mark.parametrize("name", ["csv", "xliff"])
def test_a_file_makes_the_round_trip(name):
    tool, client = make_invoice_tool(), signed_in("designer")
    put(client, f"{address_of(tool)}{DIGEST}/", "Legt an")
    query = {"language": "de", "type": name, "vendor": tool.endpoint.vendor.slug}
    body = client.get(FILE, query).json()
    assert "Legt an" in body["content"]
    again = client.post(IMPORT, body, format="json").json()
    assert again == {"added": 0, "replaced": 0, "unchanged": 1, "problems": []}
    body["content"] = body["content"].replace("Legt an", "Le\u202egt an")
    (problem,) = client.post(IMPORT, body, format="json").json()["problems"]
    assert problem["line"] > 1
    assert "Legt" not in client.get(FILE, query | {"only_missing": "true"}).json()["content"]


def test_hostile_files_are_refused():
    client = signed_in("designer")
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><a>&b;</a>'
    for content in (bomb, "<a>" * 1_000, "", "\x01"):
        body = {"language": "de", "type": "xliff", "content": content}
        assert client.post(IMPORT, body, format="json").status_code == 400
    assert client.get(FILE, {"language": "de", "type": "pdf"}).status_code == 400
    long_slug = {"language": "de", "type": "csv", "vendor": "x" * 101}
    assert client.get(FILE, long_slug).status_code == 400
    assert client.get(FILE, long_slug | {"vendor": "x" * 100}).status_code == 200
    large = {"language": "de", "type": "csv", "content": "x" * 10_000_001}
    assert client.post(IMPORT, large, format="json").status_code == 400
