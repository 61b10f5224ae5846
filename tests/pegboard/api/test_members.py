"""No call of the API takes a member or a parameter that its schema does not have."""

import inspect
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.utils import timezone
from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.test import APIClient

from catalog.models import Call, Thread, VendorRequest
from catalog.translations.tool_texts import digest_of
from core.serializers import Input
from designer.environments import environments
from designer.procedures import editing
from designer.rehearsals import sentences
from designer.releases import publishing
from pegboard.web import api_reference
from people.api import generics
from people.models import Role, Team
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user
from tests.test_roles import routes

STRANGE = "surprise"
# Calls written by a model: the parameters of its tool are members beside the names of the Tool System.
OPEN = {"ModelCallInput"}
BODIED = ("POST", "PUT", "PATCH")
API_VIEWS = {
    route.view.cls: route.path
    for route in routes()
    if route.path.startswith("/api/v1/") and hasattr(route.view, "cls")
}


@cache
def document() -> dict[str, Any]:
    return json.loads(api_reference.document())


def operations() -> list[tuple[str, str]]:
    return [(method.upper(), path) for path, calls in document()["paths"].items() for method in calls]


@pytest.mark.parametrize("view", API_VIEWS, ids=lambda view: view.__name__)
def test_every_view_of_the_api_refuses_what_it_does_not_declare(view):
    assert issubclass(view, generics.APIView), f"{view} must come from people.api.generics"


def inputs_of(view: type) -> Iterator[Any]:
    for method in (name for name in BODIED if hasattr(view, name.lower())):
        instance = view()
        instance.request, instance.kwargs = None, {}
        schema = generics.schema_of(instance, method)
        if (serializer := schema.get_request_serializer()) is not None:
            yield serializer() if inspect.isclass(serializer) else serializer


def all_below(field: Any) -> Iterator[Any]:
    if isinstance(field, PolymorphicProxySerializer):  # one of several forms
        for form in field.serializers:
            yield from all_below(form)
    elif isinstance(field, serializers.BaseSerializer) and not isinstance(field, serializers.ListSerializer):
        yield field
        for below in field.fields.values():
            yield from all_below(below)
    elif child := getattr(field, "child", None):
        yield from all_below(child)


@pytest.mark.parametrize("view", API_VIEWS, ids=lambda view: view.__name__)
def test_every_body_is_read_by_an_input(view):
    for body_serializer in inputs_of(view):
        open_ones = {
            type(field).__name__ for field in all_below(body_serializer) if not isinstance(field, Input)
        }
        assert open_ones <= OPEN, f"{view.__name__} reads a body by {open_ones}: see core.serializers.Input"


class Places:
    """The paths at which the schema of a body declares members, by names; "*" matches any name."""

    def __init__(self) -> None:
        self.components = document()["components"]["schemas"]
        self.is_open: list[tuple[str, ...]] = []

    def of(self, schema: dict[str, Any], way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        if "$ref" in schema:
            yield from self.of(self.components[schema["$ref"].rpartition("/")[2]], way)
        for choice in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
            yield from self.of(choice, way)
        if "properties" in schema:
            if schema.get("additionalProperties") is not False:
                self.is_open.append(way)
            yield way
            for name, below in schema["properties"].items():
                yield from self.of(below, (*way, name))
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from self.of(schema["additionalProperties"], (*way, "*"))


def bodies() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): call["requestBody"]["content"]["application/json"]["schema"]
        for path, calls in document()["paths"].items()
        for method, call in calls.items()
        if "requestBody" in call
    }


def test_schema_of_every_body_is_closed_at_every_depth():
    places = Places()
    paths = [way for schema in bodies().values() for way in places.of(schema)]
    assert () in paths
    assert ("parameters", "*") in paths
    assert places.is_open == []


@pytest.fixture(scope="module")
def schema_is_made() -> None:
    """It takes seconds, in which no transaction may be idle."""
    document()


