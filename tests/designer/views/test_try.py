"""The page on which a tool is tried: its form, what came back, what was tried before."""

import re

import pytest
from msgspec import UNSET, json

from catalog.credentials import operations as credential_operations
from catalog.models import Call, Endpoint, Example, ToolVersion
from catalog.models.calls import Attempt, CallStatus, RecordedExchange, Result, StoredQuestion
from designer.pins import tunings
from execution.calls import examples, queue, requesting
from people.models import Role
from protocols.signature import AllowedValue, Annotations, Parameter, Requirements
from tests.factories import make_parameter, make_signature, make_tool, make_user, make_version, user_of
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db

UNITS = (AllowedValue("METRIC", "Celsius"), AllowedValue("US"))
INPUTS = (
    make_parameter("city", max_length=40),
    make_parameter("units", type="enum", required=False, allowed_values=UNITS),
    make_parameter("days", type="int", required=False, min=1, max=14, default=3),
    make_parameter("wind", type="boolean", required=False),
    make_parameter("is_real", type="boolean"),
    make_parameter("when", required=False, schema={"type": "string", "format": "date"}),
    make_parameter("extra", type="json", required=False, schema={"type": "array"}),
)


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


def make_it(inputs=INPUTS, **fields):
    return make_tool(make_signature(inputs=inputs, outputs=(make_parameter("weather"),), **fields))


def try_url(tool) -> str:
    return f"/tools/{tool.pk}/try/"


def form(tool, **values) -> dict[str, object]:
    names = [parameter.name for parameter in tool.current.decoded().inputs]
    return {"ordinal": 1} | {f"input-{names.index(name)}": value for name, value in values.items()}


def finished(tool, outcome="ok", *, result=UNSET, arguments=None, **fields) -> Call:
    values = {"city": "Oslo", "is_real": True} if arguments is None else arguments
    call = requesting.request_call(
        tool.current, actor=user_of(Role.DESIGNER), arguments=values, is_confirmed=True
    )
    encoded = json.encode(Result() if result is UNSET else result).decode()
    facts = {"status": CallStatus.FINISHED, "outcome": outcome, "result": encoded, "duration_ms": 40} | fields
    Call.objects.filter(pk=call.pk).update(**facts)
    return Call.objects.get(pk=call.pk)


def test_why_a_model_made_a_call_is_told_as_text(designer):
    call = finished(make_it(), reasoning="<b>Both</b> were asked about.")
    page = designer.get(f"{try_url(call.tool)}?call={call.pk}").content.decode()
    assert "&lt;b&gt;Both&lt;/b&gt; were asked about." in page


def test_each_input_has_a_field_that_fits_it(designer):
    page = designer.get(try_url(make_it())).content.decode()

    assert re.search(r'<input type="text" name="input-0"', page)
    assert re.search(r'<select name="input-1".*?Leave it out.*?METRIC: Celsius.*?US', page, re.DOTALL)
    assert re.search(r'name="input-2".*?inputmode="numeric"', page)
    assert re.search(r'<select name="input-3".*?Leave it out.*?Yes.*?No', page, re.DOTALL)
    assert re.search(r'<input type="checkbox" name="input-4"', page)
    assert re.search(r'<textarea name="input-6"', page)


def test_hints_say_what_a_value_must_look_like(designer):
    page_text = text_of(designer.get(try_url(make_it())))

    assert "The city At most 40 characters." in page_text
    assert "A whole number, 1 to 14. Default: 3." in page_text
    assert "A date, such as 2027-03-09." in page_text


def test_the_shape_of_a_json_input_comes_with_its_definitions(designer):
    inputs = (make_parameter("visit", type="json", schema={"$ref": "#/$defs/Visit"}),)
    tool = make_tool(make_signature(inputs=inputs, schema_rest={"$defs": {"Visit": {"title": "A visit"}}}))

    assert '"title": "A visit"' in text_of(designer.get(try_url(tool)))


def test_a_tool_that_cannot_be_run_says_why(designer):
    tool = make_tool(make_signature(inputs=(make_parameter("photo", type="json", unsupported_type="file"),)))

    page = designer.get(try_url(tool))

    assert "cannot send: “photo” (file)" in text_of(page)
    assert 'disabled title="An input has a type' in page.content.decode()
    refused = text_of(designer.post(try_url(tool), form(tool, photo="1")))
    assert refused.count("cannot send: “photo” (file)") == 2
    assert not Call.objects.exists()


