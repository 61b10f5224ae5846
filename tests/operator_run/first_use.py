"""The first use of an installation over REST: connect a vendor, publish an agent and call a tool."""

import json
import time
from dataclasses import dataclass
from typing import Any, cast

import urllib3

RUN_SECONDS = 90


class UnexpectedAnswerError(Exception):
    """The installation answered something else than a first user needs."""


@dataclass(frozen=True, slots=True)
class Published:
    """The slug of the agent that the first user has made, and the digest of its release."""

    agent: str
    digest: str


class Installation:
    """The REST interface of one installation.

    url: as its users open it. authorities: a file of certificates. key: an API key.
    """

    def __init__(self, url: str, authorities: str, key: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(ca_certs=authorities, retries=False, timeout=30)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send one request and return the answer. Raises UnexpectedAnswerError for a status that refuses."""
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(method, f"{self._url}{path}", body=data, headers=self._headers)
        if answer.status not in (200, 201, 202):
            raise UnexpectedAnswerError(f"{method} {path}: {answer.status} {answer.data[:600]!r}")
        return cast("dict[str, Any]", json.loads(answer.data))

    def connect_vendor(self, name: str, protocol: str, url: str) -> int:
        """Connect a vendor, read its tools and return the number of tools."""
        vendor = self.request("POST", "/api/v1/vendors/", {"name": name})
        payload = {"vendor": vendor["slug"], "protocol": protocol, "url": url}
        endpoint = self.request("POST", "/api/v1/endpoints/", payload)
        run = self.request("POST", f"/api/v1/endpoints/{endpoint['id']}/enumerate/")["run"]
        deadline = time.monotonic() + RUN_SECONDS
        while (state := self.request("GET", f"/api/v1/runs/{run}/"))["status"] in ("queued", "running"):
            if time.monotonic() > deadline:
                raise UnexpectedAnswerError(f"run {run} has not ended within {RUN_SECONDS} s: {state}")
            time.sleep(0.5)
        if state["status"] != "succeeded":
            raise UnexpectedAnswerError(f"run {run}: {state}")
        return int(state["seen"])

    def publish(self, agent: str, tool: str) -> Published:
        """Make an agent with one pinned tool, publish it and promote the release to `live`."""
        slug = self.request("POST", "/api/v1/agents/", {"name": agent})["slug"]
        row = self.request("GET", f"/api/v1/tools/?q={tool}")["results"][0]
        pin = {"tool": row["id"], "ordinal": row["ordinal"]}
        self.request("POST", f"/api/v1/agents/{slug}/pins/", pin)
        release = self.request(
            "POST", f"/api/v1/agents/{slug}/releases/", {"note": "First", "channel": "live"}
        )
        return Published(slug, release["digest"])

    def call(self, agent: str, tool: str, arguments: dict[str, object]) -> object:
        """Run a tool of the live release and return its outputs. Raises UnexpectedAnswerError."""
        path = f"/api/v1/agents/{agent}/releases/live/tools/{tool}/invoke/"
        answer = self.request("POST", path, {"arguments": arguments})
        if answer["outcome"] != "ok":
            raise UnexpectedAnswerError(f"POST {path}: {answer}")
        return answer["outputs"]
