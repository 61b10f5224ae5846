"""Icons of a vendor of MCP, as clients of a release are shown them."""

import base64

import pytest

from protocols.mcp.client import MCP
from tests.factories import make_endpoint, make_tool
from tests.serving.serve.test_mcp import modern, old
from tests.serving.serve.test_mcp_outputs import list_tool, served
from tests.serving.serve.test_own_clients import enumerated, session, site

__all__ = ["site"]
pytestmark = pytest.mark.django_db
WEB = "https://vendor.example/a.png"
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n...").decode()
ICONS = [
    {"src": WEB, "mimeType": "image/png", "sizes": ["48x48", "96x96"], "theme": "light"},
    {"src": PNG, "sizes": ["any"], "theme": "dark"},
    {"src": "https://vendor.example/a.svg", "mimeType": "image/svg+xml"},
]


def with_icons(owner, icons):
    document = {"name": "tool", "inputSchema": {"type": "object"}, "icons": icons}
    endpoint = make_endpoint(url="http://127.0.0.1:9", protocol="mcp")
    return served(owner, make_tool(MCP().read(document), endpoint=endpoint))


def test_icons_come_through_as_the_vendor_has_them(owner, site):
    client = with_icons(owner, ICONS)
    assert list_tool(modern, client)["icons"] == list_tool(old, client)["icons"] == ICONS
    (tool,) = old(client, "tools/list", version="2025-06-18").json()["result"]["tools"]
    assert "icons" not in tool
    with session(site, client, "/serve/desk/live/mcp") as opened:
        item = enumerated(MCP(), opened)["tool"]
    assert MCP().read(item.document).rest["icons"] == ICONS


@pytest.mark.parametrize(
    "src",
    [
        "javascript:alert(1)",
        "data:,",
        "data:text/html;base64,PGI+",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png,plain",
        "data:image/png;base64," + "A" * 32 * 1024,
        "https://vendor.example/" + "a" * 32 * 1024,
        'https://vendor.example/"><script>',
        "file:///etc/passwd",
        "",
        None,
        7,
    ],
)
def test_an_icon_that_a_client_may_not_be_handed_is_left_out(src, owner):
    assert "icons" not in list_tool(modern, with_icons(owner, [{"src": src, "sizes": ["any"]}]))


def test_members_that_the_protocol_does_not_have_so_are_left_out(owner):
    odd = {"sizes": ["48x48", "x", 7], "mimeType": "text/html", "theme": "neon", "onload": "alert(1)"}
    icons = [{"src": WEB, **odd}, "odd", {"src": PNG, "sizes": "48x48", "mimeType": None, "theme": []}]
    assert list_tool(modern, with_icons(owner, icons))["icons"] == [
        {"src": WEB, "sizes": ["48x48"]},
        {"src": PNG},
    ]


def test_of_many_icons_the_first_are_shown(owner):
    many = [{"src": f"https://vendor.example/{number}.png"} for number in range(50)]
    assert list_tool(modern, with_icons(owner, many))["icons"] == many[:10]


def test_icons_are_shown_up_to_a_length_in_all(owner):
    large = [{"src": "data:image/png;base64," + "A" * 28_000}] * 5
    assert list_tool(modern, with_icons(owner, large))["icons"] == large[:2]
