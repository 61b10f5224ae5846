import pytest
from msgspec import structs

from designer.models import Tuning
from designer.pins import tunings
from people.models import AuditEntry, Team
from protocols.signature import AllowedValue, Annotations
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_version,
)
from tests.module_data import module_data


@module_data
def tool():
    return make_tool(
        make_signature(
            description="Theirs",
            inputs=(
                make_parameter("Zip code"),
                make_parameter("days", type="int", min=1, max=9, required=False),
                make_parameter("unit", type="enum", allowed_values=(AllowedValue("C"), AllowedValue("F"))),
            ),
        )
    )


@module_data
def pin(tool):
    return make_pin(make_agent(slug="desk"), tool)


@pytest.fixture
def url(pin):
    return f"/api/v1/agents/desk/pins/{pin.pk}/tuning/"


@pytest.fixture
def tool_url(tool):
    return f"/api/v1/tools/{tool.pk}/tuning/"


def effective(api, pin):
    return api.get(f"/api/v1/agents/desk/pins/{pin.pk}/").json()["effective"]


def test_our_words_replace_the_vendors(api, pin, url, alice):
    words = {"description": "Ours", "parameters": {"Zip code": {"description": "Five digits"}}}

    reply = api.put(url, words)

    assert reply.status_code == 200
    assert reply.json() | {"updated_at": None} == {
        **words,
        "title": None,
        "outputs": {},
        "effects": {},
        "replaced": {
            "description": "Theirs",
            "parameters": {"Zip code": {"description": "The Zip code"}},
        },
        "against": "1",
        "stale": [],
        "remarks": [],
        "updated_by": "alice",
        "updated_at": None,
    }
    signature = effective(api, pin)
    assert signature["description"] == "Ours"
    assert signature["inputs"][0]["description"] == "Five digits"


def test_what_is_left_out_goes_back_to_the_vendors_words(api, pin, url):
    api.put(url, {"description": "Ours", "parameters": {"days": {"hidden": True}}})
    api.put(url, {"description": "Ours again"})

    assert [parameter["name"] for parameter in effective(api, pin)["inputs"]] == ["Zip code", "days", "unit"]


def test_delete_reverts_in_one_step(api, pin, url):
    api.put(url, {"description": "Ours", "parameters": {"days": {"hidden": True}}})

    assert api.delete(url).status_code == 204
    assert api.delete(url).status_code == 204
    assert effective(api, pin)["description"] == "Theirs"
    assert not Tuning.objects.exists()


def test_history_says_who_changed_what_and_when(api, bobs_api, pin, url, alice, bob):
    api.put(url, {"description": "One"})
    bobs_api.put(url, {"description": "Two"})
    bobs_api.put(url, {"description": "Two"})
    api.delete(url)

    reverted, second, first = tunings.history(pin)
    assert (first.actor, first.action) == (alice, "tune")
    assert (second.actor, second.before, second.after) == (
        bob,
        {"description": "One"},
        {"description": "Two"},
    )
    assert (reverted.action, reverted.before["description"]) == ("revert", "Two")


def test_catalog_wide_words_hold_beneath_the_agents(api, pin, url, tool_url):
    api.put(tool_url, {"description": "Catalog", "parameters": {"days": {"description": "Catalog days"}}})
    api.put(url, {"description": "Agent"})

    signature = effective(api, pin)
    assert signature["description"] == "Agent"
    assert signature["inputs"][1]["description"] == "Catalog days"


def test_words_that_say_the_same_are_not_kept(api, url, tool_url, tool):
    same = {"description": "Theirs", "parameters": {"days": {"description": "The days", "hidden": False}}}

    assert api.put(url, same).json()["parameters"] == {}
    assert not Tuning.objects.exists()
    assert not AuditEntry.objects.filter(action="tune").exists()

    api.put(tool_url, {"description": "Catalog"})
    assert api.put(url, same).json()["description"] == "Theirs"


def test_line_breaks_of_a_browser_are_no_change(api, tool):
    make_version(tool, make_signature(description="Two\nlines"))

    api.put(f"/api/v1/tools/{tool.pk}/tuning/", {"description": "Two\r\nlines"})

    assert not Tuning.objects.exists()


