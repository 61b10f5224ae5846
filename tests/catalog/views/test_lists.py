import pytest

from people.models import Role
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_vendor
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def test_an_empty_catalog_says_what_to_do(admin):
    assert "No vendor yet Connect one" in text_of(admin.get("/vendors/"))


def test_the_list_of_vendors_costs_the_same_however_long(admin, django_assert_max_num_queries):
    for _ in range(55):
        make_tool()

    with django_assert_max_num_queries(8):
        page = admin.get("/vendors/")

    assert len(page.content) < 60_000
    assert "Next" in text_of(page)


def test_a_vendor_shows_its_endpoints_and_is_edited(admin):
    vendor = make_endpoint(vendor=make_vendor(slug="air"), name="Sandbox").vendor

    assert "Sandbox" in text_of(admin.get("/vendors/air/"))
    admin.post("/vendors/air/", {"name": "Air", "homepage": "https://air.example"})

    vendor.refresh_from_db()
    assert (vendor.name, vendor.homepage) == ("Air", "https://air.example")


def test_a_refused_change_of_a_vendor_is_explained(admin):
    make_vendor(slug="air", name="Air")

    page = admin.post("/vendors/air/", {"name": "Air", "homepage": "javascript:alert(1)"})

    assert page.context["form"].errors["homepage"]


def test_a_removed_vendor_is_gone_from_the_list(admin):
    make_vendor(slug="air", name="Air Fictional")

    admin.post("/vendors/air/remove/", follow=True)

    assert "Air Fictional" not in text_of(admin.get("/vendors/"))


def test_compared_tools_stand_with_inputs_of_the_same_name_beside_each_other(admin):
    one = make_tool(make_signature("one", inputs=(make_parameter("userId"), make_parameter("only_here"))))
    two = make_tool(make_signature("two", inputs=(make_parameter("user_id"),)))

    page = admin.get(f"/tools/compare/?tool={two.pk}&tool={one.pk}")

    lines = {line.name: [cell is not None for cell in line.cells] for line in page.context["inputs"]}
    assert lines == {"user_id": [True, True], "only_here": [False, True]}


def test_four_tools_are_the_most(admin):
    tools = [make_tool() for _ in range(5)]

    page = admin.get("/tools/compare/?" + "&".join(f"tool={tool.pk}" for tool in tools))

    assert len(page.context["columns"]) == 4


@pytest.mark.parametrize("query", ["", "?tool=abc", "?tool=999999"])
def test_nothing_to_compare_leads_back_to_the_tools(admin, query):
    assert "Nothing to compare yet" in text_of(admin.get(f"/tools/compare/{query}"))
