"""The six doors through which a tool of a release runs, and the result that each of them reports.

A `Door` sends one and the same `Ask` in its protocol, and reads the answer into a line such as `409
confirm_needed`: the status of HTTP, and what the protocol has for a program to go by.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rest_framework.test import APIClient

from designer.models import EffectiveVersion
from execution.calls import invocation

META = "io.modelcontextprotocol/"
FORMS = {"elicitation": {"form": {}}}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """`raw` replaces the body of the request; `version` is one of the tool, `speaks` one of the
    protocol; `below` follows the release in the address. `user` is for whom the tool runs. A call that is not
    waited for is sent by this process before its answer is read to the end."""

    tool: str = "sky"
    arguments: Any = field(default_factory=lambda: {"zip": "0150"})
    id: str = ""
    is_confirmed: bool = False
    slug: str = "desk"
    named: str = "live"
    below: str = ""
    version: str = ""
    speaks: str = ""
    method: str = "POST"
    mode: str = "wait"
    user: str = ""
    raw: bytes | None = None


@dataclass(frozen=True)
class Heard:
    said: str
    outputs: Mapping[str, Any] | None = None
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Door:
    name: str
    # As the address has it.
    protocol: str = ""

    def ask(self, client: APIClient, ask: Ask) -> Heard:
        path, headers, body = self.request(ask)
        return self.send(client, ask, path, headers, body)

    def send(self, client: APIClient, ask: Ask, path: str, headers: Mapping[str, str], body: Any) -> Heard:
        raw = json.dumps(body).encode() if ask.raw is None else ask.raw
        headers = {**headers, **({"Pegboard-On-Behalf-Of": ask.user} if ask.user else {})}
        answer = client.generic(ask.method, path, raw, content_type="application/json", headers=headers)
        if ask.mode != "wait":
            invocation.perform_due_calls()
        if ask.mode == "stream":
            assert answer["Content-Type"].startswith("text/event-stream"), answer
            *_, last = (part for part in answer.streaming_content if b"data: " in part)
            reply = self.of_event(json.loads(last.partition(b"data: ")[2]))
            return replace(reply, said=reply.said.strip(), headers=answer.headers)
        assert answer["Content-Type"].startswith("application/json"), answer
        document = answer.json()
        reply = self.parse_reply(answer.status_code, document)
        if answer.status_code == 401:
            assert answer["WWW-Authenticate"].startswith("Bearer")
        if answer.status_code == 429:
            assert answer["Retry-After"], document
        return replace(reply, said=reply.said.strip(), document=document, headers=answer.headers)

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        """The path, the headers and the body."""
        raise NotImplementedError

    def parse_reply(self, status: int, document: Any) -> Heard:
        raise NotImplementedError

    def of_event(self, document: Any) -> Heard:
        """Return the outcome in the last event of a stream."""
        raise NotImplementedError

    def answer(self, client: APIClient, ask: Ask, before: Any, answers: Mapping[str, Any]) -> Heard:
        """Resume a call that waits for answers. None declines."""
        raise NotImplementedError

    def _root(self, ask: Ask) -> str:
        return f"/serve/{ask.slug}/{ask.named}{ask.below}/{self.protocol or self.name}"


class Rest(Door):
    name = "rest"

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        body = {"arguments": ask.arguments, "confirm": ask.is_confirmed}
        if ask.id:
            body["id"] = str(uuid.uuid5(uuid.NAMESPACE_OID, ask.id))
        if ask.mode != "wait":
            body["mode"] = ask.mode
        if ask.user:
            body["on_behalf_of"] = {"id": ask.user}
        path = f"/api/v1/agents/{ask.slug}/releases/{ask.named}{ask.below}/tools/{ask.tool}/invoke/"
        return path, {}, body

    def parse_reply(self, status: int, document: Any) -> Heard:
        if status >= 400:
            assert document["message"]
            return Heard(f"{status} {document['code']}")
        error = document["error"] or {}
        assert not error or error["message"]
        line = f"{status} {document['outcome']} {error.get('code', '')}"
        return Heard(line, document["outputs"] if document["outcome"] == "ok" else None)

    def of_event(self, document: Any) -> Heard:
        return self.parse_reply(200, document)

    def answer(self, client: APIClient, ask: Ask, before: Any, answers: Mapping[str, Any]) -> Heard:
        return self.send(client, ask, before["resume"], {}, {"answers": answers})


class A2T(Door):
    name = "a2t"

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        input_parameters = [{"name": name, "value": value} for name, value in ask.arguments.items()]
        version = f"/versions/{ask.version}" if ask.version else ""
        headers = {"Idempotency-Key": ask.id} if ask.id else {}
        if ask.is_confirmed:
            headers["Pegboard-Confirm"] = "true"
        path = f"{self._root(ask)}/tools/{_uuid_of(ask)}{version}:invoke"
        return path, headers, {"input_parameters": input_parameters}

    def parse_reply(self, status: int, document: Any) -> Heard:
        if status == 200:
            outputs = {output["name"]: output["value"] for output in document["output_parameters"]}
            return Heard("200", outputs)
        assert document["message"]
        return Heard(f"{status} {document['code']}")


class OXP(Door):
    name = "oxp"

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        row = _version_of(ask)
        version = f"@{ask.version}.0.0" if ask.version else ""
        call = {"tool_id": f"{row.dotted_name if row else 'Kit.none'}{version}", "input": ask.arguments}
        headers = {"OXP-Version": ask.speaks} if ask.speaks else {}
        if ask.is_confirmed:
            headers["Pegboard-Confirm"] = "true"
        more = {"call_id": ask.id} if ask.id else {}
        if ask.user:
            more["context"] = {"user_id": ask.user}
        return f"{self._root(ask)}/tools/call", headers, call | more

    def parse_reply(self, status: int, document: Any) -> Heard:
        if status == 200 and document["success"]:
            value = document.get("value", {})
            return Heard("200 success", value)
        error = document["error"] if status == 200 else document
        assert error["message"]
        prefix = "failure " if status == 200 else ""
        return Heard(f"{status} {prefix}{error.get('developer_message', '')}")


class ACP(Door):
    name = "acp"

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        headers = {"Idempotency-Key": ask.id} if ask.id else {}
        if ask.is_confirmed:
            headers["Pegboard-Confirm"] = "true"
        body = {"agent_id": _uuid_of(ask), "input": ask.arguments}
        where = {"wait": "/wait", "async": "", "stream": "/stream"}[ask.mode]
        return f"{self._root(ask)}/runs{where}", headers, body

    def parse_reply(self, status: int, document: Any) -> Heard:
        if status != 200:
            assert isinstance(document, str)
            assert document
            return Heard(str(status))
        if "output" not in document:
            return Heard(f"200 {document['status']}")
        output = document["output"]
        assert output["type"] == "result" or output.get("description") or output["interrupt"]["message"]
        return Heard(f"200 {output['type']} {output.get('errcode', '')}", output.get("values"))

    def of_event(self, document: Any) -> Heard:
        assert document["type"] == "values"
        return Heard("200 result" if document["status"] == "success" else "200", document["values"])

    def answer(self, client: APIClient, ask: Ask, before: Any, answers: Mapping[str, Any]) -> Heard:
        ((name, answer),) = answers.items()
        path = f"{self._root(ask)}/runs/{before['run']['run_id']}"
        body = {"interrupt_type": name, **answer} if answer is not None else None
        first = self.send(client, ask, path, {}, body)
        if first.said.startswith("4"):
            return first
        waited = f"{self._root(ask)}/runs/{first.document['run_id']}/wait"
        return self.send(client, replace(ask, method="GET", raw=b""), waited, {}, None)


class MCP(Door):
    name = "mcp"
    protocol = "mcp"

    def request(self, ask: Ask) -> tuple[str, Mapping[str, str], Any]:
        return self._message(ask, {"name": ask.tool, "arguments": ask.arguments})

    def _message(self, ask: Ask, params: dict[str, Any]) -> tuple[str, Mapping[str, str], Any]:
        version = ask.speaks or "2026-07-28"
        params["_meta"] = {f"{META}protocolVersion": version, f"{META}clientCapabilities": FORMS}
        if ask.is_confirmed:
            params["inputResponses"] = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        headers = {
            "MCP-Protocol-Version": version,
            "Mcp-Method": "tools/call",
            "Mcp-Name": ask.tool,
            **({"Idempotency-Key": ask.id} if ask.id else {}),
        }
        return self._root(ask), headers, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    def parse_reply(self, status: int, document: Any) -> Heard:
        if "error" in document:
            error = document["error"]
            assert error["message"]
            return Heard(f"{status} {error['code']} {(error.get('data') or {}).get('code', '')}")
        result = document["result"]
        if result.get("resultType") == "input_required":
            return Heard(f"{status} input_required")
        assert result["content"]
        about = result.get("_meta", {})
        if result.get("isError"):
            assert "".join(block["text"] for block in result["content"])
            return Heard(f"{status} isError {about.get('pegboard/code', '')}")
        return Heard(f"{status}", result.get("structuredContent"))

    def answer(self, client: APIClient, ask: Ask, before: Any, answers: Mapping[str, Any]) -> Heard:
        responses = {
            name: {"action": "decline"} if answer is None else {"action": "accept", "content": answer}
            for name, answer in answers.items()
        }
        goes_on = {"requestState": before["result"]["requestState"], "inputResponses": responses}
        return self.send(
            client, ask, *self._message(ask, {"name": ask.tool, "arguments": ask.arguments, **goes_on})
        )


class MCPOfHandshake(MCP):
    """A client of the older era that cannot be asked; tests/serving/serve/test_mcp.py has one that can."""

    name = "mcp of the handshake"

    def _message(self, ask: Ask, params: dict[str, Any]) -> tuple[str, Mapping[str, str], Any]:
        headers = {"MCP-Protocol-Version": ask.speaks or "2025-11-25"}
        if ask.id:
            headers["Idempotency-Key"] = ask.id
        return self._root(ask), headers, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


DOORS: tuple[Door, ...] = (Rest(), A2T(), OXP(), ACP(), MCP(), MCPOfHandshake())


def _version_of(ask: Ask) -> EffectiveVersion | None:
    # Rows of one tool for an agent that has that name; unknown names have none.
    rows = EffectiveVersion.objects.filter(dotted_name__iendswith=f".{ask.tool}").order_by("-pk")
    return rows.filter(agent__slug=ask.slug).first() or rows.first()


def _uuid_of(ask: Ask) -> str:
    row = _version_of(ask)
    return str(row.uuid if row else uuid.uuid4())