def test_agent_may_lean_on_a_preset_of_the_catalog(api, pin, url, tool_url):
    api.put(tool_url, {"parameters": {"Zip code": {"preset": "12345"}}})

    assert api.put(url, {"parameters": {"Zip code": {"hidden": True}}}).status_code == 200
    (hidden,) = effective(api, pin)["hidden"]
    assert (hidden["name"], hidden["preset"]) == ("Zip code", "12345")


def test_preset_of_a_shown_input_is_kept_with_its_type(api, pin, url):
    api.put(url, {"parameters": {"days": {"preset": 3}}})

    assert effective(api, pin)["inputs"][1]["preset"] == 3


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"description": ""}, "description"),
        ({"description": "  \n"}, "description"),
        ({"description": "x" * 4001}, "description"),
        ({"parameters": {"town": {"description": "No such input"}}}, "parameters.town"),
        ({"parameters": {"zip_code": {"hidden": True}}}, "parameters.zip_code"),
        ({"parameters": {"Zip code": {"hidden": True}}}, "parameters.Zip code"),
        ({"parameters": {"Zip code": {"description": "x" * 4001}}}, "parameters.Zip code.description"),
        ({"parameters": {"Zip code": {"preset": "x" * 4001}}}, "parameters.Zip code.preset"),
        ({"parameters": {"Zip code": {"preset": None}}}, "parameters.Zip code.preset"),
        ({"parameters": {"days": {"preset": 10}}}, "parameters.days"),
        ({"parameters": {"days": {"preset": "3"}}}, "parameters.days"),
        ({"parameters": {"days": {"preset": True}}}, "parameters.days"),
        ({"parameters": {"unit": {"preset": "K"}}}, "parameters.unit"),
        ({"parameters": {"unit": {"hidden": "perhaps"}}}, "parameters.unit.hidden"),
        ({"parameters": ["unit"]}, "parameters"),
    ],
)
def test_what_cannot_be_kept_is_named(api, url, words, field):
    reply = api.put(url, words)

    assert reply.status_code == 400
    assert field in reply.json()["fields"]
    assert not Tuning.objects.exists()


@pytest.mark.parametrize(
    "words",
    [{"description": "a\0b"}, {"parameters": {"Zip code": {"preset": "a\0b"}}}, {"parameters": {"a\0b": {}}}],
)
def test_nul_is_refused_everywhere(api, url, words):
    assert api.put(url, words).status_code == 400


def test_operation_itself_refuses_what_the_database_cannot_keep(pin, alice):
    for description in ("a\0b", "\ud800"):
        with pytest.raises(tunings.DomainError):
            tunings.tune(pin, actor=alice, description=description)


def test_two_editors_do_not_lose_each_others_words(api, bobs_api, url):
    start = api.get(url).headers["ETag"]

    assert bobs_api.put(url, {"description": "Bob"}, headers={"If-Match": start}).status_code == 200
    late = api.put(url, {"description": "Alice"}, headers={"If-Match": start})

    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    answer_to_second = api.get(url)
    assert answer_to_second.json()["description"] == "Bob"
    assert api.delete(url, headers={"If-Match": start}).status_code == 409
    again = api.put(url, {"description": "Alice"}, headers={"If-Match": answer_to_second.headers["ETag"]})
    assert again.status_code == 200


@pytest.mark.parametrize("etag", ["bare", '""', '"*"', '"a b"', '"a", "b"', 'W/"a"', ""])
def test_if_match_must_be_an_etag(api, url, etag):
    reply = api.put(url, {"description": "Alice"}, headers={"If-Match": etag})

    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_if_match")


def test_words_for_a_version_stay_when_the_pin_moves_and_misfits_are_told(api, pin, url, tool):
    api.put(url, {"description": "Ours", "parameters": {"days": {"description": "Our days"}}})
    make_version(tool, make_signature(inputs=(make_parameter("Zip code"),)))

    moved = api.patch(f"/api/v1/agents/desk/pins/{pin.pk}/", {"version": 2}).json()

    assert moved["effective"]["description"] == "Ours"
    assert moved["misfits"] == ["This version has no input “days”."]
    assert api.get(url).json()["against"] == "1"


