import pytest
from django.test import Client
from kombu import Connection

from catalog import waiting_work
from people.models import Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/accounts/login/",
        "/nothing/",
        "/api/v1/users/",
        "/api/v1/?%00",
        "/keys/",
        "/static/css/base.css",
    ],
)
def test_every_reply_carries_the_headers_that_protect_a_browser(client, path):
    answer = client.get(path)
    answer.close()
    headers = answer.headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]


def test_a_file_that_a_browser_has_kept_stays_as_it_was_kept(client):
    response = client.get("/static/css/base.css")
    response.close()
    answer = client.get(
        "/static/css/base.css", headers={"If-Modified-Since": response.headers["Last-Modified"]}
    )
    assert answer.status_code == 304
    assert answer.headers["Cache-Control"] == response.headers["Cache-Control"]
    # A browser replaces its headers by these.
    assert all(
        response.headers[name] == value for name, value in answer.headers.items() if name != "X-Request-Id"
    )
    assert "Content-Security-Policy" not in answer.headers


@pytest.mark.parametrize("path", ["/?q=%00", "/tools%00/", "/users/?%ed%a0%80=1"])
def test_address_that_cannot_be_stored_is_refused_on_a_page(client, path):
    client.force_login(make_user())
    answer = client.get(path)
    assert answer.status_code == 400
    assert "could not be read" in answer.content.decode()


def test_nul_in_a_form_is_refused(client):
    client.force_login(make_user(Role.ADMIN))
    body = b"username=a%00b&password=x"
    answer = client.post("/users/new/", body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 400


def test_nul_in_the_session_cookie_is_refused(client):
    client.cookies.load('sessionid="\\000aaaaaaaaaaaaaaaa"')
    assert client.get("/keys/").status_code == 400


def test_too_low_a_role_is_told_which_role_it_takes(client):
    client.force_login(make_user(Role.VIEWER))
    answer = client.get("/users/new/")
    assert answer.status_code == 403
    assert "You need the administrator role. An administrator can give it to you." in answer.content.decode()


def test_unknown_address_offers_a_way_on(client):
    client.force_login(make_user())
    answer = client.get("/nothing/")
    assert answer.status_code == 404
    assert 'href="/tools/"' in answer.content.decode()


def test_form_without_its_token_is_explained():
    browser = Client(enforce_csrf_checks=True)
    answer = browser.post("/accounts/login/", {"username": "a", "password": "b"})
    assert answer.status_code == 403
    assert "Please send it again" in answer.content.decode()


def test_crash_shows_a_page_that_needs_no_database(client, monkeypatch):
    monkeypatch.setattr("people.audit.kinds", lambda: 1 / 0)
    client.force_login(make_user())
    client.raise_request_exception = False
    answer = client.get("/audit/")
    assert answer.status_code == 500
    assert "Pegboard failed" in answer.content.decode()


@pytest.mark.parametrize("path", ["/admin/", "/admin/people/user/", "/admin/people/auditentry/"])
def test_djangos_admin_is_for_administrators_only(client, path):
    assert client.get(path).status_code == 302
    client.force_login(make_user(Role.DESIGNER))
    assert client.get(path).status_code == 403
    client.force_login(make_user(Role.ADMIN))
    page = client.get(path)
    assert page.status_code == 200
    assert "<script>" not in page.content.decode()
    assert " style=" not in page.content.decode()


@pytest.mark.parametrize("change", ["add/", "1/delete/", "1/password/"])
def test_djangos_admin_changes_no_user(client, change):
    client.force_login(make_user(Role.ADMIN))
    assert client.post(f"/admin/people/user/{change}").status_code in (302, 403, 404)


def test_djangos_admin_has_no_door_of_its_own(client):
    assert client.get("/admin/login/").headers["Location"].startswith("/accounts/login/?next=")
    client.force_login(make_user(Role.ADMIN))
    assert client.get("/admin/login/").headers["Location"] == "/admin/"
    assert client.get("/admin/password_change/").headers["Location"] == "/accounts/password/"


def test_alive_without_a_database_and_ready_with_one(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert client.get("/healthz").content == b"ok\n"
    nothing_waits = {kind.name: 0.0 for kind in waiting_work.KINDS}
    facts = {"database": "ok", "queue": "ok", "waiting_seconds": nothing_waits, "late": []}
    assert client.get("/readyz").json() == facts


def test_ready_while_the_queue_is_away(client, monkeypatch):
    away = Connection("redis+socket:///nowhere/at/all.sock")
    monkeypatch.setattr("pegboard.celery.app.connection_for_read", lambda: away)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["queue"]) == (200, "unreachable")


def test_metrics_are_for_administrators_and_for_tokens_that_read(client, program):
    assert client.get("/metrics").status_code == 401
    client.force_login(make_user(Role.VIEWER))
    assert client.get("/metrics").status_code == 403
    assert program(make_user(Role.VIEWER), "runtime").get("/metrics").status_code == 403
    assert program(make_user(Role.VIEWER), "read").get("/metrics").status_code == 200
    client.force_login(make_user(Role.ADMIN))
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
    assert "pegboard_runs_active{" in answer.content.decode()


def test_metrics_cost_few_queries(client, django_assert_max_num_queries):
    client.force_login(make_user(Role.ADMIN))
    with django_assert_max_num_queries(20):
        client.get("/metrics")
