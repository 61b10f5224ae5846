import pytest

from tests.factories import make_agent, make_pin, make_signature, make_tool, make_version


def test_tool_shows_its_row_signature_versions_and_users(api, db):
    tool = make_tool(make_signature("forecast", tags=("weather",)))
    make_version(tool, make_signature("forecast", description="Newer"))
    pin = make_pin(make_agent(slug="desk", name="Desk"), tool, version=tool.versions.get(ordinal=1))
    make_pin(make_agent(removed_at="2026-01-01T00:00:00Z"), tool)

    tool_body = api.get(f"/api/v1/tools/{tool.pk}/").json()

    assert tool_body["tool_id"] == tool.tool_id
    assert (tool_body["vendor"], tool_body["endpoint"]) == (tool.endpoint.vendor.slug, tool.endpoint_id)
    assert (tool_body["version"], tool_body["ordinal"], tool_body["status"]) == ("2", 2, "active")
    assert tool_body["signature"]["description"] == "Newer"
    assert tool_body["signature"]["outputs"] == []
    assert [version["ordinal"] for version in tool_body["versions"]] == [2, 1]
    assert tool_body["findings"] == []
    assert tool_body["used_by"] == [
        {
            "agent": "desk",
            "agent_name": "Desk",
            "pin": pin.pk,
            "name": "forecast",
            "version": "1",
            "ordinal": 1,
            "version_name": "1",
        }
    ]


@pytest.mark.parametrize("pk", ["999999", "99999999999999999999999"])
def test_unknown_tool_is_not_found(api, pk):
    assert api.get(f"/api/v1/tools/{pk}/").status_code == 404


def test_queries_do_not_grow_with_users_and_versions(api, django_assert_max_num_queries):
    tool = make_tool()
    for _ in range(4):
        make_version(tool)
        make_pin(tool=tool)

    with django_assert_max_num_queries(7):
        api.get(f"/api/v1/tools/{tool.pk}/")
