import pytest

from catalog import search
from designer.models import Agent, Pin, Tuning
from designer.pins import tunings
from people.models import Role
from protocols.signature import AllowedValue, Annotations, Requirements
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


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


def test_a_tool_shows_its_interface_in_words(designer):
    enum = make_parameter(
        "size", type="enum", required=False, allowed_values=(AllowedValue("SMALL"), AllowedValue("BIG"))
    )
    limited = make_parameter("days", type="int", min=1, max=14, default=3)
    tool = make_tool(make_signature(inputs=(enum, limited), annotations=Annotations(read_only=True)))

    page_text = text_of(designer.get(f"/tools/{tool.pk}/"))

    assert "size enum optional SMALL BIG The size" in page_text
    assert "days int required 3 1 to 14 The days" in page_text
    assert "Only reads" in page_text
    assert "Danger" not in page_text


def test_a_tool_says_what_it_needs_and_an_agent_that_it_is_one(designer):
    needs = Requirements(scopes=("mail.send",), secrets=("vault-key",), user=True)
    page_text = text_of(designer.get(f"/tools/{make_tool(make_signature(requirements=needs)).pk}/"))
    assert "Scopes mail.send Secrets vault-key User Acts for one user" in page_text
    specs = {"capabilities": {"streaming": {"values": True}}, "interrupts": [{"interrupt_type": "approval"}]}
    endpoint = make_endpoint(protocol="acp")
    agent = make_tool(make_signature(kind="agent", rest={"specs": specs}), endpoint=endpoint)
    page_text = text_of(designer.get(f"/tools/{agent.pk}/"))
    assert "Kind An agent, which chooses its own steps Threads None Streaming values" in page_text
    assert "May ask for approval" in page_text


def test_a_missing_tool_is_not_found(designer):
    assert designer.get("/tools/999999/").status_code == 404


def test_our_words_stand_before_the_vendors(designer):
    tool = make_tool()
    tunings.tune(tool, actor=make_user(Role.DESIGNER), description="Use it before a trip.")

    page_text = text_of(designer.get(f"/tools/{tool.pk}/"))

    assert page_text.index("Use it before a trip.") < page_text.index("Vendor text Tomorrow's weather")


def test_a_tool_is_pinned_to_an_agent_in_the_chosen_version(designer):
    tool = make_tool()
    make_version(tool)
    agent = make_agent(slug="desk")

    response = designer.post(f"/tools/{tool.pk}/pin/", {"agent": "desk", "ordinal": 1})

    assert response["Location"] == "/agents/desk/"
    assert Pin.objects.get(agent=agent).version.ordinal == 1


def test_pinning_makes_the_agent_when_there_is_none_yet(designer):
    tool = make_tool()

    designer.post(f"/tools/{tool.pk}/pin/", {"agent": "", "agent_name": "Travel desk", "ordinal": 1})

    assert Agent.objects.get().pins.get().tool == tool


def test_a_refused_pin_leaves_no_agent_behind(designer):
    tool = make_tool(status="withdrawn")

    response = designer.post(f"/tools/{tool.pk}/pin/", {"agent": "", "agent_name": "Desk", "ordinal": 1})

    assert "has withdrawn" in text_of(response)
    assert not Agent.objects.exists()


def test_a_tool_that_is_pinned_already_says_so(designer):
    pin = make_pin(make_agent(slug="desk", name="Desk"))

    response = designer.post(f"/tools/{pin.tool_id}/pin/", {"agent": "desk", "ordinal": 1})

    assert "“Desk” has" in text_of(response)


def test_the_newest_version_is_compared_with_the_one_before_it(designer):
    tool = make_tool()
    make_version(tool, make_signature(description="Second words"))
    make_version(tool, make_signature(description="Third words"))

    page = designer.get(f"/tools/{tool.pk}/versions/")

    assert (page.context["old"].ordinal, page.context["new"].ordinal) == (2, 3)


@pytest.mark.parametrize("query", ["from=1&to=3", "from=3&to=1"])
def test_the_older_version_is_always_at_the_left(designer, query):
    tool = make_tool()
    make_version(tool)
    make_version(tool)

    page = designer.get(f"/tools/{tool.pk}/versions/?{query}")

    assert (page.context["old"].ordinal, page.context["new"].ordinal) == (1, 3)


def test_an_older_version_that_was_read_later_still_counts_as_older(designer):
    tool = make_tool()
    make_version(tool, label="5")
    make_version(tool, label="3", is_current=False)

    page = designer.get(f"/tools/{tool.pk}/versions/?from=2&to=3")

    assert (page.context["old"].label, page.context["new"].label) == ("3", "5")


