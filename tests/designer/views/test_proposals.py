"""An agent that begins with a text, and what Pegboard proposes for its sentences."""

import html
import re

import pytest
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.forms.definition_fields import SIDES
from catalog.models import Tool, VendorRequest
from catalog.search import index as search_index
from catalog.search import listing, word_groups
from designer.agents import agents
from designer.models import Agent, Pin, Procedure, ProcedureDraft
from designer.procedures import editing, proposals
from people.models import Role
from tests.factories import (
    make_agent,
    make_endpoint,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
)
from tests.module_data import module_data
from tests.pages import signed_in

PAGE = "/agents/desk/procedures/orders/"
BOX = f"{PAGE}proposals/"
LOOK_UP = "Look up the order of the customer."
CANCEL = "Cancel the order."
TEXT = f"## Goal\n\n1. {LOOK_UP}\n2. {CANCEL}\n3. Upholster zeppelins using ermine."


@module_data
def look_up():
    return make_tool(make_signature("look_up_order", description="Look up an order of a customer."))


@module_data
def cancel(look_up):
    return make_tool(make_signature("cancel_order", description="Cancel an order."))


@module_data
def orders(cancel):
    actor = make_user(Role.DESIGNER, username="writer")
    row = editing.create_procedure(
        make_agent(slug="desk", name="Desk"), actor=actor, title="Orders", body=TEXT
    )
    # A word that most tools have is no reason to propose one.
    for name in ("list_invoices", "send_email", "weather_forecast", "book_flight", "translate_text"):
        make_tool(make_signature(name, description=f"{name.replace('_', ' ').capitalize()}."))
    search_index.index_pending()
    return row


@pytest.fixture
def page(db):
    return signed_in(Role.DESIGNER)


def accept(page, value, body=TEXT):
    return page.post(BOX, {"title": "Orders", "body": body, "based_on": "1", "accept": value})


def values_of(response) -> list[str]:
    return [html.unescape(value) for value in re.findall(r'name="accept" value="([^"]*)"', response.text)]


def test_an_agent_can_begin_with_a_text(page):
    made = page.post("/agents/", {"text": f"{LOOK_UP}\n{CANCEL}", "name": ""})

    first = Procedure.objects.get()
    assert (first.agent.name, first.text) == ("Look up the order", f"{LOOK_UP}\n{CANCEL}")
    assert made["Location"] == f"/agents/{first.agent.slug}/procedures/{first.slug}/"
    assert not first.agent.pins.exists()


def test_the_name_can_be_chosen_and_one_of_both_is_needed(page):
    page.post("/agents/", {"text": LOOK_UP, "name": "Order desk"})
    assert Agent.objects.get().name == "Order desk"

    refused = page.post("/agents/", {"text": " ", "name": ""})
    assert refused.context["form"].errors["name"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Refunds: how we do them", "Refunds"),
        ("1. help customers of the pharmacy with it", "Help customers of the pharmacy"),
        ("Find out who the", "Find"),
        ("\n--\n", ""),
    ],
)
def test_title_is_derived_from_the_first_words(text, title):
    assert editing.title_from(text) == title


def test_each_sentence_without_a_tool_gets_the_tools_that_fit(page, orders, look_up, cancel):
    box = page.get(BOX)

    values = values_of(box)
    assert f"tool:{look_up.pk}:{LOOK_UP}" in values
    assert f"tool:{cancel.pk}:{CANCEL}" in values
    unmet = "Upholster zeppelins using ermine."
    assert [row.text for row in box.context["proposals"].unmet] == [unmet]
    assert {f"define::{unmet}", f"request::{unmet}"} < set(values)
    assert not Pin.objects.exists()


def test_the_editor_shows_proposals_without_a_script(page, orders, look_up):
    assert "proposals" not in page.get(PAGE).context
    assert f"tool:{look_up.pk}:{LOOK_UP}" in values_of(page.get(PAGE, {"proposals": "1"}))


def test_a_press_pins_the_tool_and_returns_to_the_sentence(page, orders, look_up):
    accepted = accept(page, f"tool:{look_up.pk}:{LOOK_UP}")

    assert accepted["Location"] == f"{PAGE}#line-3"
    draft = ProcedureDraft.objects.get()
    pin = Pin.objects.get()
    assert f"1. Look up the order of the customer: {{tool:{pin.pk}}}.\n" in draft.text
    assert list(draft.pins_made.all()) == [pin]
    assert orders.text == Procedure.objects.get().text
    assert LOOK_UP not in [row.text for row in page.get(BOX).context["proposals"].rows]


def test_a_pinned_tool_is_only_inserted(page, orders, look_up):
    pin = make_pin(agent=orders.agent, tool=look_up)

    accept(page, f"tool:{look_up.pk}:{LOOK_UP}")

    assert Pin.objects.get() == pin
    assert not ProcedureDraft.objects.get().pins_made.exists()


def test_a_sentence_that_changed_pins_nothing(page, orders, look_up):
    refused = accept(page, f"tool:{look_up.pk}:{LOOK_UP}", body="Something else.")

    assert refused["Location"] == PAGE
    assert not Pin.objects.exists()
    assert page.get(PAGE).context["messages"]
    assert ProcedureDraft.objects.get().text == "Something else."


@pytest.mark.parametrize("kind", ["tool", "agent"])
def test_a_proposal_that_was_removed_loses_nothing_that_was_typed(page, orders, kind):
    typed = f"{TEXT}\nMore."
    refused = accept(page, f"{kind}:999999:{LOOK_UP}", body=typed)

    assert refused["Location"] == PAGE
    assert ProcedureDraft.objects.get().text == typed


