import pytest

ABSENT = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_paging_shows_every_tool_once(client, limit):
    ids = [t["toolId"] for t in client.tools(limit=limit)]
    assert len(ids) == len(set(ids)) == len(client.get("/tools?pageLimit=100")["items"])


def test_a_page_holds_twenty_five_tools_unless_asked_otherwise(travel):
    page = travel.get("/tools")
    assert len(page["items"]) == page["paging"]["pageLimit"] == 25
    assert page["paging"]["next"]


def test_the_last_page_names_no_next_one(client):
    assert "next" not in client.get("/tools?pageLimit=100")["paging"]


def test_a_page_limit_above_the_largest_is_lowered(client):
    assert client.get("/tools?pageLimit=5000")["paging"]["pageLimit"] == 100


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5", "9" * 5000])
def test_a_page_limit_that_is_no_positive_number_is_refused(pharmacy, limit):
    assert pharmacy.get(f"/tools?pageLimit={limit}")["code"] == "bad_page_limit"
    assert pharmacy.status == 400


def test_listed_tools_are_the_newest_versions(client):
    assert all(t["version"] == t["currentVersion"] for t in client.tools())


def test_one_tool_is_shown_in_its_current_version(client):
    for tool in client.tools()[:5]:
        assert client.get(f"/tools/{tool['toolId'].upper()}") == tool


def test_versions_come_newest_first_and_in_pages(pharmacy):
    tool_id = pharmacy.tool("refill_prescription")["toolId"]
    versions = pharmacy.tools(f"/tools/{tool_id}/versions", limit=1)
    assert [v["version"] for v in versions] == [3, 2, 1]


def test_one_version_is_the_one_in_the_list(pharmacy):
    for version in pharmacy.versions("refill_prescription"):
        assert pharmacy.get(f"/tools/{version['toolId']}/versions/{version['version']}") == version


def test_a_versions_cursor_that_was_never_given_is_refused(pharmacy):
    tool_id = pharmacy.tool("refill_prescription")["toolId"]
    assert pharmacy.get(f"/tools/{tool_id}/versions?pageCursor=x")["code"] == "bad_page_cursor"


@pytest.mark.parametrize("path", ["/tools?pageLimit=5", "/tools?pageLimit=100"])
def test_a_page_that_is_held_already_is_not_sent_again(client, path):
    client.get(path)
    etag = client.headers["ETag"]
    assert client.send("GET", path, headers={"If-None-Match": f'"other", {etag}'}) == b""
    assert client.status == 304
    assert client.headers["ETag"] == etag


def test_pages_that_differ_have_different_etags(client):
    client.get("/tools?pageLimit=5")
    other = client.headers["ETag"]
    client.get("/tools?pageLimit=6", headers={"If-None-Match": other})
    assert client.status == 200


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/tools/{ABSENT}", "tool_not_found"),
        (f"/tools/{ABSENT}/versions", "tool_not_found"),
        ("/tool", "not_found"),
        ("/tools/", "not_found"),
    ],
)
def test_what_is_not_there_is_not_found(client, path, code):
    assert client.get(path)["code"] == code
    assert client.status == 404


@pytest.mark.parametrize("version", ["0", "99", "latest", "9" * 5000])
def test_a_version_that_never_was_is_not_found(pharmacy, version):
    tool_id = pharmacy.tool("refill_prescription")["toolId"]
    assert pharmacy.get(f"/tools/{tool_id}/versions/{version}")["code"] == "version_not_found"


def test_the_wrong_method_is_told_the_right_one(pharmacy):
    assert pharmacy.post("/tools")["message"] == "This address takes GET."
    assert pharmacy.status == 405


def test_the_page_for_people_names_the_vendor_and_its_tools(client, vendor):
    page = client.send("GET", "/").decode()
    assert client.headers["Content-Type"].startswith("text/html")
    assert f"offers {len(client.tools())} tools" in page
    assert ("Publish the next version" in page) is vendor.publishes
