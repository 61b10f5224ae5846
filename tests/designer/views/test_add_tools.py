"""Tools are chosen for an agent over several searches, and pinned by one press."""

import re

import pytest

from catalog import search
from catalog.models import Finding, Tool
from catalog.review.holds import HELD
from designer.agents import agent_vendors, transfers
from designer.models import Agent
from designer.pins import pins
from people import audit
from people.models import AuditEntry, Role
from protocols.signature import Annotations
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
URL = "/agents/desk/add-tools/"
HX = {"HX-Request": "true"}


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def desk():
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def fax():
    return make_tool(make_signature("send_fax", annotations=Annotations(read_only=False)))


@pytest.fixture
def flight():
    return make_tool(make_signature("find_flight", annotations=Annotations(read_only=True)))


def ticked(page):
    return [row.tool.name for row in page.context["choice"].ticked]


def boxes(page):
    """Each box that travels with the form, and whether it is ticked; hidden ones are."""
    boxes_found = re.findall(
        r'<input type="(checkbox|hidden)" name="tool" value="([\d:]+)"([^>]*)>', page.content.decode()
    )
    return {value: kind == "hidden" or "checked" in attributes for kind, value, attributes in boxes_found}


def test_ticks_of_one_search_go_along_with_the_next(designer, desk, fax, flight):
    search.index_pending()

    page = designer.post(URL, {"q": "flight", "tool": f"{fax.pk}:1", "do": "search"}, follow=True)

    assert [row["name"] for row in page.context["rows"]] == ["find_flight"]
    assert ticked(page) == ["send_fax"]
    assert boxes(page) == {f"{fax.pk}:1": True, f"{flight.pk}:1": False}


def test_the_address_brings_all_of_it_back(designer, desk, fax):
    moved = designer.post(URL, {"q": "fa x", "sort": "name", "tool": [f"{fax.pk}:1", "7:x", "-3", "no"]})

    assert moved.status_code == 302
    assert moved.url == f"{URL}?q=fa+x&sort=name&tool={fax.pk}"
    assert ticked(designer.get(moved.url)) == ["send_fax"]


def test_all_that_are_shown_or_those_that_only_read_or_none_are_ticked_by_one_press(
    designer, desk, fax, flight
):
    make_pin(desk, make_tool(name="pinned_before"))

    def after(deed, *tools):
        return set(ticked(designer.post(URL, {"do": deed, "tool": [tool.pk for tool in tools]}, headers=HX)))

    assert after("all") == {"send_fax", "find_flight"}
    assert after("reads", fax) == {"find_flight"}
    assert after("none", fax, flight) == set()
    assert after(f"drop:{fax.pk}", fax, flight) == {"find_flight"}


def test_none_leaves_what_was_ticked_in_another_search(designer, desk, fax, flight):
    search.index_pending()

    page = designer.post(URL, {"q": "flight", "do": "none", "tool": [fax.pk, flight.pk]}, headers=HX)

    assert ticked(page) == ["send_fax"]


def test_what_is_here_already_is_said_and_cannot_be_ticked(designer, desk, fax):
    pin = make_pin(desk, fax)

    page = designer.post(URL, {"tool": fax.pk}, headers=HX)

    assert f'href="/agents/desk/pins/{pin.pk}/"' in page.content.decode()
    assert boxes(page) == {}
    assert "All matching tools are in Desk already" in text_of(page)


def test_the_tray_counts_as_the_agents_budget_does(designer, desk, fax, flight):
    pins.pin_tool(desk, actor=make_user(Role.DESIGNER), tool=make_tool(name="pinned_before"))
    tools = [f"{fax.pk}:1", f"{flight.pk}:1"]

    budget = designer.post(URL, {"tool": tools}, headers=HX).context["choice"].budget
    now = designer.get("/api/v1/agents/desk/budget/").json()["tokens"]
    designer.post(URL, {"tool": tools, "do": "pin"})

    assert budget.tokens == now
    assert budget.all_tokens == designer.get("/api/v1/agents/desk/budget/").json()["tokens"] > now
    assert (budget.tools, budget.all_tools) == (1, 3)


