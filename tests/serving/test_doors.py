"""One table of situations, run through all six doors: the outcome of each is stated once, with the rows and
requests that it leaves, and its form in each protocol.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from django.db import transaction
from django.urls import get_resolver, reverse
from django.utils import timezone
from rest_framework.test import APIClient

from catalog.models import Call, Finding, Tool, UserGrant
from catalog.models.circuit import ToolCircuit
from core import rate_limits
from designer.agents import agents
from designer.models import Pin, Retirement
from designer.pins import pins, tunings
from designer.releases import publishing, retiring
from execution.calls import invocation, places
from execution.calls.places import CallPlaces
from execution.user_grants import providers
from people import api_keys, users
from people.models import ApiKey, AuditEntry, Role
from protocols.signature import AllowedValue, Annotations, Requirements
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import make_client
from tests.execution.calls.test_odd_replies import odd_reply
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, Request, Script, json_reply, reply, then_waits
from tests.protocols.openapi import documents
from tests.serving.doors import DOORS, Ask, Door, MCPOfHandshake
from tests.serving.test_calls import runtime

pytestmark = pytest.mark.django_db

# The result in each door's form, in their order.
WORDS = {
    "ok": ("200 ok", "200", "200 success", "200 result", "200"),
    "transfer": ("200 transfer", "200", "200 success", "", "200"),
    "unfit": ("200 invalid_arguments {code}", "400 {code}", "422", "422", "200 isError {code}"),
    "unfit for the vendor": (
        *("200 invalid_arguments {code}", "400 {code}", "422"),
        *("200 error 5", "200 isError {code}"),
    ),
    "tool_error": (
        *("200 tool_error {code}", "424 {code}", "200 failure {code}"),
        *("200 error 1", "200 isError {code}"),
    ),
    "unavailable": (
        *("200 unavailable {code}", "424 {code}", "200 failure {code}"),
        *("200 error 2", "200 isError {code}"),
    ),
    "unavailable for now": (
        *("200 unavailable {code}", "503 {code}", "200 failure {code}"),
        *("200 error 2", "200 isError {code}"),
    ),
    "refused": (
        *("200 refused {code}", "409 {code}", "400 {code}"),
        *("200 error 3", "200 isError {code}"),
    ),
    "needs_authorization": (
        *("200 needs_authorization {code}", "409 {code}", "400 {code}"),
        *("200 error 4", "200 isError {code}"),
    ),
    "needs_input": (
        *("200 needs_input {code}", "409 {code}", "200 failure {code}"),
        *("200 interrupt", "200 input_required"),
    ),
    "too long": ("200 ok", "424 {code}", "200 failure {code}", "200 error 6", "200 isError {code}"),
    "misfit": ("200 ok", "200", "200 success", "200 result", "200 isError {code}"),
    # Refused before any protocol is involved.
    "401": ("401 {code}", "401 {code}", "400 {code}", "401", "401 -32000 {code}"),
    "403": ("403 {code}", "403 {code}", "400 {code}", "403", "403 -32000 {code}"),
    "404": ("404 {code}", "404 {code}", "400 {code}", "404", "404 -32000 {code}"),
    "410": ("410 {code}", "410 {code}", "400 {code}", "410", "410 -32000 {code}"),
    "413": ("413 {code}", "413 {code}", "413 {code}", "413", "413 -32600 {code}"),
    "429": ("429 {code}", "429 {code}", "429 {code}", "429", "429 -32000 {code}"),
    # By the operation that all of them ask.
    "conflict": ("409 {code}", "409 {code}", "400 {code}", "409", "200 isError {code}"),
    "bad": ("400 {code}", "400 {code}", "400 {code}", "422", "200 isError {code}"),
    "busy": ("503 {code}", "503 {code}", "400 {code}", "503", "503 -32000 {code}"),
    "unknown tool": ("404 not_found", "404 not_found", "400 not_found", "404", "400 -32602"),
    "in the background": ("202 None", "", "", "200 pending", ""),
    "not json": ("400 {code}", "400 {code}", "400 {code}", "422", "400 -32700 {code}"),
}


# Results with a row of a call.
RUN = {
    *("ok", "unfit for the vendor", "tool_error", "unavailable", "unavailable for now", "refused"),
    *("needs_authorization", "needs_input", "too long", "misfit"),
}
OUTPUTS = {"answer": "fair"}


# The handshake era of MCP, where it is not as the newer one: its clients are not asked, and the status of
# HTTP is about the transport alone.
OF_HANDSHAKE = {"needs_input": "200 isError {code}", "unknown tool": "200 -32602"}


def door_says(door: Door, comes: str) -> str:
    if isinstance(door, MCPOfHandshake) and comes in OF_HANDSHAKE:
        return OF_HANDSHAKE[comes]
    names = [door.protocol or door.name for door in DOORS]
    return WORDS[comes][names.index(door.protocol or door.name)]


@dataclass
class World:
    """An agent whose release shows one tool, `sky`, of a vendor whose replies the test sets."""

    owner: Any
    vendor: HostileVendor
    patch: pytest.MonkeyPatch
    signature: dict[str, Any] = field(default_factory=dict)
    protocol: str = "a2t"

    def __post_init__(self) -> None:
        self.vendor.script = odd_reply(self.protocol, OUTPUTS if self.protocol == "oxp" else "fair")
        self.vendor.requests.clear()
        self.agent = agents.create_agent(actor=self.owner, name="desk", slug="desk")
        fields = {"inputs": INPUTS, "outputs": (make_parameter("answer"),), **self.signature}
        endpoint = make_endpoint(url=self.vendor.url, protocol=self.protocol)
        tool = make_tool(make_signature("sky", **fields), endpoint=endpoint)
        self.pin: Pin = pins.pin_tool(self.agent, actor=self.owner, tool=tool, alias="sky")
        self.publish()
        self.client = runtime(self.owner, self.agent)

    def publish(self) -> None:
        publishing.publish(self.agent, actor=self.owner, channel="live")

    @property
    def runs(self) -> list[Request]:
        """Return the requests to the vendor, without the preliminary ones of its protocol."""
        requests = self.vendor.requests
        return [r for r in requests if b'"jsonrpc"' not in r.body or r.json()["method"] == "tools/call"]

    @property
    def key(self) -> ApiKey:
        return self.owner.api_keys.get()


UNITS = (AllowedValue("METRIC"), AllowedValue("US"))
INPUTS = (
    make_parameter("zip", max_length=5),
    make_parameter("days", type="int", required=False, min=1, max=14),
    make_parameter("units", type="enum", required=False, allowed_values=UNITS),
    make_parameter("trace", required=False),
)
Prepare = Callable[[World], None]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`comes` is a key of WORDS, and `but` the differing results of single doors. Rows and requests are
    those of one door; without a statement, a result that begins with “200” means one call at every door
    and nothing for the rest."""

    comes: str
    code: str = ""
    but: Mapping[str, str] = field(default_factory=dict)
    ask: Ask = field(default_factory=Ask)
    prepare: Prepare | None = None
    # Calls before it, which have to succeed.
    before: Ask | None = None
    answers: Mapping[str, Any] | None = None
    signature: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = "a2t"
    doors: tuple[str, ...] = tuple(door.name for door in DOORS)
    audit: tuple[str, ...] | None = None
    sent: int | None = None
    # Headers that mark the release as retired.
    tells: tuple[str, ...] = ()

    def expected(self, door: Door) -> "Came":
        words = self.but.get(door.name, door_says(door, self.comes)).format(code=self.code)
        audit = self.audit
        if audit is None:
            audit = ("run",) if self.comes in RUN else ()
        calls = sum(action in ("run", "continue") for action in audit)
        sent_count = calls if self.sent is None else self.sent
        return Came(words, calls, sent_count, audit, OUTPUTS if self.comes == "ok" else None, self.tells)


