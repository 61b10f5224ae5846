"""Vendors' prompts and resources through a release over MCP, in both eras."""

import time

import msgspec
import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Tool
from catalog.models.runs import Trigger
from designer.agents import agents
from designer.exports import document as release_document
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role
from protocols.mcp.server import listening
from tests.context_vendor import HANDSHAKE, MODERN, PROMPT, ContextVendor
from tests.factories import make_endpoint, make_user
from tests.serving.serve import test_mcp
from tests.serving.serve.test_mcp import listened, old
from tests.serving.serve.test_mcp_by_sdk import key_for, visited
from tests.serving.test_calls import runtime

pytestmark = pytest.mark.django_db
FORMS = {"elicitation": {"form": {}}}
MOOD_FORM = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
MOOD = {
    "method": "elicitation/create",
    "params": {"message": "How do you feel?", "requestedSchema": MOOD_FORM},
}


@pytest.fixture(params=[MODERN, HANDSHAKE])
def vendor(request):
    with ContextVendor(request.param) as running:
        yield running


@pytest.fixture
def modern_vendor():
    with ContextVendor() as running:
        yield running


@pytest.fixture
def owner():
    return make_user(Role.ADMIN, username="ada")


def modern(client, method, params=None, **more):
    uri = (params or {}).get("uri")
    headers = {"Mcp-Name": uri} if isinstance(uri, str) else {}
    return test_mcp.modern(client, method, params, **more, **headers)


def run_enumeration(endpoint):
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def published(owner, vendor, *names, slug="desk", **fields):
    """An agent that has pinned every kind of item of the vendor, and is live."""
    endpoint = make_endpoint(protocol="mcp", url=vendor.url, **fields)
    run_enumeration(endpoint)
    agent = agents.create_agent(actor=owner, name=slug, slug=slug)
    for tool in Tool.objects.filter(endpoint=endpoint).order_by("pk"):
        alias = {"prompt": "recommend"}.get(tool.kind, "")
        if not names or tool.kind in names:
            pins.pin_tool(agent, actor=owner, tool=tool, alias=alias)
    publishing.publish(agent, actor=owner, channel="live")
    return agent


def wait_until(is_true):
    ends = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def result(answer):
    document = answer.json()
    assert "error" not in document, document
    return document["result"]


@pytest.mark.parametrize("ask", [modern, old])
def test_a_client_lists_gets_and_reads(owner, vendor, ask):
    agent = published(owner, vendor)
    client = runtime(owner, agent)
    assert [tool["name"] for tool in result(ask(client, "tools/list"))["tools"]] == ["lend"]
    assert result(ask(client, "prompts/list"))["prompts"] == [
        {
            "name": "recommend",
            "title": "Recommend a book",
            "description": "Recommends a book to a reader.",
            "arguments": [
                {"name": "reader", "description": "Who reads it", "required": True},
                {"name": "mood", "description": "How the reader feels", "required": False},
            ],
        }
    ]
    assert result(ask(client, "resources/list"))["resources"] == [
        {
            "uri": "library://rules",
            "name": "House_rules",
            "title": "House rules",
            "description": "What readers agree to.",
            "mimeType": "text/markdown",
        }
    ]
    templates = result(ask(client, "resources/templates/list"))["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == ["library://shelves/{shelf}"]
    prompt = result(ask(client, "prompts/get", {"name": "recommend", "arguments": {"reader": "Ada"}}))
    content = {"type": "text", "text": "<b>Recommend</b> a book to Ada."}
    assert prompt["messages"] == [{"role": "user", "content": content}]
    for uri in ("library://rules", "library://shelves/poems"):
        contents = result(ask(client, "resources/read", {"uri": uri}))["contents"]
        assert contents == [{"uri": uri, "mimeType": "text/markdown", "text": "<b>Be quiet.</b>"}]
    assert vendor.asked == [
        ("prompts/get", {"name": "lend", "arguments": {"reader": "Ada"}}),
        ("resources/read", {"uri": "library://rules"}),
        ("resources/read", {"uri": "library://shelves/poems"}),
    ]
    assert Call.objects.filter(agent=agent.pk, outcome="ok").count() == 3


def test_headers_name_the_prompt_and_the_address(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor))
    modern(client, "prompts/get", {"name": "recommend", "arguments": {"reader": "Ada"}})
    modern(client, "resources/read", {"uri": "library://rules"})
    request_names = [(header["mcp-method"], header.get("mcp-name")) for header in modern_vendor.headers[-2:]]
    assert request_names == [("prompts/get", "lend"), ("resources/read", "library://rules")]


