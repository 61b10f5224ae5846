"""A vendor previewed before it is connected, in a real browser."""

import json

import pytest

from catalog.models import Endpoint, EndpointDocument
from people.models import Role
from tests.browser.axe import shut_out
from tests.protocols.openapi.documents import document, operation

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DOCUMENT = document(
    {
        "/books": {
            "get": operation("findBooks", tags=["books"]),
            "post": operation("addBook", tags=["books"]),
        },
        "/loans": {"get": operation("listLoans", tags=["loans"], security=[{"key": []}])},
    },
    components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
)


def test_preview_stands_beside_a_form_that_keeps_what_was_typed(open_browser):
    page = open_browser(Role.ADMIN).new_page()
    page.goto("/endpoints/new/")
    page.get_by_text("Choose the protocol yourself").click()
    page.get_by_label("Name of the new vendor").fill("Library")
    page.get_by_role("radio", name="OpenAPI").check()
    page.locator("#id_openapi-document_0").set_input_files(
        {"name": "openapi.json", "mimeType": "application/json", "buffer": json.dumps(DOCUMENT).encode()}
    )
    page.locator("#id_openapi-include_tags").fill("books")
    page.locator("#id_url").fill("https://api.example.com/v1")

    page.get_by_role("button", name="Preview the tools").click()
    preview = page.locator("#preview")
    preview.get_by_text("findBooks").wait_for()
    assert "listLoans" not in preview.inner_text()
    assert not Endpoint.objects.exists()

    page.locator("#id_openapi-include_tags").fill("")
    page.get_by_role("button", name="Preview the tools").click()
    preview.get_by_text("listLoans").wait_for()
    assert "X-Key" in preview.inner_text()
    assert shut_out(page) == []

    page.get_by_role("button", name="Save and sync tools").click()
    page.wait_for_url("**/runs/*/")
    assert json.loads(EndpointDocument.objects.get().text) == DOCUMENT
