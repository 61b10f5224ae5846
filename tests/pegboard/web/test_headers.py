"""Headers of every reply, on every path that produces one."""

import os
import socket
import subprocess
import sys
from http.client import HTTPResponse
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from people.models import Role
from tests.factories import make_user
from tests.test_roles import routes, short_problem_pages

__all__ = ["short_problem_pages"]

ROOT = Path(__file__).resolve().parents[3]
PRODUCTION = {
    "PEGBOARD_HTTPS": "1",
    "PEGBOARD_HOSTS": "pegboard.example",
    "PEGBOARD_SECRET_KEY": "only-for-the-check-of-these-settings-0123456789-abcdefghijklmnopqrstuvwxyz",
    "PEGBOARD_KEYS": "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
    "PATH": "/usr/bin:/bin",
}
EXPECTED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}

pytestmark = pytest.mark.django_db


def faults(answer) -> list[str]:
    policy = dict(
        rule.strip().partition(" ")[::2]
        for rule in answer.headers.get("Content-Security-Policy", "").split(";")
    )
    wrong = [name for name, value in EXPECTED.items() if answer.headers.get(name) != value]
    if "unsafe" in answer.headers.get("Content-Security-Policy", "") or policy.get("default-src") != "'none'":
        wrong.append("default-src")
    for rule, value in (("frame-ancestors", "'none'"), ("base-uri", "'none'"), ("img-src", "'self' data:")):
        if policy.get(rule) != value:
            wrong.append(rule)
    return wrong


@pytest.fixture(scope="module")
def handler():
    return Client().handler


@pytest.mark.parametrize("path", ["/", "/tools/", "/audit/", "/keys/", "/api/v1/tools/", "/api/v1/audit/"])
def test_replies_with_data_are_not_kept(client, path):
    client.force_login(make_user(Role.ADMIN))
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "private, no-store"


def test_files_may_be_kept(client):
    answer = client.get("/static/favicon.svg")
    answer.close()
    assert "no-store" not in answer.headers.get("Cache-Control", "")


@pytest.mark.usefixtures("short_problem_pages")
@pytest.mark.parametrize("actor", ["stranger", Role.ADMIN])
def test_every_address_answers_with_the_headers(actor, handler):
    client = Client(raise_request_exception=False)
    client.handler = handler
    if actor != "stranger":
        client.force_login(make_user(actor))
    wrong = {}
    for route in (*routes(), *routes("admin")):
        if route.name in ("logout", "password-change"):
            continue
        for method in ("GET", "POST", "OPTIONS"):
            if header_faults := faults(
                client.generic(method, route.path, b"{}", content_type="application/json")
            ):
                wrong[method, route.path] = header_faults
    assert wrong == {}


@pytest.mark.parametrize(
    ("path", "extra", "status"),
    [
        ("/nothing/here", {}, 404),
        ("/api/nothing", {}, 404),
        ("/static/css/variables.css", {}, 200),
        ("/static/nothing.css", {}, 404),
        ("/?q=%00", {}, 400),
        ("/tools/?q=" + "x" * 9_000, {}, 414),
        ("/", {"HTTP_HOST": "evil.example"}, 400),
        ("/healthz", {f"HTTP_X_{number}": "x" for number in range(120)}, 431),
        ("/keys", {}, 301),
    ],
)
def test_errors_files_and_redirects_have_them_too(path, extra, status, client):
    answer = client.get(path, **extra)
    answer.close()
    assert (answer.status_code, faults(answer)) == (status, [])


