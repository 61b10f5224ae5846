"""Running tools over REST."""

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Example
from catalog.models.runs import Trigger
from execution.calls import examples, requesting
from people.models import Role
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, in_turn, json_reply
from tests.protocols.openapi.documents import document, operation

INPUTS = (make_parameter("city"), make_parameter("days", type="int", required=False, min=1, max=14))
ANSWER = json_reply({"output_parameters": [{"name": "weather", "value": '{"sky": "fair"}'}]})
LATE = {"arguments": {"city": "Oslo"}, "deadline_seconds": 1}


def make_it(url: str = "http://127.0.0.1:9", **fields):
    outputs = (make_parameter("weather", type="json"),)
    return make_tool(
        make_signature(inputs=INPUTS, outputs=outputs, **fields), endpoint=make_endpoint(url=url)
    )


@pytest.mark.django_db(transaction=True)
def test_a_call_answers_with_its_outcome(designer_api):
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url)
        answer = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {"city": "Oslo"}})

    body = answer.json()
    assert (answer.status_code, body["outcome"], body["status"]) == (200, "ok", "finished")
    assert body["outputs"] == {"weather": '{"sky": "fair"}'}
    assert body["parsed"] == {"weather": {"sky": "fair"}}
    assert body["error"] is None
    assert body["duration_ms"] >= 0
    ((exchange,),) = [attempt["exchanges"] for attempt in body["attempts"]]
    assert (exchange["method"], exchange["status"]) == ("POST", 200)
    assert "Oslo" in exchange["body"]
    assert designer_api.get(f"/api/v1/tools/{tool.pk}/calls/{body['call']}/").json() == body


@pytest.mark.django_db
def test_arguments_that_do_not_fit_are_answered_without_a_call(designer_api):
    answer = designer_api.post(f"/api/v1/tools/{make_it().pk}/invoke/", {"arguments": {"days": 99, "x": 1}})

    body = answer.json()
    assert (answer.status_code, body["outcome"], body["call"]) == (200, "invalid_arguments", None)
    assert body["error"]["fields"].keys() == {"city", "days", "x"}
    assert not Call.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"arguments": []}, "arguments"),
        ({"version": True}, "version"),
        ({"ordinal": "1"}, "ordinal"),
        ({"confirm": "yes"}, "confirm"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
        ({"deadline_seconds": 9999}, "deadline_seconds"),
    ],
)
def test_a_body_of_another_form_is_refused(designer_api, body, field):
    answer = designer_api.post(f"/api/v1/tools/{make_it().pk}/invoke/", body)

    assert answer.status_code == 400
    assert field in answer.json()["fields"]


@pytest.mark.django_db
def test_a_version_that_is_not_there_is_not_found(designer_api):
    answer = designer_api.post(f"/api/v1/tools/{make_it().pk}/invoke/", {"version": 7})

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_version")


@pytest.mark.django_db(transaction=True)
def test_what_may_destroy_needs_a_yes(designer_api):
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url, annotations=Annotations(destructive=True))
        url, body = f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {"city": "Oslo"}}
        response = designer_api.post(url, body)
        ran = designer_api.post(url, {**body, "confirm": True})

    assert (response.status_code, response.json()["code"]) == (409, "confirm_needed")
    assert "may destroy something" in response.json()["message"]
    assert ran.json()["outcome"] == "ok"


@pytest.mark.django_db(transaction=True)
def test_an_answer_goes_on_with_a_call_that_asked(designer_api):
    asks = json_reply({"message": "Who?", "missing_requirements": {"user_id": True}}, status=400)
    done = json_reply({"success": True, "value": {"sent": True}})
    with HostileVendor(in_turn(asks, done)) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="oxp")
        tool = make_tool(make_signature(), endpoint=endpoint)
        paused = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {"city": "Oslo"}}).json()
        unfit = designer_api.post(paused["resume"], {"answers": {}}).json()
        done = designer_api.post(paused["resume"], {"answers": {"user_id": "ada"}}).json()

    assert (paused["outcome"], [ask["id"] for ask in paused["asks"]]) == ("needs_authorization", ["user_id"])
    assert (unfit["outcome"], unfit["error"]["fields"]) == ("invalid_arguments", {"user_id": "is required"})
    assert (done["outcome"], done["resume"]) == ("ok", None)


@pytest.mark.django_db(transaction=True)
def test_a_vendor_that_is_silent_ends_at_the_deadline(designer_api):
    with HostileVendor(BEHAVIOURS["accepts and is silent"]) as vendor:
        tool = make_it(vendor.url)
        answer = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", LATE)

    body = answer.json()
    assert (answer.status_code, body["outcome"]) == (200, "unavailable")
    assert body["error"]["code"] == "DEADLINE"