class Came(NamedTuple):
    """`calls` are the rows that were written, `sent` is how often the vendor was asked to run the tool."""

    said: str
    calls: int
    sent: int
    audit: tuple[str, ...]
    outputs: Mapping[str, Any] | None
    tells: tuple[str, ...]


def answers_with(script: Script) -> Prepare:
    def prepare(world: World) -> None:
        world.vendor.script = script

    return prepare


def answers(status: int, **headers: str) -> Prepare:
    retry_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return answers_with(json_reply({"message": "Not now."}, status=status, headers=retry_headers))


def is_silent(world: World) -> None:
    limits = invocation._session_limits
    world.patch.setattr(invocation, "_session_limits", lambda call: replace(limits(call), request=0.5))
    world.vendor.script = then_waits(b"")


def tuned(**words: Any) -> Prepare:
    def prepare(world: World) -> None:
        tunings.tune(world.pin, actor=world.owner, **words)
        world.publish()

    return prepare


def never_again(world: World) -> None:
    pins.set_retry(world.pin, actor=world.owner, changes={"retry": "none"})
    world.publish()
    answers(503)(world)


def set_state(state: str) -> Prepare:
    def prepare(world: World) -> None:
        version = world.pin.version
        Finding.objects.create(
            endpoint=version.tool.endpoint, tool=version.tool, version=version, code="HELD",
            severity="high", subject=version.digest, state=state, message="Held.",
        )  # fmt: skip

    return prepare