@pytest.fixture
def ask(schema_is_made, db):
    """Any call, by an administrator, where the rows of its path exist."""
    admin = make_user(Role.ADMIN)
    tool = make_tool(name="forecast", endpoint=make_endpoint())
    desk = make_agent(slug="desk")
    pin = make_pin(desk, tool)
    make_agent(slug="helper", parent=desk)
    editing.create_procedure(desk, actor=admin, title="Calls", slug="calls")
    # A program's body is judged after its release was found.
    publishing.publish(desk, actor=admin, channel="live")
    thread = Thread.objects.create(agent=desk.pk, release=1, tool=tool)
    environments.create(desk, actor=admin, name="test")
    # So is the output of a call, after the call.
    call = Call.objects.create(
        tool=tool, version=tool.current, agent=desk.pk, release=1, gives_up_at=timezone.now()
    )
    new_sentences = [sentences.NewSentence("Ask it", pin.name)]
    (phrase,) = sentences.add(desk, actor=admin, new_sentences=new_sentences)
    team = Team.objects.create(name="Sales", slug="sales")
    vendor_request = VendorRequest.objects.create(
        protocol="a2t", url="http://127.0.0.1:9/", vendor_name="Weather"
    )
    filled = {
        "agents/{slug}": "agents/desk",
        "pins/{id}": f"pins/{pin.pk}",
        "rehearsals/{id}": f"rehearsals/{phrase.pk}",
        "vendors/{slug}": f"vendors/{tool.endpoint.vendor.slug}",
        "vendor-requests/{id}": f"vendor-requests/{vendor_request.pk}",
        "endpoints/{id}": f"endpoints/{tool.endpoint_id}",
        "tools/{id}": f"tools/{tool.pk}",
        "teams/{slug}": f"teams/{team.slug}",
        "users/{id}": f"users/{admin.pk}",
        "{child}": "helper",
        "{sub}": "helper",
        "{procedure}/versions/{number}": "calls/versions/1",
        "{procedure}": "calls",
        "{username}": admin.username,
        "credentials/{id}": "credentials/00000000-0000-4000-8000-000000000001",
        "judges/{id}": "judges/00000000-0000-4000-8000-000000000001",
        "webhooks/{id}": "webhooks/00000000-0000-4000-8000-000000000001",
        **dict.fromkeys(("{secret}", "{grant}"), "00000000-0000-4000-8000-000000000001"),
        "{thread}": str(thread.key),
        "{event}": "run_failed",
        "{language}/{digest}": f"de/{digest_of(tool.description)}",
        "{language}": "de",
        "{number}": "live",
        "{call}": str(call.pk),
        "{env}": "test",
        "{tool}": pin.name,
        **dict.fromkeys(("{id}", "{example}", "{ordinal}"), "1"),
        "{name}": "forecast",
    }
    client = APIClient()
    client.force_login(admin)

    def ask(method: str, path: str, body: Any = None) -> Any:
        for placeholder, value in filled.items():
            path = path.replace(placeholder, value)
        return client.generic(method, path, json.dumps(body) if body else "", "application/json")

    return ask


def nested(way: tuple[str, ...]) -> dict[str, Any]:
    body: Any = {STRANGE: 1}
    for name in reversed(way):
        body = {"any" if name == "*" else name: body}
    return body


def test_unknown_member_is_refused_by_its_name_wherever_members_are_declared(ask):
    accepted = []
    for call, schema in bodies().items():
        ways = list(Places().of(schema))
        assert ways, call
        for way in ways:
            path = ".".join("any" if name == "*" else name for name in (*way, STRANGE))
            answer = ask(*call, nested(way))
            if answer.status_code != 400 or "no such member" not in answer.json()["fields"].get(path, ""):
                accepted.append((*call, path, answer.status_code, answer.content))
    assert not accepted


def test_call_without_a_body_takes_no_member(ask):
    calls = [call for call in operations() if call[0] != "GET" and call not in bodies()]
    answers = {call: ask(*call, {STRANGE: 1}) for call in calls}
    assert len(calls) > 15
    assert not [call for call, answer in answers.items() if not names(answer, STRANGE)]


def test_unknown_parameter_of_the_address_is_refused_by_its_name(ask):
    answers = {call: ask(call[0], f"{call[1]}?{STRANGE}=1") for call in operations()}
    assert not [call for call, answer in answers.items() if not names(answer, STRANGE)]


def names(answer: Any, name: str) -> bool:
    return answer.status_code == 400 and answer.json()["fields"].keys() == {name}


def test_declared_parameters_are_told_and_taken(ask):
    refused = ask("GET", "/api/v1/runs/?endpont=1").json()["fields"]["endpont"]
    assert "endpoint" in refused
    assert "cursor" in refused
    assert ask("GET", "/api/v1/runs/?endpoint=1&limit=5").status_code == 200
    assert ask("HEAD", "/api/v1/runs/?endpoint=1&limit=5").status_code == 200


def test_misspelt_member_of_a_tuning_wipes_nothing(ask):
    url = "/api/v1/agents/{slug}/pins/{id}/tuning/"
    ask("PUT", url, {"description": "Ours"})
    answer = ask("PUT", url, {"descripton": "Other words"})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["descripton"])
    assert ask("GET", url).json()["description"] == "Ours"


def test_unknown_and_wrong_members_are_told_together(ask):
    fields = ask("POST", "/api/v1/agents/", {"name": 5, "slug": "Not One", STRANGE: 1}).json()["fields"]
    assert fields.keys() == {"name", "slug", STRANGE}


@pytest.mark.parametrize("name", ["", "a.b", "ä", "x" * 1_000])
def test_any_name_that_is_unknown_is_told(name, ask):
    assert ask("POST", "/api/v1/agents/", {"name": "Desk", name: 1}).json()["fields"].keys() == {name}


def test_thousands_of_unknown_members_are_told_by_a_few(ask):
    answer = ask("POST", "/api/v1/agents/", {f"m{number}": 1 for number in range(5_000)})
    assert answer.status_code == 400
    assert len(answer.content) < 10_000
