from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from people import login_lockout
from people.models import FailedSignIn, Role
from tests.factories import PASSWORD, make_user
from tests.people.test_throttling import SPOOFS

pytestmark = pytest.mark.django_db


@pytest.fixture
def few(monkeypatch):
    """Lower the limit, so that a test need not guess 50 times."""
    monkeypatch.setattr(login_lockout, "MAX_PER_ADDRESS", 15)
    monkeypatch.setattr(login_lockout, "MAX_PER_ACCOUNT", 15)


def sign_in(client: Client, username: str, password: str = PASSWORD, **environ):
    return client.post("/accounts/login/", {"username": username, "password": password}, **environ)


def test_right_password_leads_to_the_page_that_was_asked_for(client):
    make_user(username="ada")
    answer = client.post("/accounts/login/?next=/audit/", {"username": "ada", "password": PASSWORD})
    assert answer.headers["Location"] == "/audit/"


def test_another_site_is_never_the_next_page(client):
    make_user(username="ada")
    form = {"username": "ada", "password": PASSWORD, "next": "https://evil.example/"}
    assert client.post("/accounts/login/", form).headers["Location"] == "/"


def test_people_sign_in_in_any_case(client):
    make_user(username="Ada")
    assert sign_in(client, "aDA").status_code == 302


def test_wrong_password_says_so_without_saying_whether_the_name_exists(client):
    make_user(username="ada")
    known_name, unknown = sign_in(client, "ada", "wrong"), sign_in(client, "nobody", "wrong")
    assert known_name.context["form"].errors == unknown.context["form"].errors


def test_deactivated_person_cannot_sign_in(client):
    make_user(username="ada", is_active=False)
    assert sign_in(client, "ada").status_code == 200


def test_ten_wrong_passwords_make_a_person_wait(client):
    make_user(username="ada")
    for _ in range(10):
        assert sign_in(client, "ada", "wrong").status_code == 200
    answer = sign_in(client, "ada")
    assert answer.status_code == 429
    assert "Wait 15 minutes" in answer.content.decode()


def test_waiting_is_over_after_fifteen_minutes(client):
    make_user(username="ada")
    for _ in range(10):
        sign_in(client, "ada", "wrong")
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        assert sign_in(client, "ada").status_code == 302


def test_only_that_account_from_that_address_has_to_wait(client):
    make_user(username="ada")
    make_user(username="bob")
    for _ in range(10):
        sign_in(client, "ADA", "wrong", REMOTE_ADDR="10.0.0.1")
    assert sign_in(client, "ada", REMOTE_ADDR="10.0.0.1").status_code == 429
    assert sign_in(client, "bob", REMOTE_ADDR="10.0.0.1").status_code == 302
    assert sign_in(Client(), "ada", REMOTE_ADDR="10.0.0.2").status_code == 302


def test_forwarded_header_does_not_help_an_attacker_who_guesses(client):
    make_user(username="ada")
    for number in range(10):
        sign_in(client, "ada", "wrong", HTTP_X_FORWARDED_FOR=f"10.1.1.{number}")
    assert sign_in(client, "ada", HTTP_X_FORWARDED_FOR="10.9.9.9").status_code == 429


@pytest.mark.parametrize("proxies", [0, 1])
def test_ten_disguises_are_one_address(client, settings, proxies):
    """Behind the installation's proxy, only the address that the proxy reports counts."""
    settings.NUM_PROXIES = proxies
    make_user(username="ada")
    client_address = "203.0.113.9"
    for number, (header, value) in enumerate(SPOOFS.items()):
        headers = {"x-forwarded-for": client_address} if proxies else {}
        name, text = header.strip().lower(), value.format(number)
        headers[name] = f"{text}, {client_address}" if proxies and name == "x-forwarded-for" else text
        sign_in(client, "ada", "wrong", headers=headers)
    assert len(set(FailedSignIn.objects.values_list("address", flat=True))) == 1
    assert sign_in(client, "ada", headers={"x-forwarded-for": client_address}).status_code == 429


def test_right_password_forgets_the_wrong_ones(client):
    make_user(username="ada")
    for _ in range(9):
        sign_in(client, "ada", "wrong")
    sign_in(client, "ada")
    assert not FailedSignIn.objects.exists()


def test_old_failures_are_cleared_away(client):
    FailedSignIn.objects.create(username="x", address="y", at=timezone.now() - timedelta(days=2))
    sign_in(client, "ada", "wrong")
    assert [row.username for row in FailedSignIn.objects.all()] == ["ada"]


def test_signing_out_takes_a_post(client):
    client.force_login(make_user(Role.VIEWER))
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/").headers["Location"] == "/accounts/login/"


