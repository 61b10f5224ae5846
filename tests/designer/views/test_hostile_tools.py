"""Tools with hostile schemas in the pages and addresses that a designer opens: each is answered."""

import pytest
from rest_framework.test import APIClient

from designer import exports
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role
from protocols.mcp.client import MCP
from tests.factories import make_agent, make_endpoint, make_tool, make_user, make_version
from tests.hostile_schemas import CASES
from tests.module_data import module_data
from tests.pages import signed_in_as

pytestmark = pytest.mark.django_db

TEXT = {"type": "string"}
SCHEMAS = {
    "shared": {
        "type": "object",
        "$defs": {"Large": {"type": "object", "properties": {f"m{n}": TEXT for n in range(500)}}},
        "properties": {f"p{n}": {"$ref": "#/$defs/Large"} for n in range(300)},
    },
    "cycles": {
        "type": "object",
        "$defs": {
            "a": {"oneOf": [{"$ref": "#/$defs/b"}, TEXT]},
            "b": {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]},
            "endless": {"$ref": "#/$defs/endless"},
        },
        "properties": {
            "a": {"$ref": "#/$defs/a"},
            "b": {"$ref": "#/$defs/endless"},
            "c": {"$ref": "#/$defs/none"},
            "d": {"$ref": "#"},
        },
    },
    "numbers": CASES["huge numbers"],
    "names": {
        "type": "object",
        "properties": {f"<b>{n}&\"'" * 60: TEXT for n in range(900)},
        "required": ["<b>0&\"'" * 60],
    },
    "texts": {
        "type": "object",
        "properties": {
            f"p{n}": TEXT | {"description": "word \u202e" * 100, "default": "d" * 300} for n in range(600)
        },
    },
    "values": {
        "type": "object",
        "properties": {f"p{n}": TEXT | {"enum": [f"value {m}" for m in range(5_000)]} for n in range(8)},
    },
}
# Bytes of a page with any schema, and of one with the texts of a dozen inputs and half a dozen outputs.
MAX_PAGE_BYTES, MAX_WORDS_BYTES = 60_000, 90_000
WORDS = ("/tools/{tool}/tuning/", "{agent}pins/{pin}/", "{agent}pins/{pin}/?inputs=8&outputs=8")
PAGES = [
    "/tools/{tool}/",
    "/tools/{tool}/?inputs=9&outputs=9",
    "/tools/{tool}/peek/",
    "/tools/{tool}/try/",
    "/tools/{tool}/versions/",
    "/tools/{tool}/tuning/",
    "/tools/{tool}/raw/",
    "/tools/{tool}/same-job/",
    "/tools/compare/?tool={tool}&tool={other}",
    "{agent}",
    "{agent}publish/",
    "{agent}changes/",
    "{agent}upgrades/",
    "{agent}mocks/",
    "{agent}rehearsals/",
    "{agent}read/",
    "{agent}pins/{pin}/",
    "{agent}pins/{pin}/?inputs=8&outputs=8",
    "{agent}pins/{pin}/shown/",
    "{agent}pins/{pin}/preview/?ordinal=2",
    "{agent}mocks/{pin}/",
    "{agent}mocks/procedures/way/",
    "{agent}procedures/way/",
    "{agent}procedures/way/tools/{pin}/",
    "{agent}environments/",
    "/activities/new/?interface={tool}&tool={tool}",
]
ADDRESSES = [
    "tools/{tool}/",
    "tools/{tool}/diff/?from=1&to=2",
    "tools/{tool}/versions/",
    "tools/{tool}/impact/",
    "tools/{tool}/tuning/",
    "tools/compare/?tool={tool}&tool={other}",
    "{agent}draft/",
    "{agent}readiness/",
    "{agent}upgrades/",
    "{agent}budget/",
    "{agent}releases/1/",
    "{agent}pins/{pin}/",
    "{agent}pins/{pin}/shown/?format=mcp",
    "{agent}pins/{pin}/tuning/",
]
FORMS = {
    "{agent}pins/{pin}/": {"version": 1, "description": "Tuned", "description-0": "Input"},
    "/tools/{tool}/try/": {"ordinal": 1, "json": "{}"},
    "{agent}mocks/{pin}/": {"act": "seed", "seed": "9"},
    "{agent}pins/{pin}/move/": {"ordinal": 2},
    "{agent}publish/": {},
}


def signature(name, schema, description):
    return MCP().read(
        {"name": name, "description": description, "inputSchema": schema, "outputSchema": schema}
    )


@module_data
def hostile():
    """Each hostile tool with two versions, pinned by an agent beside a tool of the same vendor."""
    designer, endpoint = make_user(Role.DESIGNER), make_endpoint()
    other = make_tool(endpoint=endpoint)
    rows = {}
    for name, schema in SCHEMAS.items():
        tool = make_tool(signature(name, schema, "Before"), endpoint=endpoint)
        make_version(tool, signature(name, schema | {"title": "New"}, "After"))
        agent = make_agent(slug=name, name=name)
        pin = pins.pin_tool(agent, actor=designer, tool=tool, ordinal=1)
        pins.pin_tool(agent, actor=designer, tool=other)
        editing.create_procedure(agent, actor=designer, title="Way", body="Write.", slug="way")
        publishing.publish(agent, actor=designer)
        rows[name] = {"tool": tool.pk, "pin": pin.pk, "other": other.pk}
    return designer, rows


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_page_and_address_is_answered(hostile, name):
    designer, rows = hostile
    browser, api = signed_in_as(designer), APIClient()
    api.force_login(designer)

    statuses = {
        page: browser.get(
            page.format(agent=f"/agents/{name}/", **rows[name]),
            headers={"HX-Request": "true"} if "/peek/" in page else {},
        )
        for page in PAGES
    }
    pages = {page: len(reply.content) for page, reply in statuses.items()}
    statuses |= {
        address: api.get(f"/api/v1/{address.format(agent=f'agents/{name}/', **rows[name])}")
        for address in ADDRESSES
    }
    statuses |= {
        f"POST {page}": browser.post(page.format(agent=f"/agents/{name}/", **rows[name]), data)
        for page, data in FORMS.items()
    }

    assert {page: reply.status_code for page, reply in statuses.items() if reply.status_code >= 400} == {}
    limits = dict.fromkeys(PAGES, MAX_PAGE_BYTES) | dict.fromkeys(WORDS, MAX_WORDS_BYTES)
    assert {page: length for page, length in pages.items() if length >= limits[page]} == {}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_other_tool_of_the_vendor_is_exported(hostile, name):
    designer, _ = hostile
    api = APIClient()
    api.force_login(designer)

    for format_ in exports.FORMATS:
        if format_.limits.of == "tools":
            reply = api.get(f"/api/v1/agents/{name}/releases/1/tools/?format={format_.name}&partial=1")
            assert (reply.status_code, b"tool_" in reply.content) == (200, True), format_.name