def withdraw(world: World) -> None:
    Tool.objects.filter(pk=world.pin.tool_id).update(status="withdrawn")


def remove_endpoint(world: World) -> None:
    endpoint = world.pin.tool.endpoint
    type(endpoint).objects.filter(pk=endpoint.pk).update(removed_at=timezone.now())


def open_circuit(world: World) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    ToolCircuit.objects.create(tool=world.pin.tool, failures=5, open_until=soon)


RETIRED = ("Deprecation", "Sunset", "Link")


def retired(*, lasts: timedelta | None) -> Prepare:
    def prepare(world: World) -> None:
        old = world.agent.releases.get()
        agents.update_agent(world.agent, actor=world.owner, description="Answers at the desk.")
        world.publish()
        ends = timezone.now() + lasts if lasts else None
        retiring.retire(old, actor=world.owner, reason="Wrong prices.", sunset_at=ends, name=str(old))

    return prepare


def needs_google(world: World) -> None:
    admin = make_user(Role.ADMIN)
    with AuthorizationServer() as server:
        row = make_client(server, "oauth_users", actor=admin, url=world.vendor.url, scope="profile")
    providers.choose(world.pin.tool.endpoint, actor=admin, provider="google", credential=row)


def grant_that_expired(world: World) -> None:
    needs_google(world)
    assert DOORS[0].ask(world.client, Ask(user="ada")).said == "200 needs_authorization GRANT_MISSING"
    assert UserGrant.objects.update(state="expired") == 1


def retire(world: World) -> None:
    retired(lasts=timedelta(days=1))(world)
    Retirement.objects.update(sunset_at=timezone.now() - timedelta(hours=1))


def with_a_helper(world: World) -> None:
    helper = agents.create_agent(actor=world.owner, name="helper", slug="helper", parent=world.agent)
    signature = make_signature("help", outputs=(make_parameter("answer"),))
    tool = make_tool(signature, endpoint=world.pin.tool.endpoint)
    pins.pin_tool(helper, actor=world.owner, tool=tool, alias="help")
    world.publish()


def without_key(world: World) -> None:
    world.client.credentials()


def with_half_a_key(world: World) -> None:
    world.client.credentials(HTTP_AUTHORIZATION="Bearer pgb_short")


def revoke_key(world: World) -> None:
    api_keys.revoke(world.key, actor=world.owner)


def expire_key(world: World) -> None:
    ApiKey.objects.filter(pk=world.key.pk).update(expires_at=timezone.now() - timedelta(days=1))


def key_of_another_agent(world: World) -> None:
    other = agents.create_agent(actor=world.owner, name="other", slug="other")
    world.client = runtime(world.owner, other)


def key_that_lists(world: World) -> None:
    world.client = runtime(world.owner, world.agent, scopes=["runtime"])


def owner_that_reads(world: World) -> None:
    users.update_user(world.owner, actor=make_user(Role.ADMIN), role=Role.VIEWER)