def test_the_tray_says_when_the_agents_own_limit_is_passed(designer, desk, fax):
    designer.post("/agents/desk/token-limit/", {"limit": "5"})
    before = text_of(designer.get(URL))
    after = text_of(designer.post(URL, {"tool": fax.pk}, headers=HX))

    assert "The limit for tools and procedures is 5." in before
    assert "is 5: the tools alone take more." in after


def test_only_tools_of_vendors_that_the_agent_may_use_are_found(designer, desk, fax, flight):
    agent_vendors.set_vendors(desk, [flight.endpoint.vendor])
    Agent.objects.update(limits_vendors=True)

    page = designer.post(URL, {"tool": fax.pk, "do": "pin"})

    assert [row["name"] for row in page.context["rows"]] == ["find_flight"]
    assert "Only tools of" in text_of(page)
    assert "a vendor that “Desk” may not use" in text_of(page)
    assert not desk.pins.exists()


def test_one_press_pins_all_in_the_versions_that_were_shown(designer, desk, fax, flight):
    make_version(fax, make_signature("send_fax", description="Another"))

    page = designer.post(URL, {"tool": [f"{fax.pk}:1", f"{flight.pk}:1"], "do": "pin"}, follow=True)

    assert page.redirect_chain == [("/agents/desk/", 302)]
    assert "2 tools are pinned to Desk." in text_of(page)
    assert set(desk.pins.values_list("tool__name", "version__ordinal")) == {
        ("send_fax", 1),
        ("find_flight", 1),
    }
    assert AuditEntry.objects.filter(action="pin", kind="pin").count() == 2


def test_the_dialog_is_left_for_the_agents_page(designer, desk, fax):
    reply = designer.post(URL, {"tool": fax.pk, "do": "pin"}, headers=HX)

    assert reply["HX-Redirect"] == "/agents/desk/"
    assert desk.pins.count() == 1


def test_a_taken_name_is_asked_for_before_anything_is_pressed(designer, desk):
    make_pin(desk, make_tool(name="search"))
    bank = make_endpoint(vendor=make_vendor(slug="quill-bank"))
    second, third = make_tool(name="search", endpoint=bank), make_tool(name="search", endpoint=bank)

    page = designer.post(URL, {"tool": [second.pk, third.pk]}, headers=HX)

    assert "Another tool of “Desk” is called “search”." in text_of(page)
    proposed = dict(re.findall(r'name="(alias-\d+)" value="(\w+)"', page.content.decode()))
    assert proposed == {f"alias-{second.pk}": "quill_search", f"alias-{third.pk}": "quill_bank_search"}
    designer.post(URL, {"tool": [second.pk, third.pk], "do": "pin", **proposed})
    assert set(desk.pins.values_list("name", flat=True)) == {"search", *proposed.values()}


def test_a_name_that_was_typed_stays_through_a_search(designer, desk, fax, flight):
    make_pin(desk, make_tool(name="send_fax"))

    page = designer.post(
        URL, {"q": "x", "do": "search", "tool": fax.pk, f"alias-{fax.pk}": "fax_it"}, follow=True
    )

    assert f'name="alias-{fax.pk}" value="fax_it"' in page.content.decode()


@pytest.mark.parametrize("headers", [{}, HX], ids=["page", "dialog"])
def test_what_is_refused_stays_ticked_with_its_reason_and_the_rest_is_pinned(designer, desk, fax, headers):
    make_pin(desk, make_tool(name="search"))
    withdrawn, twin = make_tool(name="gone", status="withdrawn"), make_tool(name="search")

    page = designer.post(URL, {"tool": [withdrawn.pk, fax.pk, twin.pk], "do": "pin"}, headers=headers)

    page_text = text_of(page)
    assert "1 is pinned. 2 could not be" in page_text
    assert "The vendor has withdrawn “gone”. Choose another tool." in page_text
    assert "Another tool of “Desk” is called “search”." in page_text
    assert ticked(page) == ["gone", "search"]
    assert set(desk.pins.values_list("name", flat=True)) == {"search", "send_fax"}