def test_what_was_typed_is_sent_as_the_signature_says(designer):
    tool = make_it()
    payload = form(tool, city="Oslo", units="US", days="7", wind="false", is_real="on", extra='[1, "a"]')

    designer.post(try_url(tool), payload)

    assert Call.objects.get().arguments == {
        "city": "Oslo",
        "units": "US",
        "days": 7,
        "wind": False,
        "is_real": True,
        "extra": [1, "a"],
    }


def test_what_is_left_empty_is_left_out(designer):
    tool = make_it()

    designer.post(try_url(tool), form(tool, city="Oslo", units="", days="", wind="", extra=""))

    assert Call.objects.get().arguments == {"city": "Oslo", "is_real": False}


def test_all_that_is_wrong_is_said_at_once_and_nothing_typed_is_lost(designer):
    tool = make_it()

    page = designer.post(try_url(tool), form(tool, city="x" * 41, days="many", extra="{oops"))

    errors = page.context["form"].errors
    assert errors.keys() >= {"input-0", "input-2", "input-6"}
    assert "whole number" in errors["input-2"][0]
    assert "not valid JSON" in errors["input-6"][0]
    page_html = page.content.decode()
    assert "x" * 41 in page_html
    assert 'value="many"' in page_html
    assert "{oops" in page_html
    assert not Call.objects.exists()


def test_what_is_wrong_with_the_inputs_together_is_said_above_them(designer):
    either = {"anyOf": [{"required": ["city"]}, {"required": ["town"]}]}
    inputs = tuple(make_parameter(name, required=False) for name in ("city", "town"))
    tool = make_tool(make_signature(inputs=inputs, schema_rest=either))

    page = designer.post(try_url(tool), form(tool))

    assert "Your input" in page.context["form"].non_field_errors()[0]
    assert not Call.objects.exists()


def test_missing_input_is_asked_for_at_its_field(designer):
    tool = make_it()

    page = designer.post(try_url(tool), form(tool))

    assert "required" in page.context["form"].errors["input-0"][0].lower()


def test_all_inputs_may_be_one_object(designer):
    tool = make_it()

    designer.post(try_url(tool), {"ordinal": 1, "json": '{"city": "", "is_real": false}'})

    assert Call.objects.get().arguments == {"city": "", "is_real": False}


@pytest.mark.parametrize(
    "typed", ["[1]", '{"city": 5}', '{"city": "a", "city": "b"}', '{"x\\u0000": 1}', "{"]
)
def test_an_object_that_does_not_fit_is_refused_where_it_was_typed(designer, typed):
    tool = make_it()

    page = designer.post(try_url(tool), {"ordinal": 1, "json": typed})

    assert page.context["form"].errors["json"]
    assert not Call.objects.exists()


@pytest.mark.parametrize(("seconds", "deadline"), [("120", 120), ("9999", 30), ("x", 30)])
def test_a_person_says_how_long_to_wait(designer, seconds, deadline):
    tool = make_it()

    designer.post(try_url(tool), form(tool, city="Oslo") | {"deadline": seconds})

    assert Call.objects.get().deadline_seconds == deadline


def test_a_call_leads_to_its_result_with_the_form_still_filled(designer):
    tool = make_it()

    answer = designer.post(try_url(tool), form(tool, city="Oslo", days="7"))

    call = Call.objects.get()
    assert answer["Location"] == f"{try_url(tool)}?call={call.pk}#call"
    page = designer.get(answer["Location"]).content.decode()
    assert 'value="Oslo"' in page
    assert 'value="7"' in page
    assert f'hx-get="/tools/{tool.pk}/calls/{call.pk}/"' in page


def test_a_form_that_is_sent_twice_is_one_call(designer):
    tool = make_it()
    payload = form(tool, city="Oslo") | {"key": "00000000-0000-4000-8000-000000000001"}

    first, second = designer.post(try_url(tool), payload), designer.post(try_url(tool), payload)

    assert first["Location"] == second["Location"]
    assert Call.objects.count() == 1


def test_what_may_destroy_asks_before_it_runs(designer):
    tool = make_it(annotations=Annotations(destructive=True))
    payload = form(tool, city="Oslo")

    page = designer.post(try_url(tool), payload)
    assert "Confirm to run it." in text_of(page)
    assert 'value="Oslo"' in page.content.decode()
    assert not Call.objects.exists()

    designer.post(try_url(tool), payload | {"confirm": "on"})
    assert Call.objects.count() == 1