def test_own_password_is_changed_with_the_old_one_and_ends_other_sessions(client):
    user, elsewhere = make_user(Role.VIEWER), Client()
    client.force_login(user)
    elsewhere.force_login(user)
    client.post("/accounts/password/", {"old": PASSWORD, "password": "a wholly new sentence"})
    assert client.get("/keys/").status_code == 200
    assert elsewhere.get("/keys/").status_code == 302


def test_own_password_stays_when_the_old_one_is_wrong(client):
    user = make_user(Role.VIEWER)
    client.force_login(user)
    answer = client.post("/accounts/password/", {"old": "guess", "password": "a wholly new sentence"})
    assert "This is not your password." in answer.content.decode()
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_old_password_cannot_be_guessed_at_an_open_screen_either(client):
    user = make_user(Role.VIEWER)
    client.force_login(user)
    for _ in range(10):
        client.post("/accounts/password/", {"old": "guess", "password": "a wholly new sentence"})
    answer = client.post("/accounts/password/", {"old": PASSWORD, "password": "a wholly new sentence"})
    assert "Wait 15 minutes" in answer.content.decode()
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_weak_password_is_explained_beside_its_field(client):
    client.force_login(make_user(Role.VIEWER))
    answer = client.post("/accounts/password/", {"old": PASSWORD, "password": "password"})
    assert "too short" in answer.context["form"].errors["password"][0]


def test_part_of_a_page_sends_a_stranger_to_the_sign_in_page(client):
    answer = client.get("/keys/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/keys/"})
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == "/accounts/login/?next=%2Fkeys%2F"


def test_one_password_tried_on_many_accounts_is_stopped_at_its_address(client, few):
    for number in range(15):
        assert sign_in(client, f"person{number}", "spring2026", REMOTE_ADDR="10.0.0.1").status_code == 200
    make_user(username="ada")
    assert sign_in(client, "ada", REMOTE_ADDR="10.0.0.1").status_code == 429
    assert sign_in(client, "ada", REMOTE_ADDR="10.0.0.2").status_code == 302


def test_many_addresses_on_one_account_are_stopped_and_its_owner_is_not(client, few):
    make_user(username="ada")
    sign_in(client, "ada", REMOTE_ADDR="192.0.2.1")
    client.post("/accounts/logout/")
    for number in range(15):
        sign_in(Client(), "Ada", "guess", REMOTE_ADDR=f"10.0.0.{number}")
    answer = sign_in(Client(), "ada", REMOTE_ADDR="10.0.1.1")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "900")
    assert sign_in(client, "ada", REMOTE_ADDR="192.0.2.77").status_code == 302


def test_an_attacker_behind_the_same_proxy_locks_no_user_out(client, few):
    make_user(username="ada")
    sign_in(client, "ada")
    client.post("/accounts/logout/")
    for _ in range(10):
        sign_in(Client(), "ada", "guess")
    for number in range(15):
        sign_in(Client(), f"person{number}", "guess")
    assert sign_in(Client(), "ada").status_code == 429
    assert sign_in(client, "ada").status_code == 302


def test_known_browser_may_not_guess_for_ever_either(client):
    make_user(username="ada")
    sign_in(client, "ada")
    client.post("/accounts/logout/")
    for number in range(10):
        sign_in(client, "ada", "guess", REMOTE_ADDR=f"10.0.0.{number}")
    assert sign_in(client, "ada", REMOTE_ADDR="10.0.9.9").status_code == 429


def test_mark_of_a_known_browser_is_of_one_account_and_cannot_be_made_up(client, few):
    for name in ("ada", "eve"):
        make_user(username=name)
    sign_in(client, "eve")
    client.post("/accounts/logout/")
    forged = Client()
    forged.cookies["known_browser"] = "ImFkYSI:1vM:forged"
    for number in range(15):
        sign_in(Client(), "ada", "guess", REMOTE_ADDR=f"10.0.0.{number}")
    assert [sign_in(browser, "ada", REMOTE_ADDR="10.0.1.1").status_code for browser in (client, forged)] == [
        429,
        429,
    ]


@pytest.mark.parametrize(
    ("proxies", "header", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "10.9.9.9, 203.0.113.9", "203.0.113.9"),
        (2, "10.9.9.9, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (3, "203.0.113.9", "127.0.0.1"),
        (1, "", "127.0.0.1"),
        (1, "nonsense", "127.0.0.1"),
        (1, "203.0.113.9, ", "127.0.0.1"),
        (1, "2001:DB8::1", "2001:db8::1"),
        (1, "203.0.113.9:4711", "127.0.0.1"),
    ],
)
def test_address_is_what_our_own_proxies_heard(client, settings, proxies, header, address):
    settings.NUM_PROXIES = proxies
    sign_in(client, "ada", "wrong", HTTP_X_FORWARDED_FOR=header)
    assert FailedSignIn.objects.get().address == address
