import json
import re

import pytest
from django.utils import translation

from pegboard.web import api_reference
from people.models import Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def operations() -> dict[str, dict]:
    paths = json.loads(api_reference.document())["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, calls in paths.items()
        for method, operation in calls.items()
    }


def test_schema_is_open_api_3_1_and_names_both_ways_to_sign_in(program):
    schema = program(make_user(Role.VIEWER), "read").get("/api/schema/").json()
    assert schema["openapi"].startswith("3.1")
    assert set(schema["components"]["securitySchemes"]) == {"key", "session"}


def test_schema_is_english_in_whichever_language_a_page_reads_it_first():
    english = api_reference.document()
    api_reference.document.cache_clear()

    with translation.override("de"):
        assert api_reference.document() == english


def test_every_call_declares_its_role_and_its_refusals():
    for name, operation in operations().items():
        is_public = operation["x-role"] == "public"
        assert is_public or operation["x-role"] in Role.values, name
        assert is_public == (operation["security"] == [{}]), name
        for code in ("400",) if is_public else ("400", "401", "403"):
            shape = operation["responses"][code]["content"]["application/json"]["schema"]
            assert shape == {"$ref": "#/components/schemas/Error"}, name


@pytest.mark.parametrize(
    ("call", "name", "facts"),
    [
        ("GET /api/v1/runs/", "endpoint", {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}),
        ("GET /api/v1/findings/", "tool", {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}),
        ("GET /api/v1/runs/", "cursor", {"type": "string", "minLength": 1}),
        ("GET /api/v1/tools/", "cursor", {"type": "string", "minLength": 1}),
        ("GET /api/v1/tools/", "vendor", {"type": "array", "items": {"type": "string", "minLength": 1}}),
    ],
)
def test_parameter_says_what_is_taken(call, name, facts):
    parameters = {parameter["name"]: parameter["schema"] for parameter in operations()[call]["parameters"]}
    assert parameters[name].items() >= facts.items()


@pytest.mark.parametrize(
    ("component", "member", "accepted_value", "refused"),
    [
        ("CredentialInputRequest", "url", "https://api.acme.example:8443/v1", "notaurl"),
        ("EndpointInputRequest", "url", "http://[::1]:9100/a2t?v=1", "ftp://api.acme.example/"),
        ("PatchedEndpointChangeRequest", "url", "HTTPS://api.acme.example", ""),
        ("VendorInputRequest", "homepage", "", "acme.example"),
        ("PatchedVendorChangeRequest", "homepage", "https://bücher.example/?a=b", "javascript:alert(1)"),
        ("PinInputRequest", "alias", "", "two words"),
        ("PatchedPinChangeRequest", "alias", "forecast", "2nd"),
    ],
)
def test_member_with_a_form_says_so(component, member, accepted_value, refused):
    schema = json.loads(api_reference.document())["components"]["schemas"][component]["properties"][member]
    assert len([choice for choice in schema.get("oneOf", [schema]) if fits(choice, accepted_value)]) == 1
    assert not [choice for choice in schema.get("oneOf", [schema]) if fits(choice, refused)]


def fits(schema: dict, text: str) -> bool:
    return len(text) <= schema.get("maxLength", len(text)) and bool(
        re.search(schema.get("pattern", ""), text)
    )


def test_null_is_a_value_of_a_change_like_any_other():
    change = json.loads(api_reference.document())["components"]["schemas"]["Change"]
    assert change["properties"]["before"] == change["properties"]["after"] == {}
    assert {"before", "after"} <= set(change["required"])


def test_reference_holds_every_call_of_the_schema(client):
    client.force_login(make_user(Role.VIEWER))
    index = client.get("/api/docs/").content.decode()
    for call in api_reference.calls():
        assert f"{call.group}/#{call.anchor}" in index


@pytest.mark.parametrize("group", sorted(api_reference.groups()))
def test_pages_of_the_reference_stay_small_and_have_copyable_examples(client, group):
    client.force_login(make_user(Role.VIEWER))
    answer = client.get(f"/api/docs/{group}/")
    assert len(answer.content) < 60_000
    assert re.search("curl (-X POST )?http://testserver/api/v1/", answer.content.decode())


def test_example_holds_what_a_call_requires():
    make = next(
        call for call in api_reference.calls() if (call.method, call.path) == ("POST", "/api/v1/keys/")
    )
    assert make.example == {"name": "…", "scopes": ["read"]}
    assert make.curl("https://pegboard.example").splitlines() == [
        "curl -X POST https://pegboard.example/api/v1/keys/ \\",
        '  -H "Authorization: Bearer $PEGBOARD_TOKEN" \\',
        '  -H "Content-Type: application/json" \\',
        '  -d \'{"name": "…", "scopes": ["read"]}\'',
    ]


def test_members_below_members_are_listed_by_their_path():
    listing = next(
        call for call in api_reference.calls() if (call.method, call.path) == ("GET", "/api/v1/keys/")
    )
    names = [member.name for member in listing.successes[0].members]
    assert {"results", "results[].owner", "next"} <= set(names)


def test_group_that_does_not_exist_is_not_found(client):
    client.force_login(make_user())
    assert client.get("/api/docs/nothing/").status_code == 404