def test_a_credential_is_spoken_of_where_the_endpoint_has_one(designer):
    tool = make_it(annotations=Annotations(destructive=True))
    goes = f"This is a real call: it goes to {tool.endpoint.vendor}"
    assert f"{goes}." in text_of(designer.get(try_url(tool)))

    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=tool.endpoint.url, secret="s" * 20
    )
    Endpoint.objects.filter(pk=tool.endpoint_id).update(credential=credential)
    assert f"{goes} with the credential of this endpoint." in text_of(designer.get(try_url(tool)))


def test_requirements_and_agents_are_named(designer):
    needs = Requirements(scopes=("mail.read",), secrets=("API_TOKEN",), user=True)

    page_text = text_of(designer.get(try_url(make_it(requirements=needs, kind="agent"))))

    assert "This is an agent" in page_text
    assert "mail.read" in page_text
    assert "API_TOKEN" in page_text
    assert "Acts for one user" in page_text


def test_an_older_version_has_its_own_form(designer):
    tool = make_it()
    make_version(tool, make_signature(inputs=(make_parameter("town"),)))

    assert "town" in text_of(designer.get(try_url(tool)))
    assert "Leave it out" in text_of(designer.get(f"{try_url(tool)}?version=1"))
    assert designer.get(f"{try_url(tool)}?version=9").status_code == 404


def test_a_viewer_looks_and_does_not_run():
    tool, viewer = make_it(), signed_in(Role.VIEWER)

    assert 'id="try"' not in viewer.get(try_url(tool)).content.decode()
    assert viewer.post(try_url(tool), form(tool, city="Oslo")).status_code == 403


def test_the_part_that_moves_stops_when_the_call_is_over(designer):
    tool = make_it()
    call = finished(tool, result=Result(outputs={"weather": "fair"}))

    part = designer.get(f"/tools/{tool.pk}/calls/{call.pk}/", headers={"HX-Request": "true"})

    assert "hx-trigger" not in part.content.decode()
    assert "<html" not in part.content.decode()
    assert "Result Succeeded" in text_of(part)
    assert "weather fair" in text_of(part)


def test_everything_a_tool_returns_is_text(designer):
    hostile = {
        "weather": "<script>alert(1)</script>",
        "<b>": [{"<i>": "<img src=x>"}],
        "items": {"a": {"b": 1}},
    }
    exchange = RecordedExchange(
        "POST", "http://x/", reply="<script>bad()</script>", reply_headers={"x": "<b>"}
    )
    result = Result(outputs=hostile, attempts=[Attempt("ok", exchanges=[exchange])])
    call = finished(make_it(), result=result)

    page = designer.get(f"{try_url(call.tool)}?call={call.pk}").content.decode()

    assert not re.search(r"<script>|<img|<b>|<i>", page)
    assert "&lt;script&gt;" in page


def test_values_are_shown_as_a_person_reads_them(designer):
    outputs = {
        "text": "two\nlines",
        "rows": [{"city": "Oslo", "sky": "fair"}, {"city": "Rome"}],
        "list": ["a", 1],
        "deep": {"a": {"b": [1]}},
        "yes": True,
        "none": None,
        "zero": 0,
        "empty": [],
    }
    call = finished(make_it(), result=Result(outputs=outputs))

    page = designer.get(f"{try_url(call.tool)}?call={call.pk}")

    page_text = text_of(page)
    assert "text two lines rows city sky Oslo fair Rome nothing list a 1 deep" in page_text
    assert "yes yes none nothing zero 0 empty empty" in page_text
    assert "<td>Oslo</td>" in page.content.decode()


def test_the_longest_answer_still_makes_a_page(designer):
    exchange = RecordedExchange(
        "POST", "http://x/", {"a": "b" * 300}, "c" * 16_000, 200, {"d": "e" * 300}, "f" * 16_000
    )
    attempts = [Attempt("unavailable", "HTTP_503", "g" * 900, exchanges=[exchange] * 20) for _ in range(3)]
    outputs = {f"o{n}": [{"a": "x" * 5_000, "b": n}] * 100 for n in range(2)}
    call = finished(make_it(), result=Result(outputs=outputs, attempts=attempts))

    page = designer.get(f"{try_url(call.tool)}?call={call.pk}")

    assert "The first 8 of 20" in text_of(page)
    assert len(page.content) < 400_000