@pytest.mark.parametrize("query", ["from=x&to=-1", "to=99", "from=1&to=1"])
def test_a_choice_that_makes_no_pair_shows_the_list(designer, query):
    tool = make_tool()

    page = designer.get(f"/tools/{tool.pk}/versions/?{query}")

    assert page.status_code == 200
    assert "All versions" in text_of(page)


def test_two_versions_under_one_label_can_be_told_apart(designer):
    tool = make_tool()
    drifted = make_version(tool, label="1")

    assert f"Version {drifted.name}" in text_of(designer.get(f"/tools/{tool.pk}/versions/"))
    assert drifted.name.startswith("1, rewritten on ")


def test_the_raw_document_is_shown_on_request_only(designer):
    tool = make_tool(make_signature(description="Words\u200b"))

    assert "U+200B" in designer.get(f"/tools/{tool.pk}/raw/").content.decode()
    assert designer.get(f"/tools/{tool.pk}/raw/?version=7").status_code == 404


def test_users_of_a_tool_are_listed_with_how_far_they_are_behind(designer):
    pin = make_pin(make_agent(name="Desk"))
    make_version(pin.tool)

    assert "Desk" in text_of(designer.get(f"/tools/{pin.tool_id}/used-by/"))
    assert "Update available" in text_of(designer.get(f"/tools/{pin.tool_id}/used-by/"))


def test_catalog_wide_words_are_saved_and_reverted(designer):
    tool = make_tool()
    form = {"version": 1, "description": "Ours", "description-0": "The city", "preset-0": ""}

    designer.post(f"/tools/{tool.pk}/tuning/", form)
    assert Tuning.objects.get(tool=tool).description == "Ours"

    designer.post(f"/tools/{tool.pk}/tuning/revert/")
    assert not Tuning.objects.exists()


def test_the_tab_of_the_words_counts_those_that_the_vendor_wrote_anew_below(designer):
    tool = make_tool(make_signature("forecast"))
    tunings.tune(tool, actor=make_user(Role.DESIGNER), title="Weather", description="Ours")
    assert "Tuning 1" not in text_of(designer.get(f"/tools/{tool.pk}/"))

    make_version(tool, make_signature("forecast", description="Theirs anew"))

    for page in ("", "versions/", "tuning/"):
        assert "Tuning 1 Versions" in text_of(designer.get(f"/tools/{tool.pk}/{page}"))


def test_tokens_of_large_versions_are_not_counted(designer):
    tool = make_tool(make_signature("forecast", description="First."))
    make_version(tool, make_signature("forecast", description="x" * 600_000))
    make_version(tool, make_signature("forecast", description="Third."))

    shown = designer.get(f"/tools/{tool.pk}/versions/").context["versions"]

    tokens = [row.counted_tokens for row, _word, _address in shown]
    assert tokens == [tool.versions.get(ordinal=3).tokens, None, None]


@pytest.mark.parametrize("page", ["", "versions/", "used-by/", "findings/", "tuning/", "raw/"])
def test_pages_of_a_tool_stay_small_and_cheap(designer, page, django_assert_max_num_queries):
    inputs = tuple(make_parameter(f"input_{n}", description="What it is for. " * 6) for n in range(20))
    tool = make_tool(make_signature(inputs=inputs))
    for number in range(50):
        make_version(tool, make_signature(description=f"Words {number}", inputs=inputs))
        make_pin(tool=tool)
    tunings.tune(tool, actor=make_user(Role.DESIGNER), title="Ours")

    with django_assert_max_num_queries(13):  # one of them: does the reader follow the tool?
        response = designer.get(f"/tools/{tool.pk}/{page}")

    assert len(response.content) < 60_000


def test_the_same_job_at_other_vendors_and_similar_tools_are_offered(client):
    client.force_login(make_user(Role.VIEWER))
    post, sea = (make_endpoint(vendor=make_vendor(slug=slug, name=slug)) for slug in ("post", "sea"))
    tool, near, other, _ = (
        make_tool(make_signature(name, description="Sends a parcel."), endpoint=endpoint)
        for name, endpoint in (
            ("send_parcel", post),
            ("track_parcel", post),
            ("parcel_send", sea),
            ("send_sheep", sea),
        )
    )
    search.index_pending()

    groups = client.get(f"/tools/{tool.pk}/similar/").context["similar"]

    assert [[row["id"] for row in rows] for _, rows in groups] == [[other.pk], [near.pk]]
    assert f"/tools/{tool.pk}/similar/" in client.get(f"/tools/{tool.pk}/").content.decode()