def test_a_version_that_waits_for_review_is_not_offered(designer, desk, fax):
    Finding.objects.create(
        endpoint=fax.endpoint, tool=fax, version=fax.current, code=HELD, severity="high", subject="x"
    )
    Tool.objects.update(stopped=fax.current)

    page = designer.get(URL)
    assert "send_fax waits for review" in text_of(page)
    assert boxes(page) == {}
    refused = text_of(designer.post(URL, {"tool": fax.pk, "do": "pin"}))
    assert "waits for review. Choose another version" in refused
    assert not desk.pins.exists()


def test_a_transfer_holds_its_name_too(designer, desk, fax):
    transfers.follow(Agent.objects.create(name="Fax", slug="fax", parent=desk))
    tool = make_tool(name="transfer_to_fax")

    assert "transfer_to_fax”. The model can" in text_of(designer.post(URL, {"tool": tool.pk}, headers=HX))


def test_a_press_with_nothing_ticked_says_so(designer, desk):
    assert "Select a tool first." in text_of(designer.post(URL, {"do": "pin"}))


def test_more_than_a_hundred_are_not_ticked_at_once(designer, desk, fax):
    make_tool(name="x")
    known_pks = list(Tool.objects.values_list("pk", flat=True))

    page = designer.post(URL, {"tool": [*known_pks, *range(10**6, 10**6 + 120)]}, headers=HX)

    assert "At most 100 tools can be selected at once." in text_of(page)


def test_an_archived_agent_takes_no_tools(designer):
    make_agent(slug="desk", archived_at="2026-01-01T00:00Z")

    assert designer.get(URL).status_code == 404


def test_the_agents_page_opens_it_and_the_old_address_leads_to_it(designer, desk):
    assert f'href="{URL}" data-dialog="add-tools"' in designer.get("/agents/desk/").content.decode()
    assert designer.get("/tools/?agent=desk&q=fax&vendor=sea").url == f"{URL}?q=fax&vendor=sea"
    viewer = signed_in(Role.VIEWER)
    assert viewer.get("/tools/?agent=desk").status_code == 200
    assert "add-tools" not in viewer.get("/agents/desk/").content.decode()


@pytest.mark.parametrize(("pinned", "chosen_count"), [(0, 0), (1, 1), (20, 30)])
def test_many_pins_and_ticks_cost_no_more_queries(
    designer, desk, pinned, chosen_count, django_assert_max_num_queries
):
    endpoint = make_endpoint()
    for number in range(pinned):
        make_pin(desk, make_tool(name=f"here_{number}", endpoint=endpoint))
    tools = [make_tool(make_parametric(number), endpoint=endpoint) for number in range(60)]
    search.index_pending()

    with django_assert_max_num_queries(15):
        page = designer.post(
            URL, {"q": "tool", "tool": [tool.pk for tool in tools[:chosen_count]]}, headers=HX
        )

    assert len(ticked(page)) == chosen_count
    assert len(page.content) < 75_000


def make_parametric(number):
    return make_signature(f"tool_{number}", inputs=(make_parameter("city"),))


def test_what_fails_half_way_has_pinned_nothing(designer, desk, fax, flight, monkeypatch):
    recorded = []

    def fails_at_the_second(*arguments, **facts):
        recorded.append(arguments)
        if len(recorded) == 2:
            raise RuntimeError("The lights went out")
        return record(*arguments, **facts)

    record = audit.record
    monkeypatch.setattr(audit, "record", fails_at_the_second)

    with pytest.raises(RuntimeError):
        designer.post(URL, {"tool": [fax.pk, flight.pk], "do": "pin"})

    assert len(recorded) == 2
    assert not desk.pins.exists()


def test_over_rest_too_one_refused_tool_does_not_hold_up_the_others(designer, desk, fax, flight):
    body = {"pins": [{"tool": fax.pk}, {"tool": flight.pk}, {"tool": fax.pk}]}

    reply = designer.post("/api/v1/agents/desk/pins/several/", body, content_type="application/json")

    answers = reply.json()["results"]
    assert [bool(answer["pin"]) for answer in answers] == [True, True, False]
    assert answers[2]["error"]["code"] == "already_pinned"