def test_a_version_without_a_label_goes_by_its_number(designer):
    tool = make_it()
    facts = {name: getattr(tool.current, name) for name in ("signature", "raw", "digest")}
    tool.current = ToolVersion.objects.create(tool=tool, ordinal=2, label="", **facts)
    tool.save()
    finished(tool)

    assert designer.get(try_url(tool)).status_code == 200


def test_a_failure_says_what_happened_and_what_to_do(designer):
    error = {"code": "ARGUMENTS", "message": "The vendor refused the inputs.", "fields": {"items": "is odd"}}
    call = finished(make_it(), "invalid_arguments", result=Result(error=error), error_code="ARGUMENTS")

    page_text = text_of(designer.get(f"{try_url(call.tool)}?call={call.pk}"))

    assert "The vendor refused the inputs. items : is odd Correct the inputs" in page_text


def test_every_attempt_is_told(designer):
    away = Attempt(
        "unavailable", "HTTP_503", "Away.", exchanges=[RecordedExchange("POST", "http://x/", status=503)]
    )
    result = Result(
        attempts=[
            away,
            Attempt("ok", waited_ms=500, exchanges=[RecordedExchange("POST", "http://x/", status=200)]),
        ]
    )
    call = finished(make_it(), result=result)

    page_text = text_of(designer.get(f"{try_url(call.tool)}?call={call.pk}"))

    assert "tried 2 times" in page_text
    assert "Try 1: Not available Away." in page_text
    assert "Try 2: Succeeded, after waiting 500 ms" in page_text


def asking(tool, **ask) -> Call:
    question = StoredQuestion("q", "Which <room>?", **ask)
    return finished(tool, "needs_input", result=Result(asks=[question], resume={"state": 1}))


def test_a_question_of_the_tool_is_a_form_and_its_answer_goes_on(designer):
    schema = {"type": "object", "properties": {"room": {"type": "integer"}}, "required": ["room"]}
    call = asking(make_it(), schema=schema)
    page = designer.get(f"{try_url(call.tool)}?call={call.pk}")
    assert "Which &lt;room&gt;?" in page.content.decode()

    url = f"/tools/{call.tool_id}/calls/{call.pk}/continue/"
    refused = designer.post(url, {"ask-0-input-0": "x"})
    assert "whole number" in text_of(refused)
    designer.post(url, {"ask-0-input-0": "12"})

    following = Call.objects.latest("pk")
    assert (following.continues, following.answers) == (call, {"q": {"room": 12}})


def test_a_question_may_be_declined(designer):
    call = asking(make_it(), schema={"type": "string"})

    designer.post(f"/tools/{call.tool_id}/calls/{call.pk}/continue/", {"decline": "1"})

    assert Call.objects.latest("pk").answers == {"q": None}


def test_an_address_to_visit_is_shown_as_text_and_opens_alone(designer):
    call = asking(make_it(), url="https://auth.example/?a=1&b=<x>")

    page = designer.get(f"{try_url(call.tool)}?call={call.pk}").content.decode()
    assert ">https://auth.example/?a=1&amp;b=&lt;x&gt;</code>" in page
    assert 'rel="noopener noreferrer nofollow" referrerpolicy="no-referrer"' in page

    designer.post(f"/tools/{call.tool_id}/calls/{call.pk}/continue/")
    assert Call.objects.latest("pk").answers == {"q": {}}


def test_a_call_that_is_being_continued_is_not_continued_twice(designer):
    call = asking(make_it(), schema={"type": "string"})
    url = f"/tools/{call.tool_id}/calls/{call.pk}/continue/"

    designer.post(url, {"ask-0-input-0": "a"})
    again = designer.post(url, {"ask-0-input-0": "b"}, follow=True)

    assert "is being continued with other answers" in text_of(again)
    assert Call.objects.count() == 2


def test_history_says_who_ran_what(designer):
    call = finished(make_it(), arguments={"city": "Bern<>", "is_real": True})

    page_text = text_of(designer.get(try_url(call.tool)))

    assert f"{call.requested_name} 1" in page_text
    assert "Bern<>" in page_text
    assert "Succeeded 40 ms" in page_text


def test_history_has_pages(designer):
    tool = make_it()
    for number in range(12):
        finished(tool, arguments={"city": f"City {number}", "is_real": True})

    first = designer.get(try_url(tool))
    second = designer.get(f"{try_url(tool)}?cursor={first.context['page'].next}")

    assert len(first.context["page"].rows) == 10
    assert [row.brief for row in second.context["page"].rows][-1] == '{"city": "City 0", "is_real": true}'


