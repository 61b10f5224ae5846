import pytest

from catalog import search
from people.models import Role
from tests.factories import make_endpoint, make_signature, make_tool, make_user, make_vendor, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def twins():
    """The same two tools at two endpoints of a vendor, and one of them at another vendor."""
    vendor = make_vendor()
    endpoints = [make_endpoint(vendor=vendor), make_endpoint(vendor=vendor)]
    tools = {}
    for name in ("refill", "cancel"):
        for endpoint in (*endpoints, make_endpoint(vendor=make_vendor())):
            tools.setdefault(name, []).append(
                make_tool(make_signature(name, tags=("care",)), endpoint=endpoint, tool_id=name)
            )
    search.index_pending()
    return tools


def rows(client, **parameters):
    return client.get("/api/v1/tools/", parameters).json()


@pytest.fixture
def client(client):
    client.force_login(make_user(role=Role.VIEWER))
    return client


@pytest.mark.parametrize(
    "parameters",
    [{}, {"tag": "care"}, {"q": "refill"}, {"q": "refill", "sort": "-changed"}, {"sort": "vendor"}],
)
def test_the_same_tool_at_several_endpoints_is_one_row(client, twins, parameters):
    answer = rows(client, **parameters)
    first, second, other_vendor = twins["refill"]
    by_id = {row["id"]: row["variants"] for row in answer["results"]}
    assert by_id[first.pk] == [{"id": second.pk, "endpoint": second.endpoint_id}]
    assert second.pk not in by_id
    assert by_id[other_vendor.pk] == []
    assert answer["row_count"] == len(by_id)
    assert answer["count"] == len(by_id) + sum(map(len, by_id.values()))


def test_every_row_is_on_one_page(client, twins):
    by_tag = [{"tag": "care", "sort": sort} for sort in ("name", "-changed")]
    for parameters in ({"sort": "name"}, {"q": "refill cancel"}, *by_tag):
        answer = rows(client, limit=1, **parameters)
        listed = answer["results"]
        while answer["next"]:
            answer = client.get(answer["next"]).json()
            listed += answer["results"]
        back = answer["results"]
        while answer["previous"]:
            answer = client.get(answer["previous"]).json()
            back = answer["results"] + back
        assert [row["id"] for row in back] == [row["id"] for row in listed]
        assert sorted(row["id"] for row in listed) == sorted(
            twin.pk for tools in twins.values() for twin in (tools[0], tools[2])
        )


def test_a_filter_leaves_the_variants_that_it_matches(client, twins):
    _, second, _ = twins["refill"]
    answer = rows(client, endpoint=second.endpoint_id)
    assert {row["id"]: row["variants"] for row in answer["results"]} == {
        twin[1].pk: [] for twin in twins.values()
    }
    assert answer["count"] == answer["row_count"] == 2


def test_another_version_is_no_variant(client, twins):
    first, second, _ = twins["refill"]
    make_version(second, make_signature("refill", description="Also renews."))
    answer = rows(client)
    assert {first.pk, second.pk} <= {row["id"] for row in answer["results"]}


def test_the_page_states_rows_and_links_variants(client, twins):
    page = client.get("/tools/", {"q": "refill"}).content.decode()
    assert "3 tools, 2 rows" in page
    assert f'/tools/{twins["refill"][1].pk}/">' in page


def test_tools_that_differ_in_use_are_listed_each(client, twins):
    assert len(rows(client, sort="-used")["results"]) == 6
