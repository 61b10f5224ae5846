"""Texts for all agents replace the vendor's wherever a tool is shown, listed, compared or searched."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from catalog import search, tasks, token_estimate
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Tool
from catalog.models.findings import HELD
from catalog.models.runs import Trigger
from catalog.review import decisions
from catalog.tools import effective_texts
from designer.pins import pins, tunings
from designer.releases import publishing
from people.models import Role
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import signed_in, text_of
from tests.vendor import Vendor, serving, tools
from tests.vendor import tool as listed

pytestmark = pytest.mark.django_db
VENDORS, OURS = "Albatrosses are counted here.", "Penguins are counted here."
INPUTS = (make_parameter("bay", description="A vendor's bay"), make_parameter("year", required=False))


@pytest.fixture
def tool():
    long_ago = timezone.now() - timedelta(days=90)
    signature = make_signature("count_birds", description=VENDORS, inputs=INPUTS)
    tool = make_tool(signature, changed_at=long_ago)
    search.index_pending()
    return tool


@pytest.fixture
def page():
    return signed_in(Role.DESIGNER)


def tune(api, tool, **words):
    reply = api.put(f"/api/v1/tools/{tool.pk}/tuning/", words, format="json")
    assert reply.status_code == 200, reply.json()


def run(endpoint):
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def find_names(api, words: str) -> list[str]:
    return [row["name"] for row in api.get("/api/v1/tools/", {"q": words}).json()["results"]]


def test_a_tool_is_found_by_our_words_at_once_and_by_the_vendors_no_longer(api, tool):
    assert (find_names(api, "albatrosses"), find_names(api, "penguins")) == (["count_birds"], [])

    tune(api, tool, description=OURS, parameters={"bay": {"description": "A fjord"}})

    assert find_names(api, "penguins") == ["count_birds"], "before the index follows"
    assert search.index_pending() == 1
    assert (find_names(api, "albatrosses"), find_names(api, "penguins")) == ([], ["count_birds"])
    assert find_names(api, "fjord") == ["count_birds"]
    api.delete(f"/api/v1/tools/{tool.pk}/tuning/")
    assert find_names(api, "albatrosses") == ["count_birds"]
    search.index_pending()
    assert (find_names(api, "albatrosses"), find_names(api, "penguins")) == (["count_birds"], [])


def test_words_that_change_while_they_are_indexed_are_indexed_again(api, tool, monkeypatch):
    tune(api, tool, description="Puffins are counted here.")
    rewrites = effective_texts.rewrites

    def meanwhile(tools):
        words = rewrites(tools)
        monkeypatch.setattr(effective_texts, "rewrites", rewrites)
        with connection.cursor() as cursor:  # the clock of this test's one transaction does not advance
            tune(api, tool, description=OURS)
            cursor.execute("UPDATE catalog_tool SET worded_at = worded_at + interval '1 second'")
        return words

    monkeypatch.setattr(effective_texts, "rewrites", meanwhile)
    search.index_pending()

    assert (find_names(api, "puffins"), find_names(api, "penguins")) == ([], ["count_birds"])


def test_lists_and_the_tool_itself_show_our_words_and_their_tokens(api, page, tool):
    bare = api.get(f"/api/v1/tools/{tool.pk}/").json()
    tune(api, tool, description=OURS * 20, parameters={"year": {"hidden": True}})

    (row,) = api.get("/api/v1/tools/").json()["results"]
    tool_body = api.get(f"/api/v1/tools/{tool.pk}/").json()

    assert (row["description"], row["is_tuned"]) == (OURS * 20, True)
    assert row["tokens"] == tool_body["tokens"] > bare["tokens"] + 80
    assert tool_body["signature"]["description"] == VENDORS
    assert tool_body["effective"]["description"] == OURS * 20
    assert [parameter["name"] for parameter in tool_body["effective"]["inputs"]] == ["bay"]
    assert "Penguins" in text_of(page.get("/tools/"))
    assert "Albatrosses" not in text_of(page.get("/tools/"))
    assert f'href="/tools/{tool.pk}/tuning/"' in page.get("/tools/").content.decode()


def test_the_vendors_words_are_one_click_away_on_the_page_of_the_tool_and_when_comparing(api, page, tool):
    inputs = {"bay": {"description": "A fjord"}, "year": {"hidden": True}}
    tune(api, tool, description=OURS, parameters=inputs)

    for url in (f"/tools/{tool.pk}/", f"/tools/compare/?tool={tool.pk}&tool={make_tool().pk}"):
        page_text = text_of(page.get(url))
        assert f"{OURS} Vendor text {VENDORS}" in page_text
        assert "A fjord Vendor text A vendor's bay" in page_text
        assert "hidden" in page_text


def test_a_new_version_keeps_our_words_and_lets_the_rest_through(api, page, tool):
    tune(api, tool, description=OURS)
    signature = make_signature("count_birds", description="Gulls.", inputs=(make_parameter("harbour"),))
    tool.refresh_from_db()
    version = make_version(tool, signature, is_current=False)
    Tool.objects.filter(pk=tool.pk).update(stopped=version)
    finding = Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, version=version, code=HELD, subject=version.digest, severity="high"
    )

    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="accept")

    search.index_pending()
    assert api.get("/api/v1/tools/").json()["results"][0]["description"] == OURS
    assert (find_names(api, "gulls"), find_names(api, "penguins"), find_names(api, "harbour")) == (
        [],
        ["count_birds"],
        ["count_birds"],
    )


def test_a_reading_that_brings_a_new_version_keeps_our_words(api):
    with serving(Vendor(tools(3))) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        run(endpoint)
        search.index_pending()
        tool = Tool.objects.get(name="tool_2")
        tune(api, tool, description=OURS)
        vendor.listed[:2] = [listed(number, version=2, description="Gulls.") for number in (1, 2)]

        run(endpoint)

    rows = {row["name"]: row for row in api.get("/api/v1/tools/").json()["results"]}
    search.index_pending()
    assert (rows["tool_1"]["description"], rows["tool_2"]["description"]) == ("Gulls.", OURS)
    assert (rows["tool_2"]["version"], rows["tool_2"]["is_tuned"]) == ("2", True)
    assert rows["tool_2"]["tokens"] > rows["tool_1"]["tokens"]
    assert (find_names(api, "gulls"), find_names(api, "penguins")) == (["tool_1"], ["tool_2"])


def test_tools_that_were_tuned_before_are_caught_up_with(api, tool):
    tune(api, tool, description=OURS)
    Tool.objects.update(description=VENDORS, worded_at=None)  # as the migration leaves them

    tasks.index_pending()
    search.index_pending()

    assert api.get("/api/v1/tools/").json()["results"][0]["description"] == OURS
    assert (find_names(api, "albatrosses"), find_names(api, "penguins")) == ([], ["count_birds"])


def test_an_agents_own_words_show_on_that_agent_alone(api, tool, alice):
    pin = pins.pin_tool(make_agent(), actor=alice, tool=tool)
    tunings.tune(pin, actor=alice, description=OURS)

    assert api.get("/api/v1/tools/").json()["results"][0]["description"] == VENDORS


SCHEMA = {"type": "object", "description": "A vendor's filter", "properties": {"x": {"type": "string"}}}
SIGNATURES = {
    "plain": make_signature(inputs=INPUTS),
    "illegal names": make_signature(
        "count birds!", inputs=(make_parameter("the bay"), make_parameter("a/b"))
    ),
    "schemas and rules": make_signature(
        inputs=(make_parameter("filter", type="json", description="A vendor's filter", schema=SCHEMA),),
        schema_rest={"dependentRequired": {"filter": ["bay"]}, "additionalProperties": False},
    ),
    "bounds": make_signature(inputs=(make_parameter("n", type="int", min=1, max=9, default=3),)),
}


@pytest.mark.parametrize("is_tuned", [False, True])
@pytest.mark.parametrize("kind", SIGNATURES)
def test_one_tool_has_one_figure_in_the_list_in_an_agent_and_in_a_release(api, page, alice, kind, is_tuned):
    signature = SIGNATURES[kind]
    tool = make_tool(signature, endpoint=make_endpoint())
    Tool.objects.update(tokens=token_estimate.tokens_of(signature))
    if is_tuned:
        first = signature.inputs[0].name
        tune(api, tool, description="Longer words " * 20, parameters={first: {"description": "Ours " * 30}})
    agent = make_agent(slug="desk")
    pin = pins.pin_tool(agent, actor=alice, tool=tool)
    publishing.publish(agent, actor=alice)

    (row,) = api.get("/api/v1/tools/").json()["results"]

    (line,) = page.get("/agents/desk/").context["lines"]
    assert line["tokens"] == row["tokens"]
    assert page.get(f"/agents/desk/pins/{pin.pk}/").context["tokens"] == row["tokens"]
    ((_, released),) = page.get("/agents/desk/releases/1/").context["tree"]
    ((_, _, _, released_tokens, says_tuned, _),) = released
    assert (released_tokens, says_tuned) == (row["tokens"], is_tuned)
    assert (row["tokens"] > token_estimate.tokens_of(signature) + 80) is is_tuned


def test_a_figure_that_differs_by_tuning_says_so(api, page, alice):
    tool = make_tool(make_signature("count_birds"))
    vendors = token_estimate.tokens_of(make_signature("count_birds"))
    pin = pins.pin_tool(make_agent(slug="desk"), actor=alice, tool=tool)
    tunings.tune(pin, actor=alice, description="Longer words " * 20)

    assert f"(~{vendors} in the vendor's text)" in text_of(page.get(f"/agents/desk/pins/{pin.pk}/"))
    assert f"~{vendors} tokens in the vendor's text" in page.get("/agents/desk/").content.decode().replace(
        "&#x27;", "'"
    )
