import pytest
from django.urls import reverse

from catalog import search
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_pin, make_signature, make_tool, make_vendor
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


def indexed(*tools):
    search.index_pending()
    return tools


def names_on(page):
    return [row["name"] for row in page.context["rows"]]


def test_every_tool_is_listed_with_its_vendor_and_its_users(designer):
    endpoint = make_endpoint(vendor=make_vendor(name="Fair Weather"))
    tool = make_tool(name="forecast", endpoint=endpoint, tokens=1_250)
    make_pin(tool=tool)

    page = designer.get("/tools/")

    (row,) = page.context["rows"]
    assert (row["name"], row["vendor_name"], row["used_by"]) == ("forecast", "Fair Weather", 1)
    assert "Fair Weather 1 ~1.2k tokens used by 1" in text_of(page)


def test_only_an_unusual_status_is_shown(designer):
    make_tool(name="stays")
    make_tool(name="gone", status="withdrawn")

    page = designer.get("/tools/?status=active&status=withdrawn")

    assert {row["name"]: row["says_status"] for row in page.context["rows"]} == {
        "stays": "",
        "gone": "Withdrawn",
    }


def test_the_density_of_rows_is_remembered(designer):
    make_tool()

    designer.get("/tools/", {"density": "compact"}, headers={"HX-Request": "true"})

    assert "is-compact" in designer.get("/tools/").content.decode()


def test_words_find_tools_of_all_vendors(designer):
    indexed(
        make_tool(name="send_fax"),
        make_tool(make_signature("refill", description="Order a prescription again")),
    )

    assert names_on(designer.get("/tools/?q=prescription")) == ["refill"]


def test_a_misspelt_word_is_repaired_and_said(designer):
    indexed(make_tool(make_signature("refill", description="Order a prescription again")))

    page = designer.get("/tools/?q=perscription")

    assert names_on(page) == ["refill"]
    assert page.context["page"].repaired == {"perscription": "prescription"}
    assert page.context["as_typed_url"] in page.content.decode().replace("&amp;", "&")
    as_typed = designer.get(page.context["as_typed_url"])
    assert (names_on(as_typed), as_typed.context["page"].repaired) == ([], {})


def test_words_that_no_tool_says_are_named(designer):
    indexed(make_tool(make_signature("refill", description="Order a prescription again")))

    page = designer.get("/tools/?q=prescription+qqqqxyzzy")

    assert "“qqqqxyzzy”" in text_of(page)
    assert page.context["page"].unmatched == ["qqqqxyzzy"]


def test_while_a_question_is_typed_only_the_results_are_sent(designer):
    make_tool(name="forecast")

    response = designer.get("/tools/?q=&vendor=&sort=name", headers={"HX-Request": "true"})

    assert "<html" not in response.content.decode()
    assert 'id="results"' in response.content.decode()
    assert response["HX-Replace-Url"] == "/tools/?sort=name"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["blue", "green"]),
        ("vendor=sea", ["blue"]),
        ("tag=leaf", ["green"]),
        ("status=withdrawn", ["red"]),
        ("version=1&vendor=sea", ["blue"]),
        ("version=2", []),
        ("status=any&sort=-tokens", ["red", "green", "blue"]),
    ],
)
def test_filters_and_order_stand_in_the_address(designer, query, names):
    sea = make_endpoint(vendor=make_vendor(slug="sea"))
    make_tool(name="blue", endpoint=sea, tokens=10)
    make_tool(make_signature("green", tags=("leaf",)), tokens=20)
    make_tool(name="red", status="withdrawn", tokens=30)
    indexed()

    assert names_on(designer.get(f"/tools/?{query}")) == names


def test_a_filter_that_is_gone_says_so_and_leads_back(designer):
    make_tool()

    page_text = text_of(designer.get("/tools/?vendor=long-gone"))

    assert "There is no vendor “long-gone”." in page_text
    assert "Clear the search" in page_text


@pytest.mark.parametrize(
    "query", ["cursor=nonsense", "sort=backwards", "status=odd", "endpoint=x", "protocol=telex"]
)
def test_an_invented_address_does_no_harm(designer, query):
    make_tool()

    assert designer.get(f"/tools/?{query}").status_code == 200


def test_no_match_and_no_tools_are_told_apart(designer):
    assert "No tool yet" in text_of(designer.get("/tools/"))

    indexed(make_tool(name="forecast"))
    assert "No tool matches" in text_of(designer.get("/tools/?q=qqqqxyzzy"))