def test_removed_pin_cannot_be_tuned(api, pin, url):
    api.delete(f"/api/v1/agents/desk/pins/{pin.pk}/")

    assert api.put(url, {"description": "Ours"}).status_code == 404
    assert api.get("/api/v1/tools/999999/tuning/").status_code == 404


def test_history_tells_each_change_of_the_words_newest_first(api, bobs_api, url, tool_url):
    for address in (url, tool_url):
        api.put(address, {"description": "Ours"})
        bobs_api.put(address, {"description": "Bob's"})
        api.delete(address)
        newest, second, first = api.get(f"{address}history/").json()["results"]
        assert (newest["action"], newest["by"], newest["after"]["description"]) == ("revert", "alice", None)
        assert (second["by"], second["before"]["description"]) == ("bob", "Ours")
        assert second["after"]["description"] == "Bob's"
        assert (first["before"]["description"], first["after"]["description"]) == (None, "Ours")


def test_history_leaves_out_what_a_change_left_as_it_was(api, url):
    api.put(url, {"description": "Ours"})
    api.put(url, {"description": "Ours", "parameters": {"days": {"description": "Where"}}})
    api.delete(url)
    newest, second, first = api.get(f"{url}history/").json()["results"]
    words = {"description": "Theirs"}
    assert second["before"] == {"parameters": {}, "replaced": words}
    assert second["after"] == {
        "parameters": {"days": {"description": "Where"}},
        "replaced": words | {"parameters": {"days": {"description": "The days"}}},
    }
    assert first["before"]["description"] is None, "the vendor's words"
    assert newest["after"] == {"description": None, "parameters": {}, "replaced": {}, "against": None}


def test_history_holds_words_alone_and_those_of_its_own_target(api, tool):
    # A pin of the same number as its tool.
    pin = make_pin(make_agent(slug="desk"), tool, pk=tool.pk)
    url, tool_url = f"/api/v1/agents/desk/pins/{pin.pk}/tuning/", f"/api/v1/tools/{tool.pk}/tuning/"
    api.patch(f"/api/v1/agents/desk/pins/{pin.pk}/", {"alias": "ours"})
    api.put(url, {"description": "The agent's"})
    api.put(tool_url, {"description": "For all agents"})
    histories = [api.get(f"{address}history/").json()["results"] for address in (url, tool_url)]
    assert [[row["after"]["description"] for row in rows] for rows in histories] == [
        ["The agent's"],
        ["For all agents"],
    ]


def test_history_of_another_teams_pin_is_not_there(api, url, pin):
    pin.agent.team = Team.objects.create(name="Others", slug="others")
    pin.agent.save()
    assert api.get(f"{url}history/").status_code == 404


@module_data
def rich():
    values = (AllowedValue("C", "Celsius"), AllowedValue("F", "Fahrenheit"), AllowedValue("K"))
    return make_tool(
        make_signature(
            "forecast",
            description="Theirs",
            title="Forecast",
            inputs=(
                make_parameter("q", description="The place"),
                make_parameter("unit", type="enum", allowed_values=values, required=False),
                make_parameter("limit", type="int", required=False),
            ),
            outputs=(make_parameter("sky"), make_parameter("trace_id", description="")),
            annotations=Annotations(destructive=True),
        )
    )


@module_data
def rich_pin(rich):
    return make_pin(make_agent(slug="desk"), rich)


@pytest.fixture
def rich_url(rich_pin):
    return f"/api/v1/agents/desk/pins/{rich_pin.pk}/tuning/"


EVERYTHING = {
    "title": "Weather",
    "description": "Ours",
    "parameters": {
        "q": {"name": "place", "description": "A town"},
        "unit": {"values": {"C": {"description": "Degrees"}, "K": {"hidden": True}}},
    },
    "outputs": {"sky": {"description": "What it looks like"}, "trace_id": {"hidden": True}},
    "effects": {"destructive": False, "read_only": True},
}