def key_that_makes_a_call(world: World) -> None:
    ApiKey.objects.filter(pk=world.key.pk).update(calls_at_once=1)
    version = world.pin.version
    Call.objects.create(
        tool=version.tool, version=version, api_key=world.key, requested_by=world.owner, status="running",
        arguments={}, gives_up_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip


def no_requests_left(world: World) -> None:
    world.patch.setattr(rate_limits, "spend", lambda *_: False)


def process_without_room(world: World) -> None:
    world.patch.setattr(places, "_places", CallPlaces(0))
    world.patch.setattr(places, "ROOM_SECONDS", 0.01)


def openapi() -> dict[str, Any]:
    inputs = [{"name": "zip", "in": "query", "required": True, "schema": {"type": "string"}}]
    outputs = {"type": "object", "properties": {"answer": {"type": "string"}}}
    operation = documents.operation("sky", parameters=inputs, responses=documents.answers(outputs))
    signature = documents.read_signature(operation, "/sky", "get")
    return {
        name: getattr(signature, name)
        for name in ("inputs", "outputs", "rest", "schema_rest", "outputs_rest")
    }


BRANCH = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}


def library(line: Any, request: Any) -> bool | None:
    """A vendor of MCP whose tool asks for the branch before it answers."""
    message = request.json()
    responses = message["params"].get("inputResponses")
    if responses is None:
        elicitation = {"mode": "form", "message": "Which branch?", "requestedSchema": BRANCH}
        result = {
            "resultType": "input_required",
            "inputRequests": {"branch": {"method": "elicitation/create", "params": elicitation}},
            "requestState": "the vendor's own",
        }
    else:
        branch = responses["branch"].get("content", {}).get("branch", "fair")
        content = [{"type": "text", "text": branch}]
        result = {"resultType": "complete", "content": content, "structuredContent": {"answer": branch}}
    document = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return json_reply(document)(line, request)


