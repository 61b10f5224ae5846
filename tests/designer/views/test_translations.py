import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from catalog.models import Translation
from catalog.translations import scan, stored
from catalog.translations.tool_texts import digest_of
from people.models import AuditEntry, Role
from tests.factories import make_parameter, make_signature, make_tool, make_user, make_vendor, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
SOURCE = "Creates an invoice for a customer"
DIGEST = digest_of(SOURCE)
CITY = digest_of("The city")


def make_invoice_tool(**fields):
    return make_tool(make_signature("make_bill", description=SOURCE, **fields))


def write(text: str, source: str = SOURCE, language: str = "de") -> Translation:
    return stored.write_translation(actor=make_user(), language=language, digest=digest_of(source), text=text)


def edited(response, **texts: str) -> dict[str, str]:
    """The fields of the page as a browser sends them, with these texts by digest."""
    form = response.context["form"]
    data = {f"state-{digest}": state for digest, state in form.states.items()}
    return data | {name: form[name].value() or "" for name in form.fields} | texts


def test_a_designer_translates_a_tool_and_reads_it_in_that_language():
    tool = make_invoice_tool()
    client = signed_in(Role.DESIGNER)
    address = f"/tools/{tool.pk}/translations/de/"
    response = client.post(address, edited(client.get(address), **{DIGEST: "Legt eine Rechnung an\r\n"}))
    assert response.status_code == 302
    row = Translation.objects.get()
    assert (row.text, row.language, row.origin) == ("Legt eine Rechnung an", "de", "person")
    assert "Rechnung" not in text_of(client.get(f"/tools/{tool.pk}/"))
    page = client.get(f"/tools/{tool.pk}/?language=de")
    assert 'lang="de" dir="auto">Legt eine Rechnung an' in page.content.decode()
    assert SOURCE in text_of(page)
    # The choice stays until the original is chosen.
    assert "Rechnung" in text_of(client.get(f"/tools/{tool.pk}/"))
    assert "Rechnung" not in text_of(client.get(f"/tools/{tool.pk}/?language=original"))


def test_two_people_correct_different_texts_of_one_tool_and_the_same_text_only_knowingly():
    tool = make_invoice_tool()
    client, address = signed_in(Role.DESIGNER), f"/tools/{tool.pk}/translations/de/"
    start = client.get(address)
    assert client.post(address, edited(start, **{DIGEST: "Erste Fassung"})).status_code == 302
    assert client.post(address, edited(start, **{CITY: "Die Stadt"})).status_code == 302
    late = client.post(address, edited(start, **{DIGEST: "Zweite Fassung", CITY: ""}))
    assert late.status_code == 409
    assert list(late.context["form"].errors) == [DIGEST]
    assert Translation.objects.get(digest=DIGEST).text == "Erste Fassung"
    assert client.post(address, edited(late)).status_code == 302
    assert Translation.objects.get(digest=DIGEST).text == "Zweite Fassung"
    assert Translation.objects.get(digest=CITY).text == "Die Stadt"


def test_one_bad_text_saves_none():
    tool = make_invoice_tool()
    client, address = signed_in(Role.DESIGNER), f"/tools/{tool.pk}/translations/de/"
    bad = edited(client.get(address), **{CITY: "Die Stadt", DIGEST: "Rech\u202enung"})
    response = client.post(address, bad)
    assert list(response.context["form"].errors) == [DIGEST]
    assert not Translation.objects.exists()


def test_an_emptied_text_is_removed_and_a_model_is_confirmed():
    tool = make_invoice_tool()
    write("Legt eine Rechnung an")
    values = {"language": "de", "origin": "model", "actor": None, "model": "m"}
    stored.write_translations({CITY: "Die Stadt"}, **values)
    client, address = signed_in(Role.DESIGNER), f"/tools/{tool.pk}/translations/de/"
    start = client.get(address)
    assert "not confirmed" in text_of(client.get(f"/tools/{tool.pk}/?language=de"))
    data = edited(start, **{DIGEST: "", f"confirm-{CITY}": "on"})
    assert client.post(address, data).status_code == 302
    assert [(row.digest, row.is_confirmed) for row in Translation.objects.all()] == [(CITY, True)]


def test_a_stale_translation_is_shown_beside_the_new_text():
    tool = make_invoice_tool()
    write("Legt eine Rechnung an")
    make_version(tool, make_signature("make_bill", description=f"{SOURCE}."))
    page = signed_in(Role.DESIGNER).get(f"/tools/{tool.pk}/translations/de/")
    assert page.context["page"].object_list[0].is_stale
    assert "Legt eine Rechnung an" in text_of(page)


