import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from catalog.models import tools
from people.models import Role
from tests.catalog.review.test_inbox import about
from tests.factories import make_parameter, make_signature, make_tool, make_user, make_version


@pytest.fixture
def api(db):
    client = APIClient()
    client.force_login(make_user(Role.VIEWER))
    return client


@pytest.fixture
def tool(db):
    tool = make_tool(make_signature("forecast"))
    make_version(
        tool,
        make_signature(
            "forecast", inputs=(make_parameter(), make_parameter("days", type="int", required=False))
        ),
    )
    return tool


def test_versions_are_listed_newest_first(api, tool, django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        rows = api.get(f"/api/v1/tools/{tool.pk}/versions/").json()["results"]

    assert [(row["ordinal"], row["label"], row["is_current"]) for row in rows] == [
        (2, "2", True),
        (1, "1", False),
    ]
    assert rows[1]["digest"] == tool.versions.get(ordinal=1).digest
    assert rows[1]["raw"]["name"] == rows[1]["signature"]["name"] == "forecast"
    assert "first_seen" in rows[0]


def test_older_version_read_later_stands_in_its_place(api, tool):
    make_version(tool, make_signature("forecast", description="Much older"), label="0", is_current=False)

    rows = api.get(f"/api/v1/tools/{tool.pk}/versions/").json()["results"]

    assert [row["label"] for row in rows] == ["2", "1", "0"]


def test_list_of_versions_pages(api, tool):
    ordinals, url = [], f"/api/v1/tools/{tool.pk}/versions/?limit=1"
    while url:
        page = api.get(url).json()
        ordinals += [row["ordinal"] for row in page["results"]]
        url = page["next"]

    assert ordinals == [2, 1]


def test_list_of_large_versions_ends_early(api, tool):
    """Two hundred versions of a megabyte each would take gigabytes."""
    for number in range(3, 9):
        make_version(tool, make_signature("forecast", description=f"{number}" * 500_000))

    ordinals, page_lengths, url = [], [], f"/api/v1/tools/{tool.pk}/versions/?limit=200"
    while url:
        page = api.get(url).json()
        ordinals += [row["ordinal"] for row in page["results"]]
        page_lengths.append(len(page["results"]))
        previous, url = url, page["next"]

    assert ordinals == [8, 7, 6, 5, 4, 3, 2, 1]
    assert page_lengths == [2, 2, 2, 2]
    page = api.get(api.get(previous).json()["previous"]).json()
    assert [row["ordinal"] for row in page["results"]] == [4, 3]


def test_tool_counts_the_tokens_of_a_few_large_versions(api, tool, monkeypatch):
    for number in range(3, 6):
        make_version(tool, make_signature("forecast", description=f"{number}" * 400_000))
    counted = []
    monkeypatch.setattr(tools, "tokens_of", lambda signature: counted.append(signature) or 7)

    rows = api.get(f"/api/v1/tools/{tool.pk}/").json()["versions"]

    assert [(row["ordinal"], row["tokens"]) for row in rows] == [(5, 7), (4, 7)]
    assert [len(signature.description) for signature in counted] == [400_000, 400_000]


@pytest.mark.parametrize(
    "address", ["/api/v1/findings/", "/tools/{tool}/findings/", "/tools/{tool}/used-by/"]
)
def test_lists_read_no_documents_of_versions(api, tool, address):
    version = tool.versions.get(ordinal=2)
    about(version)
    client = Client()
    client.force_login(make_user(Role.ADMIN))
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address.format(tool=tool.pk)).status_code == 200
    rows = [query["sql"] for query in queries if '"catalog_toolversion"."label"' in query["sql"]]
    assert rows
    # One version is read whole: the current one of the tool in the page's head.
    assert [sql for sql in rows if '"catalog_toolversion"."raw"' in sql and "LIMIT 21" not in sql] == []


def test_one_version_is_read_by_its_ordinal(api, tool):
    assert api.get(f"/api/v1/tools/{tool.pk}/versions/1/").json()["ordinal"] == 1
    assert api.get(f"/api/v1/tools/{tool.pk}/versions/9/").status_code == 404
    assert api.get("/api/v1/tools/999999/versions/1/").status_code == 404
    assert api.get("/api/v1/tools/999999/versions/").status_code == 404


def test_difference_is_classified_and_directed(api, tool):
    url = f"/api/v1/tools/{tool.pk}/diff/"

    forth = api.get(url, {"from": 1, "to": 2}).json()
    back = api.get(url, {"from": 2, "to": 1}).json()

    assert (forth["class"], back["class"]) == ("compatible", "breaking")
    (change,) = forth["changes"]
    assert (change["path"], change["kind"], change["class"]) == ("inputs/days", "added", "compatible")
    assert change["before"] is None
    assert change["after"]["name"] == "days"
    assert change["sentence"]


def test_no_difference_is_told(api, tool):
    assert api.get(f"/api/v1/tools/{tool.pk}/diff/", {"from": 1, "to": 1}).json() == {
        "class": "none",
        "changes": [],
    }


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"from": "x" * 101}, {"from"}),
        ({"from_ordinal": "x", "to_ordinal": 0}, {"from_ordinal", "to_ordinal"}),
    ],
)
def test_what_names_no_version_is_refused(api, tool, query, fields):
    reply = api.get(f"/api/v1/tools/{tool.pk}/diff/", query)

    assert reply.status_code == 400
    assert set(reply.json()["fields"]) == fields


def test_unknown_ordinal_is_told(api, tool):
    reply = api.get(f"/api/v1/tools/{tool.pk}/diff/", {"from": 1, "to": 9})

    assert (reply.status_code, reply.json()["code"]) == (404, "unknown_version")
