"""A method that an address does not take."""

import pytest

from people.models import Role
from tests.factories import make_endpoint
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


def test_what_a_button_sends_to_cannot_be_opened_and_says_so():
    endpoint = make_endpoint()

    answer = signed_in(Role.ADMIN).get(f"/endpoints/{endpoint.pk}/pause/")

    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert f'href="/endpoints/{endpoint.pk}/"' in answer.content.decode()


def test_a_page_that_takes_nothing_says_so():
    answer = signed_in(Role.ADMIN).post("/tools/compare/")

    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert "GET, HEAD, OPTIONS" in text_of(answer)
    assert 'href="/tools/compare/"' in answer.content.decode()


def test_a_stranger_is_told_too(client):
    answer = client.post("/healthz")

    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert "not POST" in text_of(answer)


def test_the_api_answers_in_its_own_shape():
    answer = signed_in(Role.ADMIN).put("/api/v1/vendors/", {}, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