def test_an_agent_of_the_team_with_such_a_tool_becomes_a_sub_agent(page, orders, look_up):
    helper = make_agent(slug="helper", name="Helper")
    make_pin(agent=helper, tool=look_up)
    assert f"agent:{helper.pk}:{LOOK_UP}" in values_of(page.get(BOX))

    accept(page, f"agent:{helper.pk}:{LOOK_UP}")

    helper.refresh_from_db()
    assert helper.parent == orders.agent
    assert f"customer: {{agent:{helper.pk}}}." in ProcedureDraft.objects.get().text


def test_the_agent_above_is_never_proposed_as_a_sub_agent(page, orders, look_up):
    above = make_agent(slug="above", name="Above")
    make_pin(agent=above, tool=look_up)
    agents.update_agent(orders.agent, actor=make_user(Role.DESIGNER), parent=above)

    assert not any(value.startswith("agent:") for value in values_of(page.get(BOX)))
    assert accept(page, f"agent:{above.pk}:{LOOK_UP}")["Location"] == PAGE
    above.refresh_from_db()
    assert above.parent is None


def test_defining_a_missing_tool_returns_to_the_text(page, orders):
    defining = accept(page, f"define::{CANCEL}", body=f"{TEXT}\nMore.")
    assert ProcedureDraft.objects.get().text.endswith("More.")

    form = {"name": "water_flowers", "description": "Waters flowers.", "act": "save"}
    sizes = {f"{side}-{size}_FORMS": "0" for side in SIDES for size in ("TOTAL", "INITIAL")}
    saved = page.post(defining["Location"], form | sizes)

    assert Tool.objects.filter(name="water_flowers").exists()
    assert saved["Location"] == PAGE


def test_a_sign_in_is_offered_to_administrators_and_returns_to_the_text(page, orders):
    details = {name: f"http://127.0.0.1:9000/{name}" for name in ("token_url", "authorization_url")}
    row = credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Shop",
        kind="oauth_code",
        url="http://127.0.0.1:9000/",
        secret="a-secret",
        client_id="pegboard",
        **details,
    )
    endpoint = make_endpoint(vendor=make_vendor(name="Shop"), credential=row)
    make_pin(agent=orders.agent, tool=make_tool(endpoint=endpoint))
    connect, admin = f"connect:{endpoint.pk}:", signed_in(Role.ADMIN)
    assert connect not in values_of(page.get(BOX))
    assert connect in values_of(admin.get(BOX))

    there = accept(admin, connect)["Location"]
    assert f'name="next" value="{PAGE}"' in admin.get(there).text
    admin.post(f"/credentials/{row.pk}/sign-in/", {"next": PAGE})
    assert admin.session["after_sign_in"] == PAGE
    admin.post(f"/credentials/{row.pk}/sign-in/", {"next": "https://elsewhere.test/"})
    assert admin.session["after_sign_in"] == ""


def test_asking_for_a_vendor_begins_with_the_sentence(page, orders):
    asking = accept(page, f"request::{CANCEL}")

    asked = page.get(asking["Location"])

    assert asked.context["form"]["reason"].value() == CANCEL
    assert not VendorRequest.objects.exists()


def test_only_the_first_sentences_are_searched(page, orders):
    editing.save_procedure(orders, actor=make_user(Role.DESIGNER), body="Cancel the order.\n" * 30)

    found = page.get(BOX).context["proposals"]

    assert len(found.rows) == proposals.MAX_SENTENCES
    assert found.is_more


def first_tools_of(page, sentence: str) -> list[str]:
    """The tools that the panel proposes for a sentence."""
    values = [value.split(":", 2) for value in values_of(page.get(BOX))]
    return [
        Tool.objects.get(pk=key).name for kind, key, text in values if kind == "tool" and text == sentence
    ]


@pytest.fixture
def searches(monkeypatch):
    """The texts that were searched."""
    texts: list[str] = []
    rank = listing._rank

    def record(query, *values, **options):
        texts.append(query.q)
        return rank(query, *values, **options)

    monkeypatch.setattr(listing, "_rank", record)
    return texts


def test_a_sentence_is_searched_once_while_the_catalog_stays(page, orders, searches):
    search_index.index_pending()
    first = values_of(page.get(BOX))
    assert len(searches) == 3
    assert values_of(page.get(BOX)) == first
    assert len(searches) == 3


@pytest.mark.parametrize("is_indexed", [False, True])
def test_proposals_follow_each_change_of_the_catalog(page, orders, look_up, cancel, is_indexed):
    def index_changes():
        if is_indexed:
            search_index.index_pending()

    search_index.index_pending()
    first, second = cancel.name, look_up.name
    assert first_tools_of(page, CANCEL) == [first, second]
    Tool.objects.filter(pk=cancel.pk).update(status="withdrawn")
    index_changes()
    assert first not in first_tools_of(page, CANCEL)
    Tool.objects.filter(pk=cancel.pk).update(status="active")
    other = make_tool(make_signature("cancel_any_order", description="Cancel an order."))
    index_changes()
    assert {first, other.name} <= set(first_tools_of(page, CANCEL))
    # Decisions of reviewers are read each time.
    Tool.objects.filter(pk=other.pk).update(stopped=other.current)
    assert other.name not in first_tools_of(page, CANCEL)
    cancel.endpoint.removed_at = timezone.now()
    cancel.endpoint.save()
    index_changes()
    assert first not in first_tools_of(page, CANCEL)


def test_proposals_follow_the_everyday_words_of_the_organization(page, orders, cancel, searches):
    search_index.index_pending()
    page.get(BOX)
    word_groups.create_group(actor=make_user(Role.ADMIN), words=["zeppelin", "order"])
    page.get(BOX)
    assert len(searches) == 6