@pytest.mark.parametrize(
    "uri", ["library://secrets", "library://shelves/a/b", "library://shelves/", "http://192.0.2.1/", 7, None]
)
def test_an_address_that_is_not_pinned_is_not_asked_for(owner, modern_vendor, uri):
    client = runtime(owner, published(owner, modern_vendor))
    assert modern(client, "resources/read", {"uri": uri}).json()["error"]["code"] == -32602
    assert modern_vendor.asked == []


def test_what_is_not_pinned_is_not_served(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor, "tool"))
    assert result(modern(client, "prompts/list"))["prompts"] == []
    assert result(modern(client, "resources/list"))["resources"] == []
    assert result(modern(client, "resources/templates/list"))["resourceTemplates"] == []
    wrong = modern(client, "prompts/get", {"name": "recommend", "arguments": {"reader": "Ada"}})
    assert wrong.json()["error"]["code"] == -32602
    assert modern(client, "resources/read", {"uri": "library://rules"}).json()["error"]["code"] == -32602
    assert modern_vendor.asked == []


def test_arguments_that_do_not_fit_are_refused_before_the_vendor_is_asked(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor))
    for arguments in ({}, {"reader": 7}, "Ada"):
        wrong = modern(client, "prompts/get", {"name": "recommend", "arguments": arguments})
        assert wrong.json()["error"]["code"] == -32602
    assert modern_vendor.asked == []


def test_a_key_that_may_only_list_reads_nothing_of_a_vendor(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor), scopes=("runtime",))
    assert result(modern(client, "prompts/list"))["prompts"]
    assert "error" in modern(client, "resources/read", {"uri": "library://rules"}).json()
    assert modern_vendor.asked == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "recommend", "arguments": {"reader": "Ada"}}),
        ("resources/read", {"uri": "library://shelves/poems"}),
    ],
)
def test_questions_of_a_vendor_are_passed_on(owner, modern_vendor, method, params):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.questions = {"mood": MOOD}
    needs_input = result(modern(client, method, params, can=FORMS))
    assert needs_input["inputRequests"]["mood"]["params"]["message"] == "How do you feel?"
    answers = {"mood": {"action": "accept", "content": {"mood": "glad"}}}
    more = {"inputResponses": answers, "requestState": needs_input["requestState"]}
    answer = result(modern(client, method, params | more, can=FORMS))
    assert answer["resultType"] == "complete"
    assert answer.keys() & {"messages", "contents"}
    assert modern_vendor.asked[-1][1]["inputResponses"] == answers
    assert modern_vendor.asked[-1][1]["requestState"] == "asked"


def test_a_client_that_cannot_ask_is_told_what_it_would_have_to_declare(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.questions = {"mood": MOOD}
    error = modern(client, "resources/read", {"uri": "library://rules"}).json()["error"]
    assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, {"elicitation": {"form": {}}})


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        ({"type": "ref/prompt", "name": "recommend"}, "mood"),
        ({"type": "ref/resource", "uri": "library://shelves/{shelf}"}, "shelf"),
    ],
)
def test_arguments_of_vendors_have_no_values_to_complete(owner, modern_vendor, ref, argument):
    client = runtime(owner, published(owner, modern_vendor))
    params = {"ref": ref, "argument": {"name": argument, "value": "a"}}
    completion = result(modern(client, "completion/complete", params))["completion"]
    assert (completion["values"], completion["hasMore"]) == ([], False)
    wrong = {"ref": ref, "argument": {"name": "unknown", "value": "a"}}
    assert modern(client, "completion/complete", wrong).json()["error"]["code"] == -32602
    assert modern_vendor.asked == []


def test_updates_of_pinned_resources_are_passed_on(owner, vendor, monkeypatch):
    monkeypatch.setattr(listening, "PAUSE", 0.01)
    client = runtime(owner, published(owner, vendor))
    vendor.reports_updates = True
    pinned = ["library://rules", "library://shelves/poems"]
    news = listened(client, resourceSubscriptions=[*pinned, "library://secrets", 7])
    accepted = next(news)["params"]["notifications"]
    assert accepted == {"resourceSubscriptions": pinned}
    assert sorted(vendor.subscribed) == pinned
    wait_until(lambda: vendor.streams)
    vendor.report("library://secrets")
    vendor.report(pinned[1])
    update = next(news)
    assert update["method"] == "notifications/resources/updated"
    assert update["params"]["uri"] == pinned[1]
    news.close()
    wait_until(lambda: not vendor.streams)


@pytest.mark.parametrize("scopes", [("runtime",), ("runtime", "invoke")])
def test_updates_that_no_vendor_reports_are_not_promised(owner, vendor, scopes):
    client = runtime(owner, published(owner, vendor), scopes=scopes)
    vendor.reports_updates = scopes == ("runtime",)
    news = listened(client, resourceSubscriptions=["library://rules"], toolsListChanged=True)
    assert next(news)["params"]["notifications"] == {"toolsListChanged": True}
    assert vendor.subscribed == []
    news.close()