def test_all_that_a_model_reads_is_ours_to_say(api, rich_pin, rich_url):
    reply = api.put(rich_url, EVERYTHING)

    assert reply.status_code == 200, reply.json()
    assert {name: reply.json()[name] for name in EVERYTHING} == EVERYTHING
    assert len(reply.json()["remarks"]) == 2
    signature = effective(api, rich_pin)
    assert (signature["title"], signature["description"]) == ("Weather", "Ours")
    q, unit, _ = signature["inputs"]
    assert (q["alias"], q["name"], q["description"]) == ("place", "q", "A town")
    assert unit["allowed_values"] == [
        {"name": "C", "description": "Degrees"},
        {"name": "F", "description": "Fahrenheit"},
    ]
    assert unit["hidden_values"] == ["K"]
    assert [(out["name"], out["description"]) for out in signature["outputs"]] == [
        ("sky", "What it looks like")
    ]
    assert signature["annotations"] == {"read_only": True, "destructive": False}


def test_an_agents_word_goes_before_the_catalogs_at_each_member(api, rich, rich_pin, rich_url):
    api.put(f"/api/v1/tools/{rich.pk}/tuning/", EVERYTHING)
    tuning = {"title": "Sky", "parameters": {"unit": {"values": {"K": {"hidden": False}}}}}

    assert api.put(rich_url, tuning).status_code == 200

    signature = effective(api, rich_pin)
    assert (signature["title"], signature["inputs"][0]["alias"]) == ("Sky", "place")
    assert [value["name"] for value in signature["inputs"][1]["allowed_values"]] == ["C", "F", "K"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"parameters": {"q": {"name": "no name"}}}, "parameters.q.name"),
        ({"parameters": {"q": {"name": "LIMIT"}}}, "parameters.q.name"),
        ({"parameters": {"q": {"name": "x"}, "limit": {"name": "X"}}}, "parameters.q.name"),
        ({"parameters": {"q": {"called": "x"}}}, "parameters.q.called"),
        ({"parameters": {"unit": {"values": {"R": {"hidden": True}}}}}, "parameters.unit.values.R"),
        ({"parameters": {"unit": {"values": {"C": {"shown": True}}}}}, "parameters.unit.values.C.shown"),
        (
            {"parameters": {"unit": {"values": {name: {"hidden": True} for name in "CFK"}}}},
            "parameters.unit.values",
        ),
        ({"parameters": {"unit": {"preset": "K", "values": {"K": {"hidden": True}}}}}, "parameters.unit"),
        ({"outputs": {"moon": {"hidden": True}}}, "outputs.moon"),
        ({"outputs": {"sky": {"name": "x"}}}, "outputs.sky.name"),
        ({"effects": {"open_world": True}}, "effects.open_world"),
        ({"effects": {"destructive": "no"}}, "effects.destructive"),
        ({"title": "x" * 201}, "title"),
        ({"tags": []}, "tags"),
    ],
)
def test_what_a_wider_tuning_cannot_keep_is_named(api, rich_url, words, field):
    reply = api.put(rich_url, words)

    assert reply.status_code == 400
    assert field in reply.json()["fields"]
    assert not Tuning.objects.exists()


def test_any_state_of_the_history_comes_back(api, bobs_api, rich_url):
    states = [EVERYTHING, {"title": "Weather"}, {"outputs": {"sky": {"hidden": True}}}]
    saved_words = [api.put(rich_url, words).json() for words in states]
    api.delete(rich_url)
    latest, *entries = api.get(f"{rich_url}history/").json()["results"]

    for change, before in zip(reversed(entries), saved_words, strict=True):
        reply = bobs_api.post(f"{rich_url}restore/", {"entry": change["entry"]})
        assert reply.status_code == 200
        unchanging = {"updated_by": "", "updated_at": ""}
        assert reply.json() | unchanging == before | unchanging
        assert api.get(f"{rich_url}history/").json()["results"][0]["action"] == "restore"
    assert bobs_api.post(f"{rich_url}restore/", {"entry": latest["entry"]}).json()["title"] is None
    assert not Tuning.objects.exists()
    missing = bobs_api.post(f"{rich_url}restore/", {"entry": 10**9})
    assert (missing.status_code, missing.json()["code"]) == (404, "no_such_entry")


