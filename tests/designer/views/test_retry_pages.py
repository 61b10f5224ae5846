"""Retries of failed calls and automatic updates of a tool, on pages; attempts on a time line."""

import pytest

from designer.agents import agents
from designer.models.pins import PinMode
from designer.pins import pins
from designer.releases import publishing
from execution.calls import invocation, requesting
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_tool, make_user, user_of
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply
from tests.pages import signed_in, signed_in_as, text_of

pytestmark = pytest.mark.django_db
FAIR = json_reply({"output_parameters": []})


@pytest.fixture
def pin():
    return pins.pin_tool(make_agent(slug="desk"), actor=make_user(Role.DESIGNER), tool=make_tool())


def test_the_page_of_a_pin_says_what_counts_and_who_says_so(pin):
    agents.update_agent(pin.agent, actor=make_user(Role.DESIGNER), retry={"attempts": 5})
    page = signed_in(Role.DESIGNER)
    page_text = text_of(page.get(f"/agents/desk/pins/{pin.pk}/"))
    assert "Only when safe, the default" in page_text
    assert "Leave this empty to use: 5, set by the agent." in page_text
    assert "retries only when safe, 5 attempts at most, gives up after 30 s" in page_text
    payload = {"retry": "all", "give_up_after_seconds": "60", "attempts": ""}
    saved = page.post(f"/agents/desk/pins/{pin.pk}/retry/", payload, follow=True)
    assert "always retries, 5 attempts at most, gives up after 60 s" in text_of(saved)
    pin.refresh_from_db()
    assert pin.retry == {"retry": "all", "give_up_after_seconds": 60}


def test_what_does_not_fit_stands_at_its_field_and_changes_nothing(pin):
    answer = signed_in(Role.DESIGNER).post(f"/agents/desk/pins/{pin.pk}/retry/", {"attempts": "11"})
    assert "less than or equal to 10" in text_of(answer)
    pin.refresh_from_db()
    assert pin.retry == {}


def test_a_late_edit_is_told_and_not_written(pin):
    page = signed_in(Role.DESIGNER)
    state = page.get(f"/agents/desk/pins/{pin.pk}/").context["pin_state"]
    pins.set_retry(pin, actor=make_user(Role.DESIGNER), changes={"attempts": 2})
    answer = page.post(f"/agents/desk/pins/{pin.pk}/retry/", {"retry": "none", "expected": state})
    assert answer.status_code == 409
    assert "has changed this since you opened it" in text_of(answer)
    pin.refresh_from_db()
    assert pin.retry == {"attempts": 2}


def test_an_agent_and_an_endpoint_state_defaults(pin):
    page = signed_in(Role.ADMIN)
    agent_form = page.get("/agents/desk/edit/").context["form"]
    fields = {"name": "Desk", "slug": "desk", "expected": agent_form.expected, "attempts": "4"}
    page.post("/agents/desk/edit/", fields)
    pin.agent.refresh_from_db()
    assert pin.agent.retry == {"attempts": 4}
    endpoint = pin.tool.endpoint
    form = page.get(f"/endpoints/{endpoint.pk}/").context["form"]
    fields = {"url": endpoint.url, "interval_minutes": "60", "expected": form.expected, "retry": "none"}
    assert page.post(f"/endpoints/{endpoint.pk}/", fields).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.retry == {"retry": "none"}


def test_attempts_stand_on_a_time_line_with_their_words():
    away = reply(status=503, headers={"Retry-After": "2"})
    with HostileVendor(in_turn(away, FAIR)) as vendor:
        tool = make_tool(endpoint=make_endpoint(url=vendor.url))
        call = requesting.request_call(tool.current, actor=user_of(Role.DESIGNER), arguments={"city": "Oslo"})
        invocation.perform_due_calls()
    answer = signed_in_as(user_of(Role.DESIGNER)).get(f"/tools/{tool.pk}/try/?call={call.pk}")
    page_text = text_of(answer)
    assert "1. Not available HTTP_503" in page_text
    assert "2. Succeeded after a pause of 2" in page_text
    assert answer.content.decode().count("<rect") >= 4


def test_a_pin_follows_its_vendor_once_a_designer_has_chosen_so(pin):
    page, path = signed_in(Role.DESIGNER), f"/agents/desk/pins/{pin.pk}/"
    first = publishing.publish(pin.agent, actor=pin.created_by)
    state = page.get(path).context["pin_state"]
    saved = page.post(f"{path}mode/", {"mode": "fresh", "expected": state}, follow=True)
    assert "Saved." in text_of(saved)
    late = page.post(f"{path}mode/", {"mode": "cached", "expected": state})
    assert (late.status_code, "has changed this since you opened it" in text_of(late)) == (409, True)
    assert "Select a valid choice" in text_of(page.post(f"{path}mode/", {"mode": "new"}))
    pin.refresh_from_db()
    assert pin.mode == PinMode.FRESH
    assert '"mode"' not in first.document

    assert "It follows its vendor now" in text_of(page.get("/agents/desk/publish/"))
    second = publishing.publish(pin.agent, actor=pin.created_by)
    assert '"mode":"fresh"' in second.document
    assert "1 of 1 follows its vendor" in text_of(page.get("/agents/desk/releases/2/"))
    assert "follows its vendor" not in text_of(page.get("/agents/desk/releases/1/"))
