import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from demo import VENDORS
from demo.__main__ import published_tools_of
from demo.a2t_server import A2tServer


@dataclass
class Client:
    port: int
    status: int = 0
    headers: http.client.HTTPMessage | None = None

    def send(self, method, path, document=None, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            content = body if document is None else json.dumps(document).encode()
            connection.request(method, path, body=content, headers=headers or {})
            reply = connection.getresponse()
            self.status, self.headers = reply.status, reply.headers
            return reply.read()
        finally:
            connection.close()

    def get(self, path, **options):
        return json.loads(self.send("GET", path, **options))

    def post(self, path, document=None, **options):
        return json.loads(self.send("POST", path, document, **options))

    def tools(self, path="/tools", limit=100):
        """Return all tools listed at `path`, page after page."""
        items, cursor = [], ""
        while True:
            page = self.get(f"{path}?pageLimit={limit}&pageCursor={cursor}")
            items += page["items"]
            cursor = page["paging"].get("next")
            if not cursor:
                return items

    def tool(self, name):
        return next(t for t in self.tools() if t["name"] == name)

    def versions(self, name):
        return self.tools(f"/tools/{self.tool(name)['toolId']}/versions")

    def invoke(self, name, arguments, version=None):
        tool_id = self.tool(name)["toolId"]
        path = (
            f"/tools/{tool_id}:invoke" if version is None else f"/tools/{tool_id}/versions/{version}:invoke"
        )
        input_parameters = [{"name": n, "value": v} for n, v in arguments.items()]
        answer = self.post(path, {"name": name, "input_parameters": input_parameters})
        if self.status != 200:
            return answer
        return {o["name"]: o["value"] for o in answer["output_parameters"]}


def running(vendor, state=None) -> Iterator[Client]:
    server = A2tServer(0, vendor, published_tools_of(vendor, state))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Client(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=[v for v in VENDORS if v.protocol == "a2t"], ids=lambda v: v.slug)
def vendor(request):
    return request.param


@pytest.fixture
def client(vendor):
    yield from running(vendor)


@pytest.fixture
def pharmacy():
    yield from running(VENDORS[0])


@pytest.fixture
def travel():
    yield from running(VENDORS[2])
