import json

import pytest

from pegboard import reference
from people.models import Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def operations() -> dict[str, dict]:
    paths = json.loads(reference.document())["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, calls in paths.items()
        for method, operation in calls.items()
    }


def test_schema_is_open_api_3_1_and_names_both_ways_to_sign_in(program):
    schema = program(make_user(Role.VIEWER), "read").get("/api/schema/").json()
    assert schema["openapi"].startswith("3.1")
    assert set(schema["components"]["securitySchemes"]) == {"token", "session"}


def test_every_call_declares_its_role_and_its_refusals():
    for name, operation in operations().items():
        assert operation["x-role"] in Role.values, name
        for code in ("400", "401", "403"):
            shape = operation["responses"][code]["content"]["application/json"]["schema"]
            assert shape == {"$ref": "#/components/schemas/Error"}, name


def test_reference_holds_every_call_of_the_schema(client):
    client.force_login(make_user(Role.VIEWER))
    index = client.get("/api/docs/").content.decode()
    for call in reference.calls():
        assert f"{call.group}/#{call.anchor}" in index


@pytest.mark.parametrize("group", sorted(reference.groups()))
def test_pages_of_the_reference_stay_small_and_have_copyable_examples(client, group):
    client.force_login(make_user(Role.VIEWER))
    answer = client.get(f"/api/docs/{group}/")
    assert len(answer.content) < 60_000
    assert "curl http://testserver/api/v1/" in answer.content.decode()


def test_example_holds_what_a_call_requires():
    make = next(call for call in reference.calls() if (call.method, call.path) == ("POST", "/api/v1/keys/"))
    assert make.example == {"name": "…", "scopes": ["read"]}
    assert make.curl("https://pegboard.example").splitlines() == [
        "curl -X POST https://pegboard.example/api/v1/keys/ \\",
        '  -H "Authorization: Bearer $PEGBOARD_TOKEN" \\',
        '  -H "Content-Type: application/json" \\',
        '  -d \'{"name": "…", "scopes": ["read"]}\'',
    ]


def test_members_below_members_are_listed_by_their_path():
    listing = next(call for call in reference.calls() if (call.method, call.path) == ("GET", "/api/v1/keys/"))
    names = [member.name for member in listing.successes[0].members]
    assert {"results", "results[].owner", "next"} <= set(names)


def test_group_that_does_not_exist_is_not_found(client):
    client.force_login(make_user())
    assert client.get("/api/docs/nothing/").status_code == 404
