"""Tools that a reader would mix up: rules over signatures of our own, and over REST and the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from catalog.search import stemming
from designer.rehearsals import tool_purpose
from designer.rehearsals.confusion import CONFUSABLE, Confusion, append_sentence
from people.models import AuditEntry
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool
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


def confusion(tools, vendors=None, inputs=None):
    signatures = [
        make_signature(
            name,
            description=description,
            inputs=[make_parameter(name) for name in (inputs or {}).get(name, ())],
        )
        for name, description in tools.items()
    ]
    return Confusion(signatures, stemming.stems(tool_purpose.words_of(signatures)), vendors)


@pytest.mark.parametrize("pair", ALIKE)
def test_the_same_done_to_the_same_is_confusable(pair):
    assert confusion(TOOLS).score(*pair) >= CONFUSABLE
    assert pair in [(pair.first, pair.second) for pair in confusion(TOOLS).pairs()]


@pytest.mark.parametrize("pair", UNLIKE)
def test_another_verb_or_another_thing_is_not(pair):
    assert confusion(TOOLS).score(*pair) < CONFUSABLE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("create_order", "Creates an order."), ("orders_create", "Places a new order.")),
        (
            ("values_update", "Sets values in a range."),
            ("values_batch_update_by_filter", "Sets values in ranges."),
        ),
        (
            ("generate_pdf", "Generate PDF by URL."),
            ("get_pdf", "This endpoint will render a PDF of a website."),
        ),
        (("enrollYouth", "Enroll a youth in a program"), ("enroll_youth_member", "Enroll a youth")),
        (("get_user", "Gets a user."), ("get_user_by_email", "Gets a user by email.")),
        (("speed", "Retrieve the speed of a boat"), ("boat_speed", "Returns boat speed.")),
    ],
)
def test_the_same_job_in_other_words_is_confusable(one, other):
    assert confusion(dict([one, other])).score(one[0], other[0]) >= CONFUSABLE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("create_order", "Creates an order."), ("delete_order", "Deletes an order.")),
        (("enable_alerts", "Enables alerts."), ("disable_alerts", "Disables alerts.")),
        (("get_policy_list", "Gets the policies."), ("apply_policy", "Applies a policy.")),
        (("list_app_installations", "List app installations."), ("list_invoices", "List invoices.")),
    ],
)
def test_an_opposite_or_another_kind_is_not(one, other):
    assert confusion(dict([one, other])).score(one[0], other[0]) < CONFUSABLE


def test_the_worst_pairs_come_first_and_say_what_only_one_of_them_has():
    pairs = confusion(TOOLS).pairs()

    assert [pair.score for pair in pairs] == sorted((pair.score for pair in pairs), reverse=True)
    (pair,) = (candidate for candidate in pairs if (candidate.first, candidate.second) == ALIKE[0])
    assert {"sender", "reference"} <= set(pair.only_second)
    assert pair.only_first == ()


@pytest.mark.parametrize("pair", ALIKE)
def test_the_proposed_sentence_lowers_the_score_in_either_description(pair):
    judge = confusion(TOOLS)
    for tool, other in (pair, pair[::-1]):
        sentence = judge.sentence(tool, other)
        changed = confusion(TOOLS | {tool: f"{TOOLS[tool]} {sentence}"})
        assert changed.score(tool, other) < CONFUSABLE <= judge.score(tool, other)


def test_the_special_tool_says_what_it_is_only_for():
    judge = confusion({"get_user": "Gets a user.", "get_user_by_email": "Gets a user by email."})
    sentence = judge.sentence("get_user_by_email", "get_user")
    assert sentence == "Use this only for getting a user by email; otherwise use `get_user`."
    assert judge.sentence("get_user", "get_user_by_email") == (
        "Use this for getting a user, not for getting a user by email; for that use `get_user_by_email`."
    )


def test_tools_of_two_vendors_are_told_apart_by_them():
    tools = {"get_task": "Get a task.", "tasks_get": "Get task. Retrieves information about a task."}
    judge = confusion(tools, {"get_task": "Asana", "tasks_get": "Box; Co."})
    assert judge.sentence("get_task", "tasks_get") == (
        "Use this for getting a task with Asana, not for getting task with Box, Co; for that use `tasks_get`."
    )


def test_the_same_words_are_told_apart_by_inputs():
    tools = {"get_note": "Get a note.", "notes_get": "Gets the note."}
    judge = confusion(tools, inputs={"get_note": ["slug"], "notes_get": ["number", "folder"]})
    assert judge.sentence("get_note", "notes_get") == (
        "Use this for getting a note with `slug`, not for getting the note with `number` and `folder`; "
        "for that use `notes_get`."
    )


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ("Gets its data from an API", "getting its data from an API"),
        ("This endpoint returns the rates of a day.", "returning the rates of a day"),
        ("Search and summarize the web.", "searching and summarizing the web"),
        ("If a page is found, it is changed.", "updating pages"),
        ("POST /v1/pages", "updating pages"),
        ("", "updating pages"),
    ],
)
def test_a_tool_is_spoken_of_in_a_phrase(description, sentence):
    judge = confusion({"pages_update": description, "list_couriers": "Lists the couriers of a depot."})
    assert judge.sentence("pages_update", "list_couriers").startswith(
        f"Use this for {sentence}, not for listing"
    )


@pytest.mark.parametrize(
    "remark",
    [
        "Not for finding it by the sender's own reference.",
        "Use it only if you know where the depot is.",
    ],
)
def test_a_remark_counts_as_far_as_it_says_what_only_one_of_them_is_for(remark):
    pair = {
        "parcels_track": "Returns where a parcel of a depot is now.",
        "parcels_track_by_reference": "Returns where a parcel is now, found by the sender's own reference.",
    }
    before = confusion(pair).score(*pair)
    score = confusion(pair | {"parcels_track": f"{pair['parcels_track']} {remark}"}).score(*pair)
    beside_it = confusion(pair | {"parcels_track": f"{pair['parcels_track']} Not for calls in the night."})
    assert score < before - 0.1
    assert beside_it.score(*pair) == pytest.approx(before, abs=0.05)


def test_a_sentence_stands_behind_a_full_stop():
    assert append_sentence("Gets a user", "Use this.") == "Gets a user. Use this."
    assert append_sentence("Gets a user. ", "Use this.") == "Gets a user. Use this."
    assert append_sentence("", "Use this.") == "Use this."


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
        make_signature(f"tool_{number}", title=title, description=description)
        for number, description in enumerate(descriptions)
    ]
    judge = Confusion(tools, {word: word for word in tool_purpose.words_of(tools)})

    score = judge.score("tool_0", "tool_1")
    assert 0 <= score <= 1
    assert score == judge.score("tool_1", "tool_0")
    sentence = judge.sentence("tool_0", "tool_1")
    changed_tools = [
        replace(tools[0], description=append_sentence(tools[0].description, sentence)),
        *tools[1:],
    ]
    if sentence:
        after = Confusion(changed_tools, {word: word for word in tool_purpose.words_of(changed_tools)})
        assert after.score("tool_0", "tool_1") <= score


# Texts that break patterns and parsers: other scripts, marks, signs, open quotes, runs without a space.
# The number of repetitions is drawn small, so that a failure is short.
REPEATED = {"`": 5000, "not for ": 3000, "only for `": 2000, "(": 9000, "a": 20_000}
HOSTILE = st.one_of(
    st.just(""),
    st.text(max_size=60),
    st.sampled_from((*REPEATED, "\x00\u202e\ufeff")),
    st.text(st.sampled_from("获取用户列表Ж\u0416яsfü\u0301ت "), max_size=80),
    st.sampled_from(tuple(TOOLS.values())),
)


def test_of_tools_with_one_name_the_last_one_counts():
    facts = [("track", "Track a parcel by its number"), ("track", "Follow a courier"), ("follow", "")]
    tools = [make_signature(name, description=description, inputs=()) for name, description in facts]
    dictionary = {word: word for word in tool_purpose.words_of(tools)}
    all_of_them, without_the_first = Confusion(tools, dictionary), Confusion(tools[1:], dictionary)
    assert all_of_them.score("track", "follow") == without_the_first.score("track", "follow")
    assert all_of_them.pairs() == without_the_first.pairs()


@given(st.lists(st.tuples(HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=2)), min_size=2, max_size=4), HOSTILE)
def test_no_text_breaks_the_judgement(tools, vendor):
    def repeat(text):
        return text * REPEATED.get(text, 1)

    # The first two have one name, which an agent does not allow and a caller may give.
    signatures = [
        make_signature(
            repeat(name) or "tool" if place > 1 else repeat(tools[0][0]),
            description=repeat(description),
            inputs=[make_parameter(f"{repeat(name)}{number}") for number, name in enumerate(inputs)],
        )
        for place, (name, description, inputs) in enumerate(tools)
    ]
    dictionary = {word: word for word in tool_purpose.words_of(signatures)}
    judge = Confusion(signatures, dictionary, {signatures[0].name: repeat(vendor)})
    for pair in judge.pairs():
        assert CONFUSABLE <= pair.score <= 1
    for one in signatures:
        for other in signatures:
            assert judge.score(one.name, other.name) == judge.score(other.name, one.name)
            assert "\n" not in judge.sentence(one.name, other.name).replace(other.name, "")


def test_two_hundred_tools_of_one_kind_are_all_pairs():
    description = (
        "Lists the parcels of a depot that were sent by couriers on a day, with their labels and prices. "
        * 30
    )
    tools = [
        make_signature(f"list_parcels_{number}", description=description, inputs=()) for number in range(200)
    ]
    dictionary = {word: word for word in tool_purpose.words_of(tools)}
    pairs = Confusion(tools, dictionary).pairs()
    assert len(pairs) == 200 * 199 / 2


class TestOfAnAgent:
    url = "/api/v1/agents/desk/rehearsals/confusable/"

    @pytest.fixture
    def desk(self):
        agent = make_agent(slug="desk")
        for name, description in TOOLS.items():
            make_pin(agent, make_tool(make_signature(name, description=description, inputs=())), name=name)
        return agent

    def test_pairs_are_named_and_a_sentence_is_taken_over(self, api, desk):
        before = api.get(self.url).json()["results"]
        names = [tuple(tool["tool"] for tool in pair["tools"]) for pair in before]
        assert set(ALIKE) <= set(names)

        tool, other = ALIKE[0]
        answer = api.post(self.url, {"tool": tool, "other": other})
        assert (tool, other) not in [tuple(t["tool"] for t in p["tools"]) for p in answer.json()["results"]]
        tuned = desk.pins.get(name=tool).tuning
        assert tuned.description.startswith(
            f"{TOOLS[tool]} Use this for returning where a parcel is now with Vendor"
        )
        assert AuditEntry.objects.filter(kind="pin", action="tune", agent=desk.pk).exists()
        assert api.post(self.url, {"tool": tool, "other": "gone"}).json()["code"] == "tool_not_shown"

    def test_any_two_have_a_score(self, api, desk):
        pairs = api.get(self.url).json()["results"]
        pair = next(pair for pair in pairs if tuple(t["tool"] for t in pair["tools"]) == ALIKE[0])
        of_two = f"{self.url}?tool={ALIKE[0][0]}&other="
        assert api.get(of_two + ALIKE[0][1]).json()["results"] == [pair]
        (unlike,) = api.get(of_two + ALIKE[1][1]).json()["results"]
        assert unlike["score"] < 0.5
        assert api.get(of_two + "gone").json()["code"] == "tool_not_shown"
        assert api.get(f"{self.url}?tool={ALIKE[0][0]}").json()["fields"].keys() == {"other"}

    def test_the_page_takes_it_over_in_one_press(self, client, alice, desk):
        client.force_login(alice)
        tool, other = ALIKE[1]
        assert f"{tool} and {other}" in text_of(client.get("/agents/desk/rehearsals/"))
        done = {"tool": tool, "other": other}
        answer = client.post("/agents/desk/rehearsals/tell-apart/", done, follow=True)
        assert f"The text of “{tool}” now states when “{other}” is meant." in text_of(answer)
        assert f"{tool} and {other}" not in text_of(answer)