def test_crash_has_them_too(client, monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr("people.users.update_user", fail)
    admin = make_user(Role.ADMIN)
    client.force_login(admin)
    client.raise_request_exception = False
    answer = client.post(f"/users/{admin.pk}/", {"role": "admin", "is_active": "on"})
    assert (answer.status_code, faults(answer)) == (500, [])


def test_form_from_another_site_is_refused_with_them():
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/accounts/login/", {"username": "ada", "password": "x"})
    assert (answer.status_code, faults(answer)) == (403, [])


def test_over_tls_browsers_are_told_to_stay_there_and_cookies_too(client, settings):
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    make_user(username="ada")
    client.get("/accounts/login/", secure=True)
    answer = client.post(
        "/accounts/login/", {"username": "ada", "password": "correct horse battery"}, secure=True
    )
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    for name in (settings.SESSION_COOKIE_NAME, "known_browser"):
        cookie = answer.cookies[name]
        assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "Lax")


def test_settings_of_production_pass_djangos_own_check():
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "DEBUG"],
        cwd=ROOT,
        env=PRODUCTION,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "no issues" in done.stdout) == (0, True), done.stderr
    program = "from pegboard import settings as s; print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, "
    program += "s.SECURE_HSTS_SECONDS, s.SECURE_SSL_REDIRECT, s.SESSION_COOKIE_HTTPONLY, s.DEBUG)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=PRODUCTION, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "31536000", "True", "True", "False"]


HSTS = {
    "": ("31536000 True True", 0),
    "max-age=86400": ("86400 False False", 0),
    "max-age=63072000; includeSubDomains": ("63072000 True False", 0),
    "Max-Age=0": ("0 False False", 0),
    "86400": ("", 1),
    "max-age=1; subdomains": ("", 1),
}


@pytest.mark.parametrize("value", HSTS)
def test_hsts_is_what_the_operator_chose(value):
    program = "from pegboard import settings as s; "
    program += "print(s.SECURE_HSTS_SECONDS, s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**PRODUCTION, "PEGBOARD_HSTS": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == HSTS[value]
    assert ("PEGBOARD_HSTS" in done.stderr) == (done.returncode == 1)


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/accounts/login/", 1_048_577, 413),
        ("/api/v1/vendors/", 1_048_577, 413),
        ("/api/v1/endpoints/", 1_048_577, 400),
        ("/api/v1/endpoints/", 12 * 1_048_576 + 1, 413),
        ("/endpoints/new/", 12 * 1_048_576 + 1, 413),
    ],
)
def test_body_is_as_large_as_its_address_takes(path, size, status, client):
    client.force_login(make_user(Role.ADMIN))
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    answer = client.post(path, b"x" * size, content_type=kind)
    assert answer.status_code == status
    if path.startswith("/api/"):
        assert answer.json().keys() >= {"code", "message"}
    elif status == 413:
        assert "larger than" in answer.content.decode()


def test_form_with_too_many_fields_is_refused(client):
    fields = {f"f{number}": "x" for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)}
    answer = client.post("/accounts/login/", fields)
    assert answer.status_code == 400
    assert "too many fields" in answer.content.decode()


def test_error_page_never_leads_to_another_site(client):
    answer = client.get("//evil.example/%00")
    assert 'href="//evil' not in answer.content.decode()


WRITES_AN_ERROR = """
import socket, sys
from gunicorn import util
from pegboard import gunicorn
assert util.write_error is gunicorn.write_error
ours, theirs = socket.socketpair()
util.write_error(ours, 414, "URI Too Long", "<script>alert(1)</script>")
ours.close()
sys.stdout.buffer.write(theirs.makefile("rb").read())
"""


def test_web_server_itself_answers_with_them_and_repeats_nothing():
    # In a process of its own, because its configuration is that of the whole process.
    command = [sys.executable, "-c", WRITES_AN_ERROR]
    stdout = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, check=True).stdout
    server_socket, client_socket = socket.socketpair()
    with server_socket, client_socket:
        server_socket.sendall(stdout)
        server_socket.close()
        reply = HTTPResponse(client_socket)
        reply.begin()
        body = reply.read().decode()
    assert (reply.status, faults(reply)) == (414, [])
    assert "script" not in body
    reply.close()
