"""Every address that Pegboard gives out begins with PEGBOARD_URL, whichever way the request came in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as product
from django.test import Client, RequestFactory

from catalog.credentials.oauth.client_metadata import document_url, redirect_uri
from core.public_url import foreign_page_message, is_open_elsewhere, public_url
from people.models import Role
from tests.factories import make_user, make_vendor
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
OURS = "https://pegboard.example"


@pytest.fixture
def at_our_address(settings):
    settings.PUBLIC_URL = OURS


@pytest.fixture
def request_(rf: RequestFactory):
    return rf.get("/credentials/")


def test_without_a_setting_it_is_the_address_that_was_asked(request_):
    assert public_url("/keys/", request_) == "http://testserver/keys/"
    assert public_url("/keys/") == "/keys/"


@pytest.mark.usefixtures("at_our_address")
def test_a_setting_is_the_same_for_every_request(request_):
    assert public_url("/keys/", request_) == public_url("/keys/") == f"{OURS}/keys/"


@pytest.mark.usefixtures("at_our_address")
def test_authorization_servers_are_told_it(request_):
    assert redirect_uri(request_) == f"{OURS}/credentials/callback/"
    assert document_url(request_) == f"{OURS}/credentials/client.json"
    document = signed_in(Role.VIEWER).get("/credentials/client.json").json()
    assert document["client_id"] == f"{OURS}/credentials/client.json"
    assert document["client_uri"] == f"{OURS}/"
    assert document["redirect_uris"] == [f"{OURS}/credentials/callback/"]


@pytest.mark.usefixtures("at_our_address")
@pytest.mark.parametrize("path", ["/credentials/new/", "/endpoints/new/"])
def test_pages_show_it_as_the_redirect_address(path):
    page = signed_in(Role.ADMIN).get(path)
    assert page.context["redirect_uri"] == f"{OURS}/credentials/callback/"


@pytest.mark.usefixtures("at_our_address")
def test_lists_go_on_there(client):
    make_vendor(), make_vendor()
    client.force_login(make_user(Role.VIEWER))
    page = client.get("/api/v1/vendors/?limit=1").json()
    assert page["next"].startswith(f"{OURS}/api/v1/vendors/?")


@pytest.mark.usefixtures("at_our_address")
def test_examples_call_it(client):
    client.force_login(make_user(Role.DESIGNER))
    assert f"curl {OURS}/api/v1/" in client.get("/api/docs/tools/").content.decode()
    response = client.post("/keys/new/", {"name": "CI", "scope": "runtime", "days": "30"})
    assert response.context["example"].startswith(f"{OURS}/"), response.context["form"].errors


@pytest.mark.parametrize(
    ("origin", "is_elsewhere"),
    [
        (OURS, False),
        ("", False),
        ("null", False),
        ("http://pegboard.example", True),
        ("https://10.0.0.7", True),
    ],
)
@pytest.mark.usefixtures("at_our_address")
def test_a_browser_tells_whether_it_is_open_elsewhere(rf, origin, is_elsewhere):
    """Its Origin counts: a proxy may have put its own name into Host."""
    request = rf.post("/", headers={"Origin": origin, "Host": "web:8000"})
    assert is_open_elsewhere(request) is is_elsewhere


def test_one_module_makes_addresses_of_ours():
    makers = {
        str(path.relative_to(product.BASE_DIR))
        for app in ("core", "people", "catalog", "protocols", "designer", "execution", "serving", "pegboard")
        for path in Path(product.BASE_DIR, app).rglob("*.py")
        if "build_absolute_uri" in path.read_text() or "settings.PUBLIC_URL" in path.read_text()
    }
    assert makers == {"core/public_url.py", "pegboard/ops/doctor/setup.py"}


FOREIGN = {
    "another site": ("https://evil.example", ["https://evil.example", OURS, "PEGBOARD_URL"]),
    "an opaque page": ("null", ["own address"]),
    "a proxy that does not tell of TLS": ("https://testserver", ["X-Forwarded-Proto", "PEGBOARD_HTTPS=1"]),
}


@pytest.mark.usefixtures("at_our_address")
@pytest.mark.parametrize("what", FOREIGN)
def test_a_form_from_a_foreign_page_is_told_what_mends_it(what, rf):
    origin, expected = FOREIGN[what]
    message = foreign_page_message(rf.post("/accounts/login/", headers={"Origin": origin}))
    assert all(part in message for part in expected)
    browser = Client(enforce_csrf_checks=True)
    page = browser.post("/accounts/login/", {"username": "ada"}, headers={"Origin": origin})
    assert (page.status_code, page.context["foreign_page"]) == (403, message)
    browser.force_login(make_user(Role.ADMIN))
    answer = browser.post("/api/v1/users/", {}, "application/json", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["message"]) == (403, message)


def test_a_form_that_was_open_for_too_long_is_told_that(client):
    page = Client(enforce_csrf_checks=True).post("/accounts/login/", {"username": "ada"})
    assert (page.status_code, page.context["foreign_page"]) == (403, "")


@pytest.mark.parametrize(
    ("address", "origins"),
    [
        ("", ["https://a.example"]),
        ("https://Pegboard.example:443/", ["https://a.example", "https://pegboard.example"]),
        ("http://127.0.0.1:8000", ["https://a.example", "http://127.0.0.1:8000"]),
    ],
)
def test_forms_of_our_own_address_are_trusted(address, origins):
    done = subprocess.run(
        [sys.executable, "-c", "from pegboard import settings; print(settings.CSRF_TRUSTED_ORIGINS)"],
        env={**os.environ, "PEGBOARD_URL": address, "PEGBOARD_ORIGINS": "https://a.example"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(origins)
