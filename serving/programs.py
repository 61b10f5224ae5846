"""Programs that use a release: for each kit, a whole program to copy and the packages that it needs.

docs/runtimes.md explains them. tests/serving/test_programs.py runs each as the page shows it.
"""

from collections.abc import Iterator

from protocols.server import Snippet

_QUESTION = "What can you do for me?"

_HEAD = """\
import json
import os

import httpx2
{imports}

AGENT = "{agent}"
HEADERS = {{"Authorization": "Bearer " + os.environ["PEGBOARD_TOKEN"]}}
pegboard = httpx2.Client(headers=HEADERS, timeout=150)
# The number of the release, so that a conversation keeps its tools.
number = pegboard.get(f"{{AGENT}}/releases/{release}/").raise_for_status().json()["number"]
RELEASE = f"{{AGENT}}/releases/{{number}}"
tools = pegboard.get(f"{{RELEASE}}/tools/?format={format}").raise_for_status().json()


def run(name, arguments):
    invoke = f"{{RELEASE}}/tools/{{name}}/invoke/?format={format}"
    return pegboard.post(invoke, json={{"arguments": arguments}}).text


"""

_OPENAI_RESPONSES = """\
model = OpenAI()
items = [{"role": "user", "content": "QUESTION"}]
while True:
    response = model.responses.create(model="gpt-5", input=items, tools=tools)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        output = run(call.name, json.loads(call.arguments))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    if not calls:
        break
print(response.output_text)
"""

_OPENAI_CHAT = """\
model = OpenAI()
messages = [{"role": "user", "content": "QUESTION"}]
while True:
    reply = model.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
    messages.append(reply)
    if not reply.tool_calls:
        break
    for call in reply.tool_calls:
        output = run(call.function.name, json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
print(reply.content)
"""

_ANTHROPIC = """\
model = Anthropic()
messages = [{"role": "user", "content": "QUESTION"}]
while True:
    reply = model.messages.create(model="claude-sonnet-4-5", max_tokens=2048, messages=messages, tools=tools)
    messages.append({"role": "assistant", "content": reply.content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        break
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": run(call.name, call.input)}
        for call in calls
    ]
    messages.append({"role": "user", "content": results})
print(reply.content[-1].text)
"""

_GEMINI = """\
model = genai.Client()
config = types.GenerateContentConfig(tools=[types.Tool(**tools)])
contents = [types.Content(role="user", parts=[types.Part(text="QUESTION")])]
while True:
    reply = model.models.generate_content(model="gemini-2.5-pro", contents=contents, config=config)
    contents.append(reply.candidates[0].content)
    if not reply.function_calls:
        break
    parts = [
        types.Part.from_function_response(name=call.name, response=json.loads(run(call.name, call.args)))
        for call in reply.function_calls
    ]
    contents.append(types.Content(role="user", parts=parts))
print(reply.text)
"""

_LANGCHAIN = """\
def as_tool(name, description, inputs):
    def call(**arguments):
        return run(name, arguments)

    return StructuredTool.from_function(call, name=name, description=description, args_schema=inputs)


kit = [as_tool(tool["name"], tool["description"], tool["inputs"]) for tool in tools["tools"]]
agent = create_agent("openai:gpt-5", kit)
answer = agent.invoke({"messages": [("user", "QUESTION")]})
print(answer["messages"][-1].text)
"""

_PYDANTIC_AI = """\
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

HEADERS = {"Authorization": "Bearer " + os.environ["PEGBOARD_TOKEN"]}

agent = Agent("openai:gpt-5", toolsets=[MCPToolset("SERVER", headers=HEADERS)])
print(agent.run_sync("QUESTION").output)
"""

_OPENAI_AGENTS = """\
import asyncio
import os

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp

HEADERS = {"Authorization": "Bearer " + os.environ["PEGBOARD_TOKEN"]}


async def main():
    params = {"url": "SERVER", "headers": HEADERS, "timeout": 150}
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=150) as server:
        agent = Agent(name="Assistant", mcp_servers=[server])
        print((await Runner.run(agent, "QUESTION")).final_output)


asyncio.run(main())
"""

# The kit, its packages, its imports, the format of its tools, and its program after the tools are read.
_OVER_REST = (
    (
        "OpenAI, Responses",
        "openai httpx2",
        "from openai import OpenAI",
        "openai-responses",
        _OPENAI_RESPONSES,
    ),
    ("OpenAI, Chat Completions", "openai httpx2", "from openai import OpenAI", "openai-chat", _OPENAI_CHAT),
    ("Anthropic", "anthropic httpx2", "from anthropic import Anthropic", "anthropic", _ANTHROPIC),
    (
        "Gemini",
        "google-genai httpx2",
        "from google import genai\nfrom google.genai import types",
        "gemini",
        _GEMINI,
    ),
    (
        "LangChain",
        "langchain langchain-openai httpx2",
        "from langchain.agents import create_agent\nfrom langchain_core.tools import StructuredTool",
        "json-schema",
        _LANGCHAIN,
    ),
)
_OVER_MCP = (
    ("Pydantic AI", '"pydantic-ai-slim[openai,mcp]"', _PYDANTIC_AI),
    ("OpenAI Agents", "openai-agents", _OPENAI_AGENTS),
)


def write_curl(agent: str, release: str) -> Snippet:
    """Return the command that lists the tools of a release. agent: its address in REST."""
    address = f"{agent}/releases/{release}/tools/?format=json-schema"
    return Snippet("curl", "in a terminal", f'curl -H "Authorization: Bearer $PEGBOARD_TOKEN" "{address}"')


def write_programs(agent: str, release: str, mcp_server: str) -> Iterator[Snippet]:
    """Yield a program for each kit. agent: its address in REST. mcp_server: the address of the release."""
    for kit, packages, imports, format_name, text in _OVER_REST:
        head = _HEAD.format(imports=imports, agent=agent, release=release, format=format_name)
        if "json." not in text:
            head = head.removeprefix("import json\n")
        yield Snippet(kit, f"pip install {packages}", head + text.replace("QUESTION", _QUESTION))
    for kit, packages, text in _OVER_MCP:
        program = text.replace("QUESTION", _QUESTION).replace("SERVER", mcp_server)
        yield Snippet(kit, f"pip install {packages}", program)
