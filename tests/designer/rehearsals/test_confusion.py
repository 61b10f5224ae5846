"""Tools that a reader would mix up: rules over signatures of our own, and over REST and the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from catalog.search import lexicon
from designer.rehearsals import tool_purpose
from designer.rehearsals.confusion import CONFUSABLE, Confusion
from people.models import AuditEntry
from tests.factories import make_agent, make_pin, make_signature, make_tool
from tests.pages import text_of

pytestmark = pytest.mark.django_db

TOOLS = {
    "parcels_track": "Returns where a parcel is now.",
    "parcels_track_by_reference": "Returns where a parcel is now, found by the sender's own reference.",
    "parcels_cancel": "Cancels a parcel that was not collected yet.",
    "create_parcel": "Creates a parcel and its label.",
    "list_parcels": "Lists the parcels of an account, the newest first.",
    "search_parcels": "Searches the parcels of all accounts by name, street or town.",
    "post_parcels_draft": "Creates a parcel as a draft, which is not collected.",
    "list_couriers": "Lists the couriers of a depot.",
    "delete_depot": "Deletes a depot for good.",
    "close_depot_gate": "Closes the gate of a depot until tomorrow.",
}
ALIKE = [
    ("parcels_track", "parcels_track_by_reference"),
    ("create_parcel", "post_parcels_draft"),
    ("list_parcels", "search_parcels"),
]
UNLIKE = [
    ("parcels_track", "parcels_cancel"),
    ("create_parcel", "parcels_cancel"),
    ("list_parcels", "list_couriers"),
    ("list_parcels", "create_parcel"),
    ("delete_depot", "close_depot_gate"),
]


def confusion(tools):
    signatures = [make_signature(name, description=says, inputs=()) for name, says in tools.items()]
    return Confusion(signatures, lexicon.stems(tool_purpose.words_of(signatures)))


@pytest.mark.parametrize("pair", ALIKE)
def test_the_same_done_to_the_same_is_confusable(pair):
    assert confusion(TOOLS).score(*pair) >= CONFUSABLE
    assert pair in [(each.first, each.second) for each in confusion(TOOLS).pairs()]


@pytest.mark.parametrize("pair", UNLIKE)
def test_another_verb_or_another_thing_is_not(pair):
    assert confusion(TOOLS).score(*pair) < CONFUSABLE


def test_the_worst_pairs_come_first_and_say_what_only_one_of_them_has():
    pairs = confusion(TOOLS).pairs()

    assert [each.score for each in pairs] == sorted((each.score for each in pairs), reverse=True)
    (found,) = (each for each in pairs if (each.first, each.second) == ALIKE[0])
    assert {"sender", "reference"} <= set(found.only_second)
    assert found.only_first == ()


@pytest.mark.parametrize("pair", ALIKE)
def test_the_proposed_sentence_lowers_the_score_in_either_description(pair):
    judge = confusion(TOOLS)
    for tool, other in (pair, pair[::-1]):
        sentence = judge.sentence(tool, other)
        told = confusion(TOOLS | {tool: f"{TOOLS[tool]} {sentence}"})
        assert told.score(tool, other) < CONFUSABLE <= judge.score(tool, other)


def test_a_sentence_reads_like_one():
    judge = confusion(TOOLS)
    assert judge.sentence("list_parcels", "search_parcels") == (
        "Use this for listing the parcels of an account, the newest first, not for searching the parcels of "
        "all accounts by name, street or town; for that use `search_parcels`."
    )
    alone = confusion({"a_tool": "Sends a note.", "b_tool": "Sends a note."})
    assert alone.score("a_tool", "b_tool") >= CONFUSABLE


TEXT = st.text(st.sampled_from("abc .;`()éß漢'-_\n") | st.characters(codec="utf-8"), max_size=30).map(
    lambda text: text * 9
)


@given(st.lists(TEXT, min_size=2, max_size=4), TEXT)
def test_any_words_score_the_same_from_both_sides(descriptions, title):
    tools = [
        make_signature(f"tool_{number}", title=title, description=says)
        for number, says in enumerate(descriptions)
    ]
    judge = Confusion(tools, {word: word for word in tool_purpose.words_of(tools)})

    score = judge.score("tool_0", "tool_1")
    assert 0 <= score <= 1
    assert score == judge.score("tool_1", "tool_0")
    sentence = judge.sentence("tool_0", "tool_1")
    told = [replace(tools[0], description=f"{tools[0].description} {sentence}"), *tools[1:]]
    if sentence:
        after = Confusion(told, {word: word for word in tool_purpose.words_of(told)})
        assert after.score("tool_0", "tool_1") <= score


class TestOfAnAgent:
    url = "/api/v1/agents/desk/rehearsals/confusable/"

    @pytest.fixture
    def desk(self):
        agent = make_agent(slug="desk")
        for name, says in TOOLS.items():
            make_pin(agent, make_tool(make_signature(name, description=says, inputs=())), name=name)
        return agent

    def test_pairs_are_named_and_a_sentence_is_taken_over(self, api, desk):
        before = api.get(self.url).json()["results"]
        names = [tuple(tool["tool"] for tool in pair["tools"]) for pair in before]
        assert set(ALIKE) <= set(names)

        tool, other = ALIKE[0]
        answer = api.post(self.url, {"tool": tool, "other": other})
        assert (tool, other) not in [tuple(t["tool"] for t in p["tools"]) for p in answer.json()["results"]]
        tuned = desk.pins.get(name=tool).tuning
        assert tuned.description.startswith(f"{TOOLS[tool]} Use this for ")
        assert AuditEntry.objects.filter(kind="pin", action="tune", agent=desk.pk).exists()
        assert api.post(self.url, {"tool": tool, "other": "gone"}).json()["code"] == "tool_not_shown"

    def test_the_page_takes_it_over_in_one_press(self, client, alice, desk):
        client.force_login(alice)
        tool, other = ALIKE[1]
        assert f"{tool} and {other}" in text_of(client.get("/agents/desk/rehearsals/"))
        done = {"tool": tool, "other": other}
        answer = client.post("/agents/desk/rehearsals/tell-apart/", done, follow=True)
        assert f"The words about “{tool}” say now when “{other}” is meant." in text_of(answer)
        assert f"{tool} and {other}" not in text_of(answer)