def test_inputs_are_kept_under_a_name_and_run_again_in_one_move(designer):
    tool = make_it()
    call = finished(tool, arguments={"city": "Bern", "is_real": True})

    designer.post(f"/tools/{tool.pk}/examples/", {"call": call.pk, "name": "Capital"})
    example = Example.objects.get()
    assert 'value="Bern"' in designer.get(f"{try_url(tool)}?example={example.pk}").content.decode()

    designer.post(f"/tools/{tool.pk}/examples/{example.pk}/run/", {"ordinal": 1})
    assert Call.objects.latest("pk").arguments == {"city": "Bern", "is_real": True}


def test_an_example_that_no_longer_fits_says_so_and_fills_the_form(designer):
    tool = make_it()
    example = examples.save_example(finished(tool), actor=user_of(Role.DESIGNER), name="Old")
    make_version(tool, make_signature(inputs=(make_parameter("town"),)))

    page = designer.post(f"/tools/{tool.pk}/examples/{example.pk}/run/", {"ordinal": 2}, follow=True)

    assert "Some inputs do not fit." in text_of(page)
    assert "“town” is required." in text_of(page)
    assert Call.objects.count() == 1


def test_an_example_of_what_may_destroy_fills_the_form_first(designer):
    tool = make_it(annotations=Annotations(destructive=True))
    example = examples.save_example(finished(tool), actor=user_of(Role.DESIGNER), name="Wipe")

    assert "/run/" not in designer.get(try_url(tool)).content.decode()
    page = designer.post(f"/tools/{tool.pk}/examples/{example.pk}/run/", {"ordinal": 1}, follow=True)
    assert "may destroy something" in text_of(page)
    assert Call.objects.count() == 1


def test_words_for_all_agents_say_what_a_call_does(designer):
    tool, actor = make_it(), make_user(Role.DESIGNER)
    assert "Safe to repeat" not in text_of(designer.get(try_url(tool)))
    tunings.tune(tool, actor=actor, effects={"idempotent": True})
    assert "Safe to repeat" in text_of(designer.get(try_url(tool)))
    designer.post(try_url(tool), form(tool, city="Oslo"))
    assert Call.objects.get().terms.may_run_twice

    tunings.tune(tool, actor=actor, effects={"destructive": True})
    page_text = text_of(designer.get(try_url(tool)))
    assert f"Its tuning for all agents declares that “{tool}” may destroy something." in page_text
    response = designer.post(try_url(tool), form(tool, city="Oslo"))
    assert ("Confirm to run it." in text_of(response), Call.objects.count()) == (True, 1)
    designer.post(try_url(tool), form(tool, city="Oslo") | {"confirm": "on"})
    assert Call.objects.count() == 2


def test_an_example_is_removed(designer):
    tool = make_it()
    example = examples.save_example(finished(tool), actor=user_of(Role.DESIGNER), name="Old")

    designer.post(f"/tools/{tool.pk}/examples/{example.pk}/remove/")

    assert not Example.objects.exists()


def test_the_page_of_a_tool_with_many_inputs_stays_small_and_cheap(designer, django_assert_max_num_queries):
    inputs: tuple[Parameter, ...] = tuple(
        make_parameter(f"input_{n}", required=False, description="What it is for. " * 6) for n in range(20)
    )
    tool = make_it(inputs)
    for number in range(15):
        finished(tool, arguments={"input_1": str(number)})

    with django_assert_max_num_queries(15):
        response = designer.get(try_url(tool))

    assert len(response.content) < 60_000


def test_a_call_that_ends_while_its_page_is_drawn_is_over_everywhere(designer, monkeypatch):
    tool = make_it()
    call = requesting.request_call(
        tool.current,
        actor=user_of(Role.DESIGNER),
        arguments={"city": "Oslo", "is_real": True},
        is_confirmed=True,
    )

    def ends_now(call: Call) -> Call:
        over = {"status": CallStatus.FINISHED, "outcome": "ok", "result": "{}", "duration_ms": 40}
        Call.objects.filter(pk=call.pk).update(**over)
        return Call.objects.get(pk=call.pk)

    monkeypatch.setattr(queue, "current_call", ends_now)
    page_text = text_of(designer.get(f"{try_url(tool)}?call={call.pk}"))

    assert "Succeeded" in page_text
    assert "Waiting for a worker" not in page_text