def test_a_press_changes_only_its_own_button(designer):
    tool = make_tool(name="forecast")
    make_agent(slug="desk")

    response = designer.post(
        f"/tools/{tool.pk}/pin/", {"agent": "desk", "ordinal": 1}, headers={"HX-Request": "true"}
    )

    assert text_of(response) == "Pinned"


def test_a_refused_press_says_why_in_place(designer):
    pin = make_pin(make_agent(slug="desk", name="Desk"))

    response = designer.post(
        f"/tools/{pin.tool_id}/pin/", {"agent": "desk", "ordinal": 1}, headers={"HX-Request": "true"}
    )

    assert "“Desk” has" in text_of(response)


def test_an_unknown_agent_is_not_found(designer):
    assert designer.get("/tools/?agent=nobody").status_code == 404


@pytest.mark.parametrize("query", ["", "q=what+it+does"])
def test_fifty_rows_make_a_small_and_cheap_page(designer, query, django_assert_max_num_queries):
    make_agent(slug="desk")
    endpoint = make_endpoint()
    for number in range(55):
        signature = make_signature(
            f"tool_with_a_usual_name_{number}", description="What it does and when. " * 30
        )
        # Each row names its tool four times: as long as in a catalog of years, whatever ran before.
        make_tool(signature, pk=90_000_000 + number, endpoint=endpoint, tags=["usual", "tags"])
    indexed()

    with django_assert_max_num_queries(13):
        response = designer.get(f"/tools/?{query}")

    assert len(response.context["rows"]) == 50
    assert len(response.content) < 60_000


def test_the_next_page_goes_on_where_this_one_ends(designer):
    for number in range(55):
        make_tool(name=f"tool_{number:02}")

    first = designer.get("/tools/?sort=name")
    second = designer.get(f"/tools/?sort=name&cursor={first.context['page'].next}")

    assert names_on(second) == [f"tool_{number}" for number in range(50, 55)]


def test_many_tools_are_pinned_at_once(designer):
    agent = make_agent(slug="desk", name="Desk")
    tools = [make_tool().pk for _ in range(3)]

    response = designer.post("/tools/pin/", {"agent": "desk", "tool": tools}, follow=True)

    assert agent.pins.count() == 3
    assert "3 tools are pinned to Desk." in text_of(response)


def test_one_refused_tool_does_not_hold_up_the_others(designer):
    agent = make_agent(slug="desk", name="Desk")
    withdrawn, tool = make_tool(status="withdrawn"), make_tool()

    response = designer.post(
        "/tools/pin/", {"agent": "desk", "tool": [withdrawn.pk, tool.pk, "x"]}, follow=True
    )

    assert agent.pins.get().tool == tool
    assert "has withdrawn" in text_of(response)
    assert "1 tool is pinned to Desk." in text_of(response)


def test_a_pin_made_from_an_odd_address_leads_to_its_agent(designer):
    tool = make_tool()

    reply = designer.post(f"/tools/{tool.pk}/pin/", {"agent_name": "Desk", "ordinal": 1, "next": "0"})

    assert (reply.status_code, reply.url) == (302, "/agents/desk/")


def test_what_a_list_is_narrowed_by_is_in_the_order_of_a_dictionary(designer):
    for name in ("apples", "Bikes", "Zebras", "cars"):
        endpoint = make_endpoint(vendor=make_vendor(name=f"{name} Inc"))
        indexed(make_tool(make_signature(name, tags=(f"{name} tag",)), endpoint=endpoint))
    facets = {facet.name: facet.values for facet in designer.get("/tools/").context["facets"]}
    for facet, ending in (("tag", " tag"), ("vendor", " Inc")):
        labels = [each.label.removesuffix(ending) for each in facets[facet]]
        assert labels == ["apples", "Bikes", "cars", "Zebras"]


@pytest.mark.parametrize(("role", "may_ask"), [(Role.DESIGNER, True), (Role.VIEWER, False)])
def test_a_search_without_a_result_offers_designers_to_ask_for_the_tool(role, may_ask):
    page = signed_in(role).get("/tools/", {"q": "zyxgarble quuxify"}).content.decode()

    assert (f"{reverse('vendor-request-new')}?reason=zyxgarble" in page) is may_ask
