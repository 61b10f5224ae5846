import pytest

from designer.exports import document as release_document
from designer.pins import pins, tunings
from designer.releases import diff, publishing
from designer.signatures import effective
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_version

URL = "/api/v1/agents/desk/releases/"


def make_release(desk, alice):
    return publishing.publish(desk, actor=alice, channel="live").number


def test_what_differs_between_two_releases_is_told_member_by_member(api, alice, db):
    desk = make_agent(slug="desk", name="Desk")
    tool = make_tool(make_signature("look_up", description="Finds a person"))
    pin = make_pin(desk, tool)
    removed_pin = make_pin(desk, make_tool(make_signature("gone")))
    make_release(desk, alice)
    signature = make_signature("look_up", description="Finds a person", inputs=(make_parameter("street"),))
    pins.move_pin(pin, actor=alice, ordinal=make_version(tool, signature).ordinal)
    tunings.tune(pin, actor=alice, description="Finds one person")
    pins.remove_pin(removed_pin, actor=alice)
    make_pin(desk, make_tool(make_signature("new")))
    make_release(desk, alice)

    diff = api.get(f"{URL}live/diff/").json()

    assert (diff["number"], diff["against"], diff["agent"]) == (2, 1, [])
    marks = {tool["name"]: tool for tool in diff["tools"]}
    assert {name: mark["mark"] for name, mark in marks.items()} == {
        "gone": "removed",
        "new": "added",
        "look_up": "changed",
    }
    members = {member["path"]: (member["before"], member["after"]) for member in marks["look_up"]["members"]}
    assert members["description"] == ("Finds a person", "Finds one person")
    assert members["inputs.city"][1] is None
    assert members["inputs.street"][0] is None
    assert marks["look_up"]["sentences"] == [
        "Version 1 became version 2.",
        "Your texts changed.",
        "What a model reads differs in 3 places.",
    ]


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        (("description",), "Description"),
        (("inputs", "city", "description"), "Description of the input “city”"),
        (("outputs", "sky", "description"), "Description of the output “sky”"),
        (("inputs", "unit", "allowed_values", "US", "description"), "What “US” of “unit” means"),
        (("inputs", "city", "max_length"), "Input “city”, max length"),
        (("hidden", "city"), "Hidden input “city”"),
        (("annotations", "read_only"), "Only reads"),
    ],
)
def test_a_member_is_named_by_its_place(steps, place):
    assert diff.ChangedMember(steps, None, None).place == place


def test_the_agents_own_words_are_compared_and_any_release_may_be_named(api, alice, db):
    desk = make_agent(slug="desk", name="Desk")
    make_pin(desk)
    for description in ("One", "Two", "Three"):
        api.patch("/api/v1/agents/desk/", {"description": description})
        make_release(desk, alice)

    diff = api.get(f"{URL}3/diff/?against=1").json()

    assert diff["agent"] == [{"path": "description", "before": "One", "after": "Three"}]
    assert diff["tools"] == []


def test_the_first_release_has_nothing_to_be_compared_with(api, alice, db):
    desk = make_agent(slug="desk", name="Desk")
    make_pin(desk)
    make_release(desk, alice)

    assert api.get(f"{URL}1/diff/").json()["code"] == "nothing_to_compare"
    assert api.get(f"{URL}1/diff/?against=9").status_code == 404


def document(*inputs, name="t", label="1", digest="d", **changes):
    signature = {name: changes.pop(name) for name in ("tags", "description") if name in changes}
    facts = {"id": 1, "tool_id": "t", "vendor": "v", "endpoint": "e", "protocol": "a2t", "tuning": {}}
    tool = release_document.ReleasedTool(
        **facts | changes,
        version=release_document.ReleasedVersion(ordinal=1, label=label, digest=digest),
        signature=effective.effective(make_signature(inputs=inputs, **signature), name=name),
    )
    agent = release_document.ReleasedAgent(slug="desk", name="Desk", description="")
    return release_document.ReleaseDocument(
        schema=release_document.SCHEMA, agent=agent, number=1, tools=(tool,)
    )


def test_order_of_inputs_is_no_difference_and_an_empty_list_stays_a_list():
    city, day = make_parameter("city"), make_parameter("day")
    (moved,) = diff.compare_releases(document(city, day), document(day, city)).own.tools
    assert (moved.members, moved.sentences) == ([], [])
    (tagged,) = diff.compare_releases(document(city), document(city, tags=("new",))).own.tools
    assert [(member.path, member.before, member.after) for member in tagged.members] == [
        ("tags", [], ["new"])
    ]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({}, {"label": "2", "digest": "e"}, "Version 1 became version 2."),
        ({}, {"digest": "e"}, "Version 1 was changed by its vendor under the same version number."),
        ({"label": ""}, {"label": "", "digest": "e"}, "The vendor's tool has another version."),
        ({}, {"name": "other"}, "It was called “t”."),
        ({}, {"tuning": {"agent": effective.Words(description="Ours")}}, "Your texts changed."),
        ({}, {"endpoint": "f"}, "The endpoint or the protocol of the vendor changed."),
        ({}, {"protocol": "mcp"}, "The endpoint or the protocol of the vendor changed."),
        ({}, {"description": "Other"}, "What a model reads differs: Description."),
    ],
)
def test_each_difference_has_a_sentence_of_its_own(before, after, sentence):
    (changed,) = diff.compare_releases(document(**before), document(**before | after)).own.tools
    assert changed.sentences == [sentence]


def test_an_agent_that_is_found_elsewhere_says_so(api, alice, db):
    desk = make_agent(slug="desk", name="Desk")
    make_pin(desk)
    make_release(desk, alice)
    other = make_agent(slug="other")
    make_pin(other)
    make_release(other, alice)
    api.patch("/api/v1/agents/desk/", {"slug": "counter"})
    make_pin(desk)
    make_release(desk, alice)
    diff = api.get("/api/v1/agents/counter/releases/live/diff/").json()
    assert (diff["number"], diff["against"]) == (2, 1)
    assert diff["agent"] == [{"path": "slug", "before": "desk", "after": "counter"}]
    assert api.get("/api/v1/agents/other/releases/live/diff/").json()["code"] == "nothing_to_compare"