ASKING = {"protocol": "mcp", "prepare": answers_with(library)}
DEEP = b"[" * 100_000 + b"]" * 100_000
OBJECT = {"outputs_rest": {"type": "object"}}
REFUSED = ("refuse call",)
NO_SUCH_METHOD = {
    **dict.fromkeys(("rest", "a2t", "oxp"), "405 {code}"),
    **dict.fromkeys(("mcp", "mcp of the handshake"), "405 -32000 {code}"),
}
GOOGLE = {"requirements": {"authorization": [{"id": "google", "oauth2": {"scopes": ["mail.read"]}}]}}
BY_GOOGLE = {"protocol": "oxp", "signature": {"rest": GOOGLE, **OBJECT}, "sent": 0, "audit": ("run", "ask")}
SITUATIONS = {
    "it runs": Situation(comes="ok"),
    "it runs at a vendor of oxp": Situation(comes="ok", protocol="oxp", signature=OBJECT),
    "it runs at a vendor of acp": Situation(comes="ok", protocol="acp", signature=OBJECT),
    "it runs at a vendor of mcp": Situation(comes="ok", protocol="mcp"),
    "it runs at a vendor of openapi": Situation(comes="ok", protocol="openapi", signature=openapi()),
    "by the number of the release": Situation(comes="ok", ask=Ask(named="1")),
    "a preset is added": Situation(comes="ok", prepare=tuned(parameters={"units": {"preset": "US"}})),
    # Requests of the caller.
    "an input of the wrong type": Situation(
        comes="unfit", code="ARGUMENTS", ask=Ask(arguments={"zip": "0150", "days": "many"})
    ),
    "an input is missing": Situation(comes="unfit", code="ARGUMENTS", ask=Ask(arguments={"days": 1})),
    "an input that is not there": Situation(
        comes="unfit", code="ARGUMENTS", ask=Ask(arguments={"zip": "0150", "place": 1})
    ),
    "an input that is preset and hidden": Situation(
        comes="unfit",
        code="ARGUMENTS",
        prepare=tuned(parameters={"trace": {"hidden": True, "preset": "pegboard"}}),
        ask=Ask(arguments={"zip": "0150", "trace": "mine"}),
    ),
    "a value that is hidden": Situation(
        comes="unfit",
        code="ARGUMENTS",
        prepare=tuned(parameters={"units": {"values": {"US": {"hidden": True}}}}),
        ask=Ask(arguments={"zip": "0150", "units": "US"}),
    ),
    "inputs of 300 kB": Situation(
        comes="bad",
        code="too_large",
        ask=Ask(arguments={"zip": "0150", "trace": "x" * 300_000}),
    ),
    "inputs that are nested": Situation(
        comes="unfit",
        code="ARGUMENTS",
        ask=Ask(arguments={"zip": {"a": [[[[[[1]]]]]]}}),
    ),
    "a text that no database takes": Situation(
        comes="not json",
        code="invalid_json",
        but={"rest": "400 invalid"},
        ask=Ask(arguments={"zip": "\0"}),
    ),
    "a body that is no JSON": Situation(
        comes="not json", code="invalid_json", ask=Ask(raw=b'{"arguments": ')
    ),
    "a body that is nested 100,000 deep": Situation(comes="not json", code="invalid_json", ask=Ask(raw=DEEP)),
    "a body that says one member twice": Situation(
        comes="not json", code="invalid_json", ask=Ask(raw=b'{"id": 1, "id": 2}')
    ),
    "a body of 50 MB": Situation(
        comes="413",
        code="too_large",
        ask=Ask(raw=bytes(50 * 1024**2)),
    ),
    "a tool that is not there": Situation(comes="unknown tool", ask=Ask(tool="earth"), audit=REFUSED),
    "a release that is not there": Situation(
        comes="404", code="not_found", ask=Ask(named="9"), audit=REFUSED
    ),
    "a channel without a release": Situation(comes="404", code="channel_empty", ask=Ask(named="canary")),
    "a release that is retired": Situation(
        comes="ok", prepare=retired(lasts=None), ask=Ask(named="1"), tells=("Deprecation", "Link")
    ),
    "a release that is retired by a date": Situation(
        comes="ok", prepare=retired(lasts=timedelta(days=30)), ask=Ask(named="1"), tells=RETIRED
    ),
    "a release that is retired, past its date": Situation(
        comes="410", code="release_retired", prepare=retire, ask=Ask(named="1"), tells=RETIRED
    ),
    "what succeeds a release that is retired": Situation(comes="ok", prepare=retire),
    "an agent that is not there": Situation(
        comes="404", code="not_found", ask=Ask(slug="nowhere"), audit=REFUSED
    ),
    "a sub-agent that is not there": Situation(
        comes="404", code="not_found", ask=Ask(below="/agents/nobody"), audit=REFUSED
    ),
    "a version that is not there": Situation(
        comes="404", code="version_not_found", ask=Ask(version="9"), doors=("a2t", "oxp"), audit=REFUSED
    ),
    "a protocol's version that is not there": Situation(
        comes="bad",
        code="version_not_supported",
        but={"mcp": "400 -32022", "mcp of the handshake": "400 -32022"},
        ask=Ask(speaks="2099-01-01"),
        doors=("oxp", "mcp", "mcp of the handshake"),
    ),
    "another method of HTTP": Situation(
        comes="404", code="method_not_allowed", but=NO_SUCH_METHOD, ask=Ask(method="PUT")
    ),
    # Whose key it is.
    "no key": Situation(comes="401", code="not_authenticated", prepare=without_key),
    "half a key": Situation(comes="401", code="malformed_key", prepare=with_half_a_key),
    "a key that was revoked": Situation(comes="401", code="revoked_key", prepare=revoke_key),
    "a key that has expired": Situation(comes="401", code="expired_key", prepare=expire_key),
    "a key of another agent": Situation(
        comes="404",
        code="not_found",
        prepare=key_of_another_agent,
        audit=REFUSED,
    ),
    "a key that lists": Situation(comes="403", code="scope_required", prepare=key_that_lists),
    "a key of a viewer": Situation(comes="403", code="role_required", prepare=owner_that_reads),
    "a key that makes as many calls as it may": Situation(
        comes="429", code="too_many_calls", prepare=key_that_makes_a_call
    ),
    "a key that has asked too often": Situation(comes="429", code="throttled", prepare=no_requests_left),
    "a process that makes as many calls as it may": Situation(
        comes="busy", code="busy", prepare=process_without_room
    ),
    # Obstacles.
    "a version that waits for review": Situation(
        comes="conflict", code="waits_for_review", prepare=set_state("open")
    ),
    "a version that was blocked": Situation(
        comes="conflict", code="version_blocked", prepare=set_state("blocked")
    ),
    "an endpoint that was removed": Situation(
        comes="conflict", code="endpoint_removed", prepare=remove_endpoint
    ),
    "a tool that its vendor withdrew": Situation(comes="ok", prepare=withdraw),
    "a vendor that has failed too often": Situation(
        comes="unavailable for now", code="CIRCUIT_OPEN", prepare=open_circuit, sent=0
    ),
    "a tool that may destroy something": Situation(
        comes="conflict",
        code="confirm_needed",
        but={"mcp": "200 input_required"},
        signature={"annotations": Annotations(destructive=True)},
        doors=("rest", "a2t", "oxp", "acp", "mcp"),
    ),
    "a tool that may destroy something, where the client cannot be asked": Situation(
        comes="ok",
        signature={"annotations": Annotations(destructive=True)},
        doors=("mcp of the handshake",),
    ),
    "a tool that may destroy something, confirmed": Situation(
        comes="ok",
        signature={"annotations": Annotations(destructive=True)},
        ask=Ask(is_confirmed=True),
    ),
    # Replies of the vendor.
    "the vendor refuses the inputs": Situation(
        comes="unfit for the vendor", code="HTTP_400", prepare=answers(400)
    ),
    "the vendor does not let us": Situation(comes="refused", code="FORBIDDEN", prepare=answers(403)),
    "the vendor does not know us": Situation(comes="needs_authorization", code="AUTH", prepare=answers(401)),
    "the vendor asks us to wait": Situation(
        comes="unavailable for now", code="RATE_LIMITED", prepare=answers(429, Retry_After="7"), sent=3
    ),
    "the vendor fails": Situation(comes="unavailable", code="HTTP_500", prepare=answers(500), sent=3),
    "the vendor is away": Situation(
        comes="unavailable for now", code="HTTP_503", prepare=answers(503), sent=3
    ),
    "the vendor fails, and nothing is to be sent again": Situation(
        comes="unavailable for now", code="HTTP_503", prepare=never_again
    ),
    "the vendor does not answer in time": Situation(comes="unavailable", code="DEADLINE", prepare=is_silent),
    "the vendor hangs up": Situation(
        comes="unavailable", code="NO_REPLY", prepare=answers_with(lambda line, request: None)
    ),
    "the vendor answers a web page": Situation(
        comes="tool_error",
        code="NOT_JSON",
        prepare=answers_with(reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html"})),
    ),
    "the vendor answers 6 MB": Situation(
        comes="tool_error",
        code="BODY_TOO_LARGE",
        prepare=answers_with(reply(b'"' + b"x" * 6 * 1024**2 + b'"', keep=False)),
    ),
    "the vendor answers 2 MB": Situation(
        comes="too long", code="TOO_LONG", prepare=answers_with(odd_reply("a2t", "x" * 2 * 1024**2))
    ),
    "an output that does not fit": Situation(
        comes="misfit", code="UNFIT_OUTPUT", prepare=answers_with(odd_reply("a2t", {"no": 1}))
    ),
    # Steps for a person.
    "the tool asks": Situation(comes="needs_input", code="INPUT_REQUIRED", **ASKING),
    # In A2T and OXP there is no word for an answer: their clients give it over REST.
    "the tool asks and hears": Situation(
        comes="ok",
        answers={"branch": {"branch": "fair"}},
        doors=("rest", "acp", "mcp"),
        audit=("run", "continue"),
        **ASKING,
    ),
    "the tool asks and hears no": Situation(
        comes="ok",
        answers={"branch": None},
        doors=("rest", "mcp"),
        audit=("run", "continue"),
        **ASKING,
    ),
    "the tool asks and hears what does not fit": Situation(
        comes="unfit",
        code="ARGUMENTS",
        answers={"branch": {"branch": 7}},
        doors=("rest", "acp", "mcp"),
        audit=("run",),
        **ASKING,
    ),
    "the tool asks who its user is": Situation(
        comes="needs_authorization",
        code="USER_MISSING",
        but={"acp": "200 interrupt"},
        protocol="oxp",
        signature={"requirements": Requirements(user=True)},
        sent=0,
    ),
    "the tool is told who its user is": Situation(
        comes="ok",
        protocol="oxp",
        signature={"requirements": Requirements(user=True), **OBJECT},
        ask=Ask(user="ada"),
    ),
    "a user who has authorized nothing": Situation(
        comes="needs_authorization",
        code="GRANT_MISSING",
        but={"acp": "200 interrupt", "mcp": "400 -32021"},
        prepare=needs_google,
        ask=Ask(user="ada"),
        **BY_GOOGLE,
    ),
    "a user who did not authorize in time": Situation(
        comes="needs_authorization",
        code="GRANT_MISSING",
        but={"acp": "200 interrupt", "mcp": "400 -32021"},
        prepare=grant_that_expired,
        ask=Ask(user="ada"),
        **BY_GOOGLE,
    ),
    "a secret that no administrator entered": Situation(
        comes="refused",
        code="SECRET_MISSING",
        protocol="oxp",
        signature={"requirements": Requirements(secrets=("api-pin",)), **OBJECT},
        ask=Ask(user="ada"),
        sent=0,
    ),
    # Not waited for.
    "a call in the background": Situation(
        comes="in the background", ask=Ask(mode="async"), doors=("rest", "acp"), audit=("run",), sent=1
    ),
    "a call that is followed": Situation(comes="ok", ask=Ask(mode="stream"), doors=("rest", "acp")),
    # Again.
    "the same call again": Situation(comes="ok", before=Ask(id="a"), ask=Ask(id="a")),
    "another call with the same id": Situation(
        comes="conflict",
        code="key_taken",
        before=Ask(id="a"),
        ask=Ask(id="a", arguments={"zip": "9"}),
        audit=("run",),
    ),
    "the same call without an id": Situation(comes="ok", before=Ask(), audit=("run", "run")),
    "a transfer": Situation(
        comes="transfer",
        prepare=with_a_helper,
        ask=Ask(tool="transfer_to_helper", arguments={}),
        doors=("rest", "a2t", "oxp", "mcp"),
        audit=("hand over",),
    ),
    "a transfer is no agent of ACP": Situation(
        comes="unknown tool",
        prepare=with_a_helper,
        ask=Ask(tool="transfer_to_helper", arguments={}),
        doors=("acp",),
        audit=REFUSED,
    ),
    "a tool of a sub-agent": Situation(
        comes="ok",
        prepare=with_a_helper,
        ask=Ask(tool="help", arguments={"city": "Oslo"}, below="/agents/helper"),
    ),
    "a tool of a sub-agent, asked of its parent": Situation(
        comes="unknown tool", prepare=with_a_helper, ask=Ask(tool="help", arguments={}), audit=REFUSED
    ),
}


@pytest.fixture(scope="module")
def behind():
    """The vendor of the whole table."""
    with HostileVendor(reply()) as vendor:
        yield vendor


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_door_says_what_came_of_it(name, behind, monkeypatch):
    situation = SITUATIONS[name]
    world = World(
        make_user(Role.DESIGNER), behind, monkeypatch, dict(situation.signature), situation.protocol
    )
    if situation.prepare:
        situation.prepare(world)
    doors = [door for door in DOORS if door.name in situation.doors]
    replies = {door.name: through(door, situation, world) for door in doors}
    assert replies == {door.name: situation.expected(door) for door in doors}


def through(door: Door, situation: Situation, world: World) -> Came:
    # Not a transaction of its own: no request to a vendor happens within one.
    mark = transaction.savepoint()
    before = AuditEntry.objects.latest("pk").pk, Call.objects.count(), len(world.runs)
    try:
        if situation.before:
            assert door.ask(world.client, situation.before).said == door_says(door, "ok")
        reply = door.ask(world.client, situation.ask)
        if situation.answers:
            reply = door.answer(world.client, situation.ask, reply.document, situation.answers)
        audit = AuditEntry.objects.filter(pk__gt=before[0]).order_by("pk").values_list("action", flat=True)
        # A vendor of MCP answers content besides.
        outputs = {"answer": (reply.outputs or {}).get("answer")} if situation.comes == "ok" else None
        tells = tuple(name for name in RETIRED if name in reply.headers)
        # A vendor that is not waited for may still be about to read what was sent.
        ends, expected_count = time.monotonic() + 10, situation.expected(door).sent
        while len(world.runs) - before[2] < expected_count and time.monotonic() < ends:
            time.sleep(0.01)
        counted = Call.objects.count() - before[1], len(world.runs) - before[2]
        return Came(reply.said, *counted, tuple(audit), outputs, tells)
    finally:
        transaction.savepoint_rollback(mark)


def addresses_of_a_release() -> list[tuple[str, dict[str, str]]]:
    """Return every address of REST that names a release, by route, with its arguments."""
    values = {"slug": "desk", "number": "1", "sub": "desk", "name": "sky", "procedure": "p", "other": "2"}
    patterns, addresses = list(get_resolver().url_patterns), []
    while patterns:
        pattern = patterns.pop()
        patterns += getattr(pattern, "url_patterns", [])
        converters = pattern.pattern.converters.keys()
        if {"slug", "number"} <= converters and (name := getattr(pattern, "name", "") or "").startswith(
            "api-release"
        ):
            addresses.append((name, {name: values[name] for name in converters}))
    return addresses


def test_every_address_of_a_retired_release_says_so(behind, monkeypatch):
    world = World(make_user(Role.DESIGNER), behind, monkeypatch)
    retired(lasts=timedelta(days=30))(world)
    reader = APIClient()
    reader.force_authenticate(world.owner)
    silent = set()
    for name, arguments in addresses_of_a_release():
        # The previous one, unless given: there is none.
        query = {"against": "2"} if name == "api-release-diff" else {}
        answer = reader.get(reverse(name, kwargs=arguments), query)
        if answer.status_code == 405:
            body = {"api-release-calls": {"calls": [{"tool": "sky"}]}}.get(name, {})
            answer = reader.post(reverse(name, kwargs=arguments), body)
        if not {"Deprecation", "Sunset"} <= set(answer.headers):
            silent.add((name, answer.status_code))
    # That one reports it of the release itself, and is written with PUT alone.
    assert silent == {("api-release-retirement", 405)}


@pytest.mark.django_db(transaction=True)
def test_a_client_that_hangs_up_loses_nothing(live_server, behind, monkeypatch):
    world = World(make_user(Role.DESIGNER), behind, monkeypatch)
    key = world.client._credentials["HTTP_AUTHORIZATION"]
    for number, door in enumerate(DOORS, 1):
        has_arrived, has_left = threading.Event(), threading.Event()

        def answers(
            line: Any, request: Request, has_arrived: Any = has_arrived, has_left: Any = has_left
        ) -> bool | None:
            has_arrived.set()
            has_left.wait(10)
            return odd_reply("a2t", "fair")(line, request)

        world.vendor.script = answers
        path, headers, body = door.request(Ask())
        head = {"Authorization": key, "Content-Type": "application/json", **headers}
        client = http.client.HTTPConnection(urlsplit(live_server.url).netloc)
        client.request("POST", path, json.dumps(body), head)
        assert has_arrived.wait(10)
        client.close()
        has_left.set()
        ends = time.monotonic() + 10
        while Call.objects.filter(status="finished").count() < number and time.monotonic() < ends:
            time.sleep(0.02)
    assert list(Call.objects.values_list("outcome", flat=True)) == ["ok"] * len(DOORS)
    assert len(world.runs) == len(DOORS)
