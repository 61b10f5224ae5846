"""The demo workshop, described by an OpenAPI document and asked by the product itself."""

import threading

import pytest

from core.outbound.addresses import Policy
from core.outbound.session import HttpSession
from demo import VENDORS
from demo.openapi_server import DOCUMENT_PATH, OpenApiServer
from demo.workshop import DOCUMENT, KEY, Workshop
from protocols.list_pages import NoKnownPages
from protocols.openapi.client import OpenApi

VENDOR = next(vendor for vendor in VENDORS if vendor.slug == "hubwright")


@pytest.fixture
def server():
    server = OpenApiServer(0, VENDOR, DOCUMENT, Workshop())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def session_with(server, **more):
    return HttpSession(server.url + DOCUMENT_PATH, policy=Policy.parse("127.0.0.1/32"), **more)


@pytest.fixture
def session(server):
    with session_with(server) as session:
        yield session


@pytest.fixture
def tools(session):
    pages = OpenApi().enumerate(session, NoKnownPages())
    return {item.tool_id: OpenApi().read(item.document) for page in pages for item in page.items}


@pytest.fixture
def call(session, tools):
    def run(tool_id, **arguments):
        return OpenApi().invoke(session, tool_id, None, tools[tool_id], arguments)

    return run


def test_every_operation_is_a_tool(tools):
    assert len(tools) == 15
    assert "GET:/bikes/(bike)" in tools
    assert {tag for tool in tools.values() for tag in tool.tags} == {"Shop", "Rentals", "Repairs", "Parts"}
    assert all(tool.title for tool in tools.values())


def test_queries_of_every_style_are_understood(call):
    result = call(
        "find_bikes", kinds=["road", "tandem"], frame={"min": 50, "max": 60}, electric=False, limit=50
    )
    assert result.outcome == "ok"
    bikes = result.outputs["result"]
    assert bikes
    assert {bike["kind"] for bike in bikes} == {"road", "tandem"}
    assert all(50 <= bike["frame_cm"] <= 60 and not bike["electric"] for bike in bikes)
    parts = call("find_parts", words=["chain", "11"]).outputs["result"]
    assert [part["part"] for part in parts] == ["chain 11-speed"]


def test_rental_goes_through_every_method(call):
    bike = next(bike["number"] for bike in call("find_bikes", limit=50).outputs["result"] if not bike["out"])
    rented = call("rent_bike", bike=bike, days=2, name="Ada", **{"X-Request-Id": "a1"})
    assert rented.outcome == "ok"
    assert rented.outputs["id"] == "R-a1"
    assert call("extend_rental", rental="R-a1", days=3).outcome == "ok"
    assert call("show_rental", rental="R-a1").outputs["name"] == "Ada"
    assert call("return_bike", rental="R-a1").outcome == "ok"
    result = call("show_rental", rental="R-a1")
    assert (result.outcome, result.error["message"]) == (
        "tool_error",
        "The tool returned 409: There is no rental R-a1.",
    )


def test_body_that_is_one_of_two_is_one_input(call, tools):
    assert [parameter.name for parameter in tools["book_repair"].inputs] == ["body"]
    ticket = call("book_repair", body={"fault": "brakes"}).outputs["ticket"]
    mended = call("approve_repair", ticket=ticket, approved=True, limit_cents=5000)
    assert mended.outputs["state"] == "on_stand"
    assert call("list_repairs", state="on_stand").outputs["count"] == 1


def test_form_is_sent_as_a_form(call):
    assert call("order_parts", part="bell", count=2, note="red & loud").outputs["part"] == "bell"


def test_recursive_body_is_sent_as_it_is(call):
    wheel = {"name": "wheel", "holds": [{"name": "rim"}, {"name": "hub", "holds": [{"name": "axle"}]}]}
    assert call("quote_build", body=wheel).outputs["parts"] == 4


def test_files_are_sent(server, call, tools):
    assert OpenApi().why_not_run(tools["add_photo"]) is None
    ticket = call("book_repair", body={"fault": "brakes"}).outputs["ticket"]
    photo = "data:image/png;base64,iVBORw0KGgo="
    assert call("add_photo", ticket=ticket, photo=photo).outcome == "ok"
    assert call("list_repairs").outputs["repairs"][-1]["photo_bytes"] == 8
    assert call("add_photo", ticket="T-99", photo=photo).outcome == "tool_error"


def test_key_opens_what_asks_for_one(server, call, tools):
    assert call("takings", date="2027-03-09").outcome == "needs_authorization"
    assert tools["takings"].requirements.secrets == (
        "workshop_key: an API key in the header “X-Workshop-Key”",
    )
    with session_with(server, authorization={"X-Workshop-Key": KEY}) as session:
        result = OpenApi().invoke(session, "takings", None, tools["takings"], {"date": "2027-03-09"})
    assert result.outcome == "ok"