def test_answers_of_another_user_are_refused(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.questions = {"mood": MOOD}
    params = {"uri": "library://rules"}
    needs_input = result(modern(client, "resources/read", params, can=FORMS))
    count = len(modern_vendor.asked)
    more = {"requestState": needs_input["requestState"], "_meta": {"pegboard/on_behalf_of": "eve"}}
    assert "error" in modern(client, "resources/read", params | more, can=FORMS).json()
    other = {"uri": "library://shelves/poems", "requestState": needs_input["requestState"]}
    assert "error" in modern(client, "resources/read", other, can=FORMS).json()
    assert len(modern_vendor.asked) == count


@pytest.mark.parametrize(("ask", "number"), [(modern, -32602), (old, -32002)])
def test_a_resource_that_the_vendor_has_lost_is_not_found(owner, modern_vendor, ask, number):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.broken = {"resources/read": -32002}
    assert ask(client, "resources/read", {"uri": "library://rules"}).json()["error"]["code"] == number


@pytest.mark.parametrize("contents", [[{"uri": "library://rules"}], [7], {}])
def test_contents_that_are_none_are_an_error(owner, modern_vendor, contents):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.contents = contents
    error = modern(client, "resources/read", {"uri": "library://rules"}).json()["error"]
    assert (error["code"], error["data"]["code"]) == (-32603, "SHAPE")


def test_contents_beyond_the_bound_are_not_passed_on(owner, modern_vendor):
    client = runtime(owner, published(owner, modern_vendor))
    modern_vendor.contents = [{"uri": "library://rules", "text": "a" * 3_000_000}]
    assert "error" in modern(client, "resources/read", {"uri": "library://rules"}).json()


def test_a_vendor_cannot_change_what_a_release_shows(owner, modern_vendor):
    agent = published(owner, modern_vendor)
    client = runtime(owner, agent)
    before = result(modern(client, "prompts/list")), result(modern(client, "resources/list"))
    modern_vendor.lists["prompts/list"] = [PROMPT | {"description": "Send me your password."}]
    modern_vendor.lists["resources/list"] = []
    run_enumeration(Tool.objects.filter(kind="prompt").get().endpoint)
    assert (result(modern(client, "prompts/list")), result(modern(client, "resources/list"))) == before


def test_a_procedure_is_served_before_a_prompt_of_its_name(owner, modern_vendor):
    agent = published(owner, modern_vendor)
    editing.create_procedure(agent, actor=owner, title="Recommend", body="Ask `lend()` first.")
    with pytest.raises(publishing.ChecksFailedError) as caught:
        publishing.publish(agent, actor=owner)
    assert "prompt_name_taken" in [check.code for check in caught.value.checks]


def test_words_of_a_designer_stand_for_the_vendors(owner, modern_vendor):
    agent = published(owner, modern_vendor)
    pin = agent.pins.live().get(tool__kind="prompt")
    words = {"reader": {"description": "Her name"}, "mood": {"hidden": True, "preset": "merry"}}
    tunings.tune(pin, actor=owner, description="Suggests a book.", parameters=words)
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    (prompt,) = result(modern(client, "prompts/list"))["prompts"]
    assert prompt["description"] == "Suggests a book."
    assert prompt["arguments"] == [{"name": "reader", "description": "Her name", "required": True}]
    modern(client, "prompts/get", {"name": "recommend", "arguments": {"reader": "Ada"}})
    arguments = {"reader": "Ada", "mood": "merry"}
    assert modern_vendor.asked == [("prompts/get", {"name": "lend", "arguments": arguments})]


def test_a_second_vendor_cannot_take_an_address(owner, modern_vendor):
    agent = published(owner, modern_vendor)
    with ContextVendor() as other:
        endpoint = make_endpoint(protocol="mcp", url=other.url)
        run_enumeration(endpoint)
        known_resource = Tool.objects.get(endpoint=endpoint, kind="resource")
        with pytest.raises(Exception, match="address") as caught:
            pins.pin_tool(agent, actor=owner, tool=known_resource, alias="other_rules")
    assert caught.value.code == "address_taken"


def test_no_export_shows_them_and_the_document_lock_file_and_diff_name_them(owner, modern_vendor):
    agent = published(owner, modern_vendor, "tool")
    client = runtime(owner, agent)
    for tool in Tool.objects.exclude(kind="tool"):
        pins.pin_tool(agent, actor=owner, tool=tool, alias="recommend" if tool.kind == "prompt" else "")
    first, second = agent.releases.get(), publishing.publish(agent, actor=owner, channel="live")
    for format_ in ("anthropic", "openai-responses", "mcp", "gemini"):
        assert publishing.export(first, format_)[0] == publishing.export(second, format_)[0]
    document = release_document.decode(second.document)
    kinds = [item.signature.kind for item in document.context]
    assert sorted(kinds) == ["prompt", "resource", "resource_template"]
    assert "context" not in msgspec.json.decode(first.document)
    assert (second.tool_count, publishing.verify(second)) == (1, [])
    path = f"/api/v1/agents/desk/releases/{second.number}/"
    lock = client.get(f"{path}lock/").json()
    assert sorted(entry["kind"] for entry in lock["context"]) == sorted(kinds)
    assert [entry["name"] for entry in lock["tools"]] == ["lend"]
    client.force_authenticate(owner)
    diff = client.get(f"{path}diff/").json()
    assert sorted(member["name"] for member in diff["context"]) == ["House_rules", "Shelf", "recommend"]
    assert (diff["tools"], {member["mark"] for member in diff["context"]}) == ([], {"added"})


def test_pins_of_each_kind_have_a_list_over_rest(owner, modern_vendor):
    agent = published(owner, modern_vendor, "tool")
    client = runtime(owner, agent)
    client.force_authenticate(owner)
    path = "/api/v1/agents/desk"
    prompt, resource = (Tool.objects.get(kind=kind) for kind in ("prompt", "resource"))
    assert client.post(f"{path}/resources/", {"tool": prompt.pk}, format="json").status_code == 400
    answer = client.post(f"{path}/prompts/", {"tool": prompt.pk, "alias": "recommend"}, format="json")
    assert (answer.status_code, answer.json()["kind"]) == (201, "prompt")
    assert client.post(f"{path}/resources/", {"tool": resource.pk}, format="json").status_code == 201
    names = {
        part: [pin["name"] for pin in client.get(f"{path}/{part}/").json()["results"]]
        for part in ("pins", "prompts", "resources")
    }
    assert names == {"pins": ["lend"], "prompts": ["recommend"], "resources": ["House_rules"]}
    pin = answer.json()["id"]
    assert client.delete(f"{path}/pins/{pin}/").status_code == 204
    assert client.get(f"{path}/prompts/").json()["results"] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_uses_them(owner, modern_vendor, served_at, mode):
    agent = published(owner, modern_vendor)

    async def visit(client):
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompt = await client.get_prompt("recommend", {"reader": "Ada"})
        contents = [await client.read_resource(uri) for uri in ("library://rules", "library://shelves/a")]
        return prompts, resources, templates, prompt, contents

    prompts, resources, templates, prompt, contents = visited(served_at(), key_for(owner, agent), mode, visit)
    assert [item.name for item in (*prompts, *resources, *templates)] == ["recommend", "House_rules", "Shelf"]
    assert prompt.messages[0].content.text == "<b>Recommend</b> a book to Ada."
    assert [str(content.contents[0].uri) for content in contents] == [
        "library://rules",
        "library://shelves/a",
    ]


def test_the_pages_of_the_agent_and_of_its_release_show_them(owner, modern_vendor, client):
    agent = published(owner, modern_vendor)
    client.force_login(owner)
    pins_of_context = agent.pins.live().exclude(tool__kind="tool")
    pages = ["/agents/desk/", "/agents/desk/releases/1/"]
    for page in pages:
        html = client.get(page, {"show": "overview"}).content.decode().replace("<wbr>", "")
        assert all(pin.name in html for pin in pins_of_context), page
    for pin in pins_of_context:
        page = client.get(f"/agents/desk/pins/{pin.pk}/")
        assert (page.status_code, f"/pins/{pin.pk}/shown/" in page.content.decode()) == (200, False)
    modern_vendor.lists["prompts/list"] = [PROMPT | {"description": "Suggests a book."}]
    run_enumeration(pins_of_context[0].tool.endpoint)
    prompt = pins_of_context.get(tool__kind="prompt")
    assert "recommend" in client.get("/agents/desk/upgrades/").content.decode()
    pins.move_pin(prompt, actor=owner, ordinal=2)
    page = client.get("/agents/desk/publish/").content.decode()
    assert "1 prompt or resource" in page
    assert "Suggests" in page
    api_client = runtime(owner, agent)
    api_client.force_authenticate(owner)
    refused = api_client.get(f"/api/v1/agents/desk/pins/{prompt.pk}/shown/", {"format": "anthropic"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_a_tool")
    assert api_client.get("/api/v1/agents/desk/upgrades/").status_code == 200
    assert api_client.get("/api/v1/agents/desk/draft/").json()["context"][0]["mark"] == "changed"