def test_a_state_comes_back_that_the_pinned_version_has_no_place_for(api, rich, rich_pin, rich_url):
    api.put(rich_url, {"parameters": {"limit": {"description": "How many"}}})
    api.delete(rich_url)
    make_version(rich, make_signature("forecast"))
    api.patch(f"/api/v1/agents/desk/pins/{rich_pin.pk}/", {"ordinal": 2})
    first = api.get(f"{rich_url}history/").json()["results"][-1]

    reply = api.post(f"{rich_url}restore/", {"entry": first["entry"]})

    assert reply.json()["parameters"] == {"limit": {"description": "How many"}}
    assert api.get(f"/api/v1/agents/desk/pins/{rich_pin.pk}/").json()["misfits"]


@pytest.fixture
def moved(api, rich, rich_pin, rich_url):
    """A tuned pin that moved to a version with other vendor texts."""
    api.put(
        rich_url,
        {
            "description": "Theirs, and ours.\nUnits vary.",
            "title": "Weather",
            "effects": {"destructive": False},
        },
    )
    before = rich.current.decoded()
    make_version(
        rich,
        structs.replace(before, description="Newly theirs", annotations=Annotations()),
    )
    api.patch(f"/api/v1/agents/desk/pins/{rich_pin.pk}/", {"ordinal": 2})
    return rich_url


def test_words_are_stale_when_the_vendors_text_is_another(api, moved, rich_pin):
    stale = api.get(moved).json()["stale"]

    assert [(row["member"], row["then"], row["now"]) for row in stale] == [
        ("description", "Theirs", "Newly theirs"),
        ("effects.destructive", True, None),
    ]
    pin = api.get(f"/api/v1/agents/desk/pins/{rich_pin.pk}/").json()
    assert pin["stale"] == ["description", "effects.destructive"]


def test_saving_another_member_settles_nothing(api, moved):
    words = api.get(moved).json()
    kept_words = {name: words[name] for name in ("description", "effects")}

    stale = api.put(moved, kept_words | {"title": "Sky"}).json()["stale"]

    assert [row["member"] for row in stale] == ["description", "effects.destructive"]


@pytest.mark.parametrize(("take", "expected"), [("ours", "Theirs, and ours.\nUnits vary."), ("theirs", None)])
def test_a_person_settles_one_stale_text(api, moved, take, expected):
    reply = api.post(f"{moved}settle/", {"member": "description", "take": take})

    assert reply.status_code == 200, reply.json()
    assert reply.json()["description"] == expected
    assert [row["member"] for row in reply.json()["stale"]] == ["effects.destructive"]
    again = api.post(f"{moved}settle/", {"member": "description", "take": take})
    assert (again.status_code, again.json()["code"]) == (409, "not_stale")


def test_what_both_changed_is_not_merged_and_the_rest_is(api, rich, rich_url, rich_pin):
    tool_url = f"/api/v1/tools/{rich.pk}/tuning/"
    api.put(tool_url, {"parameters": {"q": {"description": "The place or town"}}, "description": "Ours"})
    before = rich.current.decoded()
    q, *others = before.inputs
    inputs = (structs.replace(q, description="Here: The place"), *others)
    make_version(rich, structs.replace(before, description="New", inputs=inputs))

    description, one = api.get(tool_url).json()["stale"]
    assert (description["member"], description["merged"]) == ("description", None)
    assert one["merged"] == "Here: The place or town"
    refused = api.post(f"{tool_url}settle/", {"member": "description", "take": "merged"})
    assert (refused.status_code, refused.json()["code"]) == (409, "cannot_merge")
    settled = api.post(f"{tool_url}settle/", {"member": one["member"], "take": "merged"}).json()
    assert settled["parameters"]["q"]["description"] == "Here: The place or town"
