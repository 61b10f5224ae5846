"""One tool of a release by its address, as the export of all tools has it."""

import pytest

from designer.agents import agents
from designer.pins import pins
from designer.releases import publishing
from people.models import Role
from tests.clients import signed_in as api_of
from tests.factories import make_agent, make_parameter, make_signature, make_tool, make_user
from tests.module_data import module_data

pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/desk/releases/"


@pytest.fixture
def api():
    return api_of(Role.VIEWER)


@module_data
def release():
    actor = make_user(Role.DESIGNER)
    desk = make_agent(slug="desk")
    for name in ("book", "look_up", "pay"):
        tool = make_tool(make_signature(name, inputs=(make_parameter("city"),)))
        pins.pin_tool(desk, actor=actor, tool=tool)
    refills = agents.create_agent(actor=actor, name="Refills", slug="refills", parent=desk)
    pins.pin_tool(refills, actor=actor, tool=make_tool(make_signature("refill")))
    return publishing.publish(desk, actor=actor, channel="live")


@pytest.mark.parametrize(
    ("format_", "listed"),
    [
        ("json-schema", lambda document: document["tools"]),
        ("anthropic", lambda document: document),
        ("a2t", lambda document: document["items"]),
        ("gemini", lambda document: document["functionDeclarations"]),
        ("mcp", lambda document: document["tools"]),
        ("oxp", lambda document: document["items"]),
        ("tool-system", lambda document: document["calls"]["items"]["anyOf"]),
    ],
)
def test_each_tool_is_as_in_the_whole(api, release, format_, listed):
    all_tools = listed(api.get(f"{URL}live/tools/?format={format_}").json())
    names = ["book", "look_up", "pay", "transfer_to_refills"]
    assert [api.get(f"{URL}live/tools/{name}/?format={format_}").json() for name in names] == all_tools


def test_a_tool_is_found_by_number_digest_and_agent_and_answers_304(api, release):
    first = api.get(f"{URL}1/tools/book/")
    assert first.json()["wire"]["name"] == "book"
    assert first["ETag"] == f'"{release.digest}"'
    assert api.get(f"{URL}sha256:{release.digest}/tools/book/").content == first.content
    assert api.get(f"{URL}1/tools/book/", headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert api.get(f"{URL}1/agents/refills/tools/refill/").json()["name"] == "refill"
    assert api.get(f"{URL}1/agents/desk/tools/book/").content == first.content


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("1/tools/fly/", 404, "not_found"),
        ("1/tools/refill/", 404, "not_found"),
        ("1/agents/refills/tools/book/", 404, "not_found"),
        ("9/tools/book/", 404, "not_found"),
        ("canary/tools/book/", 404, "channel_empty"),
        ("1/tools/book/?format=word", 400, "unknown_format"),
        ("1/tools/book/?format=skill", 409, "format_cannot_carry"),
    ],
)
def test_what_is_not_there_is_told(api, release, address, status, code):
    answer = api.get(f"{URL}{address}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
