"""The programs of the connect page of a release, each run unchanged with the package that it names.

The model's replies are scripted. The release, the vendor and all that lies between are real.
"""

import html
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from designer.agents import agent_keys, agents
from designer.models import Receipt
from designer.pins import pins
from designer.releases import publishing
from people.models import Role, User
from tests import one_door
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, json_reply

pytestmark = pytest.mark.django_db(transaction=True)

TOOL, ARGUMENTS = "check_drug_interactions", {"medicines": "lisinopril, ibuprofen"}
SAID = "Ibuprofen may weaken lisinopril."
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def chat_completion(text: str | None) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}}
    message = {"role": "assistant", "content": text} | ({} if text else {"tool_calls": [call]})
    choice = {"index": 0, "message": message, "finish_reason": "stop" if text else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    top = {"id": "r", "object": "chat.completion", "created": 1, "model": "gpt-5"}
    return top | {"choices": [choice], "usage": usage}


def response(reply_text: str | None) -> dict[str, Any]:
    text = {"type": "output_text", "text": reply_text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    call = {"id": "f", "type": "function_call", "call_id": "c1", "name": TOOL, "status": "completed"}
    output = message if reply_text else call | {"arguments": json.dumps(ARGUMENTS)}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    top = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed"}
    choices = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return top | choices | {"output": [output], "usage": USAGE | details}


def message(reply_text: str | None) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c1", "name": TOOL, "input": ARGUMENTS}
    content = {"type": "text", "text": reply_text} if reply_text else call
    top = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "usage": USAGE}
    return top | {"content": [content], "stop_reason": "end_turn" if reply_text else "tool_use"}


def candidate(text: str | None) -> dict[str, Any]:
    part = {"text": text} if text else {"functionCall": {"name": TOOL, "args": ARGUMENTS}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


# By how the address of a request ends.
REPLIES = {
    "/chat/completions": chat_completion,
    "/responses": response,
    "/messages": message,
    ":generateContent": candidate,
}


def scripted_model(line, request):
    """Calls the shown tool first; then it returns the tool's answer."""
    answered = next(reply for ends, reply in REPLIES.items() if request.path.endswith(ends))
    body = request.body.decode()
    assert TOOL in body
    return json_reply(answered("They interact: " + SAID if SAID in body else None))(line, request)


@pytest.fixture
def front_desk():
    owner = make_user(Role.DESIGNER, username="ada")
    answer = {"output_parameters": [{"name": "finding", "value": SAID}]}
    with HostileVendor(json_reply(answer)) as vendor:
        inputs = (make_parameter("medicines"),)
        signature = make_signature(name=TOOL, inputs=inputs, outputs=(make_parameter("finding"),))
        tool = make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol="a2t"))
        agent = agents.create_agent(actor=owner, name="Front desk", slug="front-desk")
        pins.pin_tool(agent, actor=owner, tool=tool, alias=TOOL)
        publishing.publish(agent, actor=owner, channel="live")
        scopes = ["runtime", "invoke"]
        key = agent_keys.issue(owner, actor=owner, name="Desk key", scopes=scopes, agents=[agent])[1]
        yield vendor, key


def kit_environment(model: HostileVendor, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_API_KEY": "of-no-use",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "of-no-use",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_API_KEY": "of-no-use",
        **more,
    }


def expect_run(program: str, vendor: HostileVendor, **environment: str) -> None:
    """Run a program with a scripted model, and expect that it has run the tool."""
    with one_door.other_side(), HostileVendor(scripted_model) as model:
        command, variables = [sys.executable, "-c", program], kit_environment(model, **environment)
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert SAID in done.stdout, done.stderr
    (call,) = vendor.requests
    assert call.json()["input_parameters"] == [{"name": "medicines", "value": ARGUMENTS["medicines"]}]
    assert {"serve/mcp", "invoke"} & set(Receipt.objects.values_list("surface", flat=True))


PACKAGES = {
    "OpenAI, Responses": "openai",
    "OpenAI, Chat Completions": "openai",
    "Anthropic": "anthropic",
    "Gemini": "google.genai",
    "LangChain": "langchain_openai",
    "Pydantic AI": "pydantic_ai",
    "OpenAI Agents": "agents",
}


@pytest.fixture
def connect_page(front_desk, live_server):
    """The page of the release after its button has made a key, with the vendor and the key."""
    browser = Client(HTTP_HOST=live_server.url.removeprefix("http://"))
    browser.force_login(User.objects.get(username="ada"))
    return front_desk[0], browser.post("/agents/front-desk/releases/1/connect/")


def test_the_page_has_a_program_for_each_kit_and_names_its_packages(connect_page):
    programs = connect_page[1].context["programs"]
    assert [one.client for one in programs] == ["curl", *PACKAGES]
    assert all(one.where.startswith("pip install ") for one in programs[1:])


@pytest.mark.parametrize("kit", PACKAGES)
def test_a_program_of_the_page_runs(kit, connect_page):
    pytest.importorskip(PACKAGES[kit], reason=f"the package of {kit} is not installed")
    vendor, page = connect_page
    (program,) = [one.text for one in page.context["programs"] if one.client == kit]
    expect_run(program, vendor, PEGBOARD_TOKEN=page.context["plain"])


def test_the_command_of_the_page_runs_in_a_shell(connect_page):
    _, page = connect_page
    command = page.context["programs"][0].text
    with one_door.other_side():
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == [TOOL]


def test_the_program_of_the_mcp_package_runs_and_waits_as_long_as_the_others(front_desk, live_server):
    _, key = front_desk
    browser = Client(HTTP_HOST=live_server.url.removeprefix("http://"))
    browser.force_login(User.objects.get(username="ada"))
    page = browser.get("/agents/front-desk/releases/1/connect/").content.decode()
    blocks = re.findall(r'<pre class="source"[^>]*>(.*?)</pre>', page, re.DOTALL)
    (program,) = [text for block in blocks if "import Client" in (text := html.unescape(block))]
    with one_door.other_side():
        environment = {"PATH": os.environ["PATH"], "PEGBOARD_TOKEN": key}
        line = [sys.executable, "-c", program]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [TOOL], done.stderr
    (waits,) = re.findall(r"timeout=(\d+)", program)
    assert set(re.findall(r"Client\(.*timeout=(\d+)", html.unescape(page))) == {waits}