@pytest.mark.django_db(transaction=True)
def test_calls_are_listed_by_tool(designer_api):
    with HostileVendor(ANSWER) as vendor:
        tool = make_it(vendor.url)
        for city in ("Oslo", "Rome", "Bern"):
            designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {"city": city}})

    first = designer_api.get(f"/api/v1/tools/{tool.pk}/calls/?limit=2").json()
    second = designer_api.get(first["next"]).json()
    rows = first["results"] + second["results"]
    assert [row["arguments"]["city"] for row in rows] == ["Bern", "Rome", "Oslo"]
    assert {row["outcome"] for row in rows} == {"ok"}
    assert designer_api.get(f"/api/v1/tools/{make_it().pk}/calls/").json()["results"] == []


@pytest.mark.django_db
def test_long_arguments_are_cut_in_lists_and_whole_in_their_call(designer_api):
    call = make_call(arguments={"city": "x" * 5_000, "days": 3, "more": ["y" * 5_000]})
    url = f"/api/v1/tools/{call.tool_id}/calls/"

    (row,) = designer_api.get(url).json()["results"]

    assert row["arguments"] == {"city": "x" * 200 + "…", "days": 3, "more": '["' + "y" * 198 + "…"}
    assert designer_api.get(f"{url}{call.pk}/").json()["arguments"] == call.arguments


@pytest.mark.django_db
def test_a_call_belongs_to_its_tool(designer_api):
    call = make_call()

    assert designer_api.get(f"/api/v1/tools/{make_it().pk}/calls/{call.pk}/").status_code == 404
    assert designer_api.get(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/").status_code == 200


def make_call(**fields) -> Call:
    from tests.factories import user_of

    call = requesting.request_call(
        make_it().current, actor=user_of(Role.DESIGNER), arguments={"city": "Oslo"}
    )
    Call.objects.filter(pk=call.pk).update(**{"status": "finished", "outcome": "ok"} | fields)
    return Call.objects.get(pk=call.pk)


@pytest.mark.django_db
def test_arguments_are_kept_as_an_example_and_forgotten_again(designer_api):
    call = make_call()
    url = f"/api/v1/tools/{call.tool_id}/examples/"

    response = designer_api.post(url, {"call": call.pk, "name": "Capital"})
    again = designer_api.post(url, {"call": call.pk, "name": "Capital"})

    assert (response.status_code, response.json()["arguments"]) == (201, {"city": "Oslo"})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert designer_api.get(url).json()["results"] == [response.json()]
    assert designer_api.delete(f"{url}{response.json()['id']}/").status_code == 204
    assert not Example.objects.exists()


@pytest.mark.django_db
def test_examples_of_others_are_neither_compared_nor_counted(designer_api, monkeypatch):
    monkeypatch.setattr(examples, "MAX_PER_TOOL", 1)
    call, other = make_call(), make_user(Role.DESIGNER)
    examples.save_example(call, actor=other, name="Capital")
    saved = designer_api.post(f"/api/v1/tools/{call.tool_id}/examples/", {"call": call.pk, "name": "Capital"})
    assert saved.status_code == 201, saved.json()
    again = designer_api.post(f"/api/v1/tools/{call.tool_id}/examples/", {"call": call.pk, "name": "Next"})
    assert (again.status_code, again.json()["code"]) == (409, "too_many_examples")


@pytest.mark.django_db
def test_a_call_that_asked_nothing_cannot_be_continued(designer_api):
    call = make_call()

    answer = designer_api.post(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/resume/", {})

    assert (answer.status_code, answer.json()["code"]) == (409, "nothing_to_continue")


@pytest.mark.django_db(transaction=True)
def test_a_record_that_an_api_does_not_have_is_the_tools_answer_with_its_body(designer_api):
    openapi_document = document({"/orders/{id}": {"get": operation("get_order")}})

    def api(line, request):
        if request.path == "/openapi.json":
            return json_reply(openapi_document)(line, request)
        return json_reply({"detail": "There is no order 7."}, status=404)(line, request)

    with HostileVendor(api) as vendor:
        endpoint = make_endpoint(url=f"{vendor.url}/openapi.json", protocol="openapi")
        enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
        tool = endpoint.tools.get()
        body = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {"id": "7"}}).json()

    assert (body["outcome"], body["error"]["code"]) == ("tool_error", "HTTP_404")
    assert body["outputs"] == {"body": {"detail": "There is no order 7."}}
    assert "There is no order 7." in body["error"]["message"]