def test_markup_and_scripts_are_shown_as_text():
    hostile = '<script>alert(1)</script><img src=x onerror="a()">'
    tool = make_tool(make_signature("one", description=hostile, title=hostile))
    write(hostile, hostile)
    client = signed_in(Role.DESIGNER)
    for address in (f"/tools/{tool.pk}/?language=de", f"/tools/{tool.pk}/translations/de/"):
        body = client.get(address).content.decode()
        assert "<script>alert" not in body
        assert "<img src=x" not in body


def test_a_viewer_reads_translations_and_writes_none():
    tool = make_invoice_tool()
    write("Legt eine Rechnung an")
    client, address = signed_in(Role.VIEWER), f"/tools/{tool.pk}/translations/de/"
    page = client.get(address)
    assert "Legt eine Rechnung an" in text_of(page)
    assert b"<textarea" not in page.content
    assert client.post(address, {DIGEST: "Anders"}).status_code == 403
    assert client.post("/translations/import/", {"language": "de"}).status_code == 403


def test_an_unknown_language_is_not_found():
    tool = make_invoice_tool()
    client = signed_in(Role.DESIGNER)
    assert client.get(f"/tools/{tool.pk}/translations/xx/").status_code == 404
    assert client.get(f"/tools/{tool.pk}/?language=xx").status_code == 200


def test_many_texts_are_on_several_pages_of_bounded_size():
    inputs = tuple(make_parameter(f"p{n}", description=f"The input {n}: {'word ' * 40}") for n in range(120))
    tool = make_invoice_tool(inputs=inputs)
    client, address = signed_in(Role.DESIGNER), f"/tools/{tool.pk}/translations/de/"
    page = client.get(f"{address}?page=2")
    assert len(page.content) < 60_000
    digest = page.context["page"].object_list[0].text.digest
    assert client.post(f"{address}?page=2", edited(page, **{digest: "Der Wert"})).status_code == 302
    assert Translation.objects.get().digest == digest


def test_texts_of_a_vendor_in_another_language_have_a_note():
    german = "Legt für einen Kunden eine neue Rechnung an und gibt ihre Nummer zurück."
    tool = make_tool(make_signature("german_one", description=german, inputs=()))
    other = make_tool(make_signature("english_one", description=SOURCE * 4, inputs=()))
    scan.scan_pending()
    client = signed_in(Role.VIEWER)
    assert client.get(f"/api/v1/tools/{tool.pk}/").json()["language"] == "de"
    unread = make_tool(make_signature("unread", description=german))
    assert client.get(f"/api/v1/tools/{unread.pk}/").json()["language"] == ""
    assert "German text" in text_of(client.get(f"/tools/{tool.pk}/"))
    assert "English text" not in text_of(client.get(f"/tools/{other.pk}/"))
    assert len(re.findall("(German|English) text", text_of(client.get("/tools/")))) == 1


def test_texts_are_exported_for_a_translator_and_imported():
    vendor = make_vendor(slug="acme")
    tool = make_tool(make_signature("make_bill", description=SOURCE), endpoint=make_invoice_tool().endpoint)
    client = signed_in(Role.DESIGNER)
    query = {"language": "de", "type": "csv", "vendor": tool.endpoint.vendor.slug}
    exported = client.get("/translations/export/", query)
    assert exported.headers["Content-Disposition"].endswith('-de.csv"')
    body = exported.content.decode().replace(f"{SOURCE},,", f"{SOURCE},Legt eine Rechnung an,")
    upload = {"language": "de", "file": SimpleUploadedFile("t.csv", body.encode())}
    page = client.post("/translations/import/", upload)
    assert page.context["counts"] == (1, 0, 0)
    assert Translation.objects.get().digest == DIGEST
    assert AuditEntry.objects.get(kind="translation").why == "Imported as CSV"
    empty = client.get("/translations/export/", query | {"vendor": vendor.slug, "type": "xliff"})
    assert b"<unit" not in empty.content
    assert client.get("/translations/export/", {"language": "xx"}).status_code == 400
    refused = client.post(
        "/translations/import/", {"language": "de", "file": SimpleUploadedFile("t.xlf", b"<!DOCTYPE a>")}
    )
    assert refused.context["form"].errors["file"]
