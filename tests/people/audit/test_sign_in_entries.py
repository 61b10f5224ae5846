"""Every sign-in and every new password is in the audit trail."""

import getpass
import io

import pytest
from django.core.management import CommandError, call_command

from pegboard.management.commands.demo import demo_user
from people.models import AuditEntry, Role, User
from tests.factories import PASSWORD, make_user
from tests.pages import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def types(monkeypatch):
    """Replace the input that a user types at the terminal."""

    def answer(*texts: str) -> None:
        texts_left = list(texts)
        monkeypatch.setattr("builtins.input", lambda prompt: texts_left.pop(0))
        monkeypatch.setattr(getpass, "getpass", lambda prompt: texts_left.pop(0))

    return answer


def entry_rows() -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.exclude(kind="session").order_by("pk")
    return [(entry.action, entry.label, entry.why) for entry in rows]


def test_administrator_from_the_command_line(types):
    types("root", PASSWORD, PASSWORD)
    out = io.StringIO()
    call_command("createsuperuser", stdout=out)
    user = User.objects.get()
    assert (user.role, user.check_password(PASSWORD)) == (Role.ADMIN, True)
    assert entry_rows() == [("add person", "root", "From the command line.")]
    assert AuditEntry.objects.get().after["role"] == "admin"
    assert out.getvalue() == "root is an administrator.\n"


def test_administrator_without_a_question(monkeypatch):
    call_command("createsuperuser", "--noinput", "--username", "first", verbosity=0)
    assert not User.objects.get(username="first").has_usable_password()
    monkeypatch.setenv("DJANGO_SUPERUSER_USERNAME", "second")
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--no-input", verbosity=0)
    assert User.objects.get(username="second").check_password(PASSWORD)
    assert [label for _, label, _ in entry_rows()] == ["first", "second"]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["root", "short", "short"], "too short"),
        (["root", PASSWORD, PASSWORD + "!"], "not the same"),
        (["ADA", PASSWORD, PASSWORD], "already signs in"),
        (["a b", PASSWORD, PASSWORD], "valid username"),
        (["", PASSWORD, PASSWORD], "--username"),
    ],
)
def test_invalid_input_is_refused_and_no_user_is_added(types, typed, message):
    make_user(username="ada")
    types(*typed)
    with pytest.raises(CommandError, match=message):
        call_command("createsuperuser")
    assert User.objects.count() == 1
    assert entry_rows() == []


def test_password_from_the_command_line_ends_sessions_and_is_told(types):
    browser = signed_in()
    user = User.objects.get()
    types("another sentence", "another sentence")
    call_command("changepassword", user.username.upper(), stdout=io.StringIO())
    user.refresh_from_db()
    assert user.check_password("another sentence")
    assert browser.get("/").status_code == 302
    assert entry_rows() == [("set password", str(user), "From the command line.")]
    with pytest.raises(CommandError, match="No user signs in as nobody"):
        call_command("changepassword", "nobody")


def test_demo_accounts_are_told_once():
    for password in ("weak", "weak", "other"):
        demo_user(Role.VIEWER, password)
    assert entry_rows() == [
        ("add person", "Viewer", "For the demo."),
        ("set password", "Viewer", "For the demo."),
        ("set password", "Viewer", "For the demo."),
    ]
