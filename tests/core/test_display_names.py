import pytest

from core import display_names
from core.errors import DomainError
from people import api_keys
from people.models import ApiKey, Role
from tests.factories import make_user

STRANGE = {
    "turns the rest around": "\u202e",
    "isolates": "\u2066",
    "is a control": "\x07",
    "ends the line": "\n",
    "ends the paragraph": "\u2029",
    "takes no room": "\u200b",
    "marks the order of bytes": "\ufeff",
    "smuggles a letter": "\U000e0041",
    "is half of another": "\ud83d",
    "fills a place with nothing": "\u3164",
    "has no agreed meaning": "\ue000",
}


@pytest.mark.parametrize(
    "name",
    ["Acme", "天気", "Größe & Co.", "می‌خواهم", "👩‍💻 desk", "☀️ desk", "Prix\xa0: bas", "क्‍ष", "a" * 100],
)
def test_name_without_hidden_characters_is_taken(name):
    assert display_names.name_problem(name, 100) == ""


@pytest.mark.parametrize("character", STRANGE.values(), ids=STRANGE)
def test_hidden_character_is_named(character):
    assert f"U+{ord(character):04X}" in display_names.name_problem(f"Ac{character}me", 100)


@pytest.mark.parametrize("name", ["", "  ", "\u200d", " \u200c ", "a" * 101])
def test_nothing_to_read_is_no_name(name):
    assert display_names.name_problem(name, 100) == "Enter a name of up to 100 characters."


@pytest.mark.django_db
def test_key_cannot_carry_a_name_that_misleads():
    with pytest.raises(DomainError) as refused:
        api_keys.issue(make_user(), actor=None, name="ci\u202e", scopes=["read"])
    assert "U+202E" in refused.value.fields["name"]
    assert not ApiKey.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("agents", {}),
        ("vendors", {}),
        ("credentials", {"kind": "bearer", "url": "https://api.acme.example/", "secret": "s3cret"}),
        ("keys", {"scopes": ["read"]}),
        ("users", {"username": "ada", "password": "correct horse battery"}),
    ],
)
def test_call_refuses_such_a_name_at_its_field(program, path, body):
    answer = program(make_user(Role.ADMIN), "admin").post(f"/api/v1/{path}/", {"name": "desk\u202e", **body})
    assert answer.status_code == 400
    assert "U+202E" in answer.json()["fields"]["name"]
