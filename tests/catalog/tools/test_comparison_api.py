import pytest

from people.models import Role
from tests.factories import make_parameter, make_signature, make_tool, make_user

URL = "/api/v1/tools/compare/"


@pytest.fixture
def viewer(db, client):
    client.force_login(make_user(Role.VIEWER))
    return client


def test_parameters_of_the_same_name_stand_beside_each_other(viewer):
    one = make_tool(make_signature("one", inputs=(make_parameter("zip_code"), make_parameter("day"))))
    two = make_tool(make_signature("two", inputs=(make_parameter("ZipCode"),)))

    comparison = viewer.get(f"{URL}?tool={two.pk}&tool={one.pk}").json()

    assert [tool["name"] for tool in comparison["tools"]] == ["two", "one"]
    assert [line["name"] for line in comparison["inputs"]] == ["ZipCode", "day"]
    both, single = comparison["inputs"]
    assert [cell["parameter"]["name"] for cell in both["cells"]] == ["ZipCode", "zip_code"]
    assert single["cells"][0] is None


def test_outputs_are_compared_and_what_most_tools_have_stands_first(viewer):
    one = make_tool(make_signature("one", outputs=(make_parameter("rain"), make_parameter("sky"))))
    two = make_tool(make_signature("two", outputs=(make_parameter("sky"),)))

    comparison = viewer.get(f"{URL}?tool={one.pk}&tool={two.pk}").json()

    rows_found = [(line["name"], [bool(cell) for cell in line["cells"]]) for line in comparison["outputs"]]
    assert rows_found == [("sky", [True, True]), ("rain", [True, False])]


def test_words_for_all_agents_are_compared_with_the_vendors_beside_them(viewer):
    tool = make_tool(make_signature("one", description="Theirs", inputs=(make_parameter("city"),)))
    designer = make_user(Role.DESIGNER)
    viewer.force_login(designer)
    words = {"description": "Ours", "parameters": {"city": {"description": "Our town"}}}
    viewer.put(f"/api/v1/tools/{tool.pk}/tuning/", words, content_type="application/json")

    comparison = viewer.get(f"{URL}?tool={tool.pk}").json()

    assert comparison["tools"][0]["description"] == "Ours"
    (cell,) = comparison["inputs"][0]["cells"]
    assert (cell["parameter"]["description"], cell["vendors"]) == ("Our town", "The city")


@pytest.mark.parametrize(
    "query", ["", "?tool=", "?tool=x", "?tool=1&tool=x", "?tool=0", "?tool=1" * 1 + "&tool=1" * 4]
)
def test_what_cannot_be_compared_is_refused_at_its_parameter(viewer, query):
    reply = viewer.get(URL + query)
    assert reply.status_code == 400
    assert "tool" in reply.json()["fields"]


def test_a_tool_that_is_not_there_is_left_out(viewer):
    tool = make_tool()
    assert len(viewer.get(f"{URL}?tool={tool.pk}&tool=999").json()["tools"]) == 1
