"""The preview of a connection, before anything is saved."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from catalog.models import Credential, Endpoint, Vendor
from people.models import AuditEntry, Role
from protocols.list_pages import NoKnownPages
from tests.pages import signed_in, text_of
from tests.protocols.openapi.documents import document, operation

pytestmark = pytest.mark.django_db

PREVIEW = "/api/v1/endpoints/preview/"
PASTED = document(
    {
        "/books": {
            "get": operation("findBooks", tags=["books"]),
            "post": operation("addBook", tags=["books"]),
        },
        "/loans": {"get": operation("listLoans", tags=["loans"])},
        "/bad": {"get": {"parameters": 5}},
    }
)
UPLOADED = {
    "protocol": "openapi",
    "url": "https://api.example.com/v1",
    "settings": {"document": json.dumps(PASTED)},
}


def test_preview_counts_tools_and_tokens_of_a_vendor(admin_api, vendor):
    response = admin_api.post(PREVIEW, {"protocol": "a2t", "url": vendor.url}, format="json")

    assert response.status_code == 200
    preview = response.json()
    assert (preview["tools"], preview["is_complete"], preview["error"]) == (25, True, None)
    assert preview["tokens"] == sum(tool["tokens"] for tool in preview["first"])
    assert preview["tags"] == [{"name": "things", "tools": 25, "tokens": preview["tokens"]}]
    assert not Endpoint.objects.exists()
    assert not AuditEntry.objects.filter(kind="endpoint").exists()


def test_preview_of_a_pasted_document_groups_by_tag_and_method(admin_api):
    preview = admin_api.post(PREVIEW, UPLOADED, format="json").json()

    assert [(group["name"], group["tools"]) for group in preview["tags"]] == [("books", 2), ("loans", 1)]
    assert [(group["name"], group["tools"]) for group in preview["kinds"]] == [("GET", 2), ("POST", 1)]
    assert [tool["name"] for tool in preview["first"]] == ["findBooks", "addBook", "listLoans"]
    assert preview["rejected"] == 1
    assert preview["rejections"][0]["tool"] == "GET:/bad"


def test_preview_shows_what_is_included(admin_api):
    filtered = {**UPLOADED["settings"], "include_tags": ["Books"], "include_methods": ["get"]}

    preview = admin_api.post(PREVIEW, {**UPLOADED, "settings": filtered}, format="json").json()

    assert [tool["name"] for tool in preview["first"]] == ["findBooks"]


def test_vendor_that_does_not_answer_is_told_and_no_failure(admin_api):
    preview = admin_api.post(PREVIEW, {"protocol": "a2t", "url": "http://127.0.0.1:1/"}, format="json").json()

    assert preview["tools"] == 0
    assert preview["error"]["code"] in ("URL", "CONNECT")


def test_preview_is_for_administrators(designer_api):
    assert designer_api.post(PREVIEW, UPLOADED, format="json").status_code == 403


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"protocol": "none"}, "protocol"),
        ({"url": "nowhere"}, "url"),
        ({"settings": {"unknown": 1}}, "settings"),
        ({"settings": {"include_tags": "books"}}, "settings"),
        ({"settings": {"include_tags": [5]}}, "settings"),
        ({"settings": {"document": ["x"]}}, "settings"),
        ({"settings": {"server": "not an address"}}, "settings"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(admin_api, change, field):
    refused = admin_api.post(PREVIEW, {**UPLOADED, **change}, format="json")

    assert refused.status_code == 400
    assert field in refused.json()["fields"]


FORM = {
    "vendor": "",
    "vendor_name": "",
    "protocol": "openapi",
    "url": "https://api.example.com/v1",
    "credential": "",
    "interval_minutes": "60",
}


def upload(body):
    return SimpleUploadedFile("openapi.json", body, "application/json")


def test_wizard_shows_the_preview_beside_the_form(db):
    form = FORM | {"openapi-document_file": upload(json.dumps(PASTED).encode())}

    page = signed_in(Role.ADMIN).post("/endpoints/new/preview/", form, headers={"hx-request": "true"})

    words = text_of(page)
    assert "findBooks" in words
    assert "books" in words
    assert "Nothing is saved yet." in words
    assert "<form" not in page.content.decode()
    assert not Vendor.objects.exists()


def test_wizard_without_scripts_gets_the_whole_page(db):
    form = FORM | {"openapi-document_text": json.dumps(PASTED), "openapi-include_tags": "loans\n"}

    page = signed_in(Role.ADMIN).post("/endpoints/new/preview/", form)

    assert "listLoans" in text_of(page)
    assert "findBooks" not in [tool.name for tool in page.context["preview"].first]
    assert "<form" in page.content.decode()


def test_new_credential_is_used_and_not_kept(db, vendor):
    form = FORM | {"protocol": "a2t", "url": vendor.url, "a2t-page_size": "50"}
    secret = {"credential": "new", "kind": "bearer", "secret": "s3cr3t-word"}

    page = signed_in(Role.ADMIN).post(
        "/endpoints/new/preview/", form | secret, headers={"hx-request": "true"}
    )

    assert "tool_1" in text_of(page)
    assert vendor.headers[-1]["authorization"] == "Bearer s3cr3t-word"
    assert not Credential.objects.exists()


def test_what_cannot_be_previewed_is_explained(db):
    page = signed_in(Role.ADMIN).post(
        "/endpoints/new/preview/", FORM | {"url": "nowhere"}, headers={"hx-request": "true"}
    )

    assert "Start the address with" in text_of(page)


def test_uploaded_document_is_saved_read_and_never_shown_again(admin_api):
    form = FORM | {"vendor_name": "Library", "openapi-document_file": upload(json.dumps(PASTED).encode())}
    signed_in(Role.ADMIN).post("/endpoints/new/", form)

    endpoint = Endpoint.objects.get()
    (page,) = endpoint.build_protocol().enumerate(FakeSession(), NoKnownPages())
    assert len(page.items) == 3
    shown_document = admin_api.get(f"/api/v1/endpoints/{endpoint.pk}/").json()["settings"]["document"]
    assert shown_document["bytes"] == len(json.dumps(PASTED))
    assert "findBooks" not in str(list(AuditEntry.objects.values("after")))


class FakeSession:
    root = "https://api.example.com/v1"
    largest = 32 << 20


def test_document_is_kept_until_it_is_replaced_or_forgotten(admin_api):
    admin = signed_in(Role.ADMIN)
    admin.post(
        "/endpoints/new/", FORM | {"vendor_name": "Library", "openapi-document_text": json.dumps(PASTED)}
    )
    endpoint = Endpoint.objects.get()
    path = f"/endpoints/{endpoint.pk}/"
    edited = {"name": "Books", "url": FORM["url"], "interval_minutes": "60", "credential": ""}

    admin.post(path, edited)
    endpoint.refresh_from_db()
    assert (endpoint.name, json.loads(endpoint.documents()["document"])) == ("Books", PASTED)

    shown_settings = admin_api.get(f"/api/v1{path}").json()["settings"]
    admin_api.patch(
        f"/api/v1{path}", {"settings": {**shown_settings, "include_tags": ["books"]}}, format="json"
    )
    endpoint.refresh_from_db()
    assert json.loads(endpoint.documents()["document"]) == PASTED
    assert endpoint.settings["include_tags"] == ["books"]

    admin.post(path, edited | {"forget-document": "on"})
    endpoint.refresh_from_db()
    assert endpoint.settings == {}


def test_change_is_previewed_before_it_is_saved(db):
    admin = signed_in(Role.ADMIN)
    admin.post(
        "/endpoints/new/", FORM | {"vendor_name": "Library", "openapi-document_text": json.dumps(PASTED)}
    )
    endpoint = Endpoint.objects.get()
    edited = {"url": FORM["url"], "interval_minutes": "60", "credential": "", "setting-include_tags": "loans"}

    partial_page = admin.post(f"/endpoints/{endpoint.pk}/preview/", edited, headers={"hx-request": "true"})
    full_page = admin.post(f"/endpoints/{endpoint.pk}/preview/", edited)

    assert [tool.name for tool in partial_page.context["preview"].first] == ["listLoans"]
    assert "<form" not in partial_page.content.decode()
    assert "listLoans" in text_of(full_page)
    endpoint.refresh_from_db()
    assert "include_tags" not in endpoint.settings


@pytest.mark.parametrize("body", [b"\xff\xfe", b"x" * (10 * 1024 * 1024 + 1)])
def test_file_that_is_no_text_or_too_large_is_refused(db, body):
    page = signed_in(Role.ADMIN).post(
        "/endpoints/new/", FORM | {"vendor_name": "Library", "openapi-document_file": upload(body)}
    )

    assert page.context["form"].errors["openapi-document"]
    assert not Endpoint.objects.exists()


def test_document_larger_than_a_usual_body_is_taken_over_rest(admin_api):
    padded = {**PASTED, "x-padding": "x" * 2_000_000}

    response = admin_api.post(
        PREVIEW, {**UPLOADED, "settings": {"document": json.dumps(padded)}}, format="json"
    )

    assert response.json()["tools"] == 3
