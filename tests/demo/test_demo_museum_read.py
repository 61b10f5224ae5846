"""The museum as the product meets it."""

import pytest

from catalog.credentials.sessions import open_session
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from demo.museum import TOOLS
from protocols.calls import outcomes
from tests.demo.test_demo_museum import museum
from tests.factories import make_endpoint

__all__ = ["museum"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_the_museum_is_read_called_and_asked(museum):
    endpoint = make_endpoint(protocol="mcp", url=f"http://127.0.0.1:{museum.port}/mcp")
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error, run.added, run.rejected) == ("succeeded", None, len(TOOLS), 0)
    tools = {tool.name: tool for tool in Tool.objects.select_related("current")}
    assert all(tool.current.losses() == [] for tool in tools.values())

    def call(name, arguments):
        with open_session(endpoint) as session:
            return endpoint.build_protocol().invoke(
                session, name, None, tools[name].current.decoded(), arguments
            )

    result = call("search_objects", {"query": "brig", "limit": 2})
    assert (result.outcome, len(result.outputs["objects"]), result.notes) == ("ok", 2, ())
    assert call("report_condition", {"object_id": "TM-1042", "condition": "WORN"}).outcome == "ok"
    assert call("get_object", {"object_id": "TM-9999"}).outcome == "tool_error"
    refused = outcomes.refusal(tools["get_object"].current.decoded(), {"object_id": "nonsense"})
    assert refused.outcome == "invalid_arguments", "before anything is sent"
    interrupted = call("book_visit", {"date": "2027-03-09", "people": 12})
    assert interrupted.outcome == "needs_input"
    with open_session(endpoint) as session:
        booked = endpoint.build_protocol().resume(
            session,
            "book_visit",
            None,
            tools["book_visit"].current.decoded(),
            interrupted.resume,
            {"guide": {"language": "Dutch"}},
        )
    assert (booked.outcome, booked.outputs["guide_language"]) == ("ok", "Dutch")
