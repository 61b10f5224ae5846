"""One of everything, so that each page has something to show."""

import msgspec
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.models import Call, Finding, Rejection, Run, Withdrawal
from catalog.models.calls import Attempt, RecordedExchange, Result, StoredQuestion
from catalog.notifications import webhooks
from catalog.notifications.models import Delivery, Event, Notice
from catalog.tools import definitions
from designer.agents import agent_keys, agents
from designer.environments import environments
from designer.pins import pins, tunings
from designer.procedures import editing as procedures
from designer.rehearsals import judges
from designer.releases import publishing
from execution.activities import operations as activities
from execution.calls import examples, requesting
from people import teams
from people.models import AuditEntry, Role
from protocols.definition import parts_of
from protocols.signature import AllowedValue, Annotations
from tests.factories import (
    make_endpoint,
    make_parameter,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)

INPUTS = (
    make_parameter("city", description="Where to look, such as \u200bOslo"),
    make_parameter(
        "units",
        type="enum",
        required=False,
        allowed_values=(AllowedValue("METRIC", "Celsius"), AllowedValue("US")),
    ),
    make_parameter("days", type="int", required=False, min=1, max=14, default=3),
)
# One row of each kind, and what no row can show.
DEFINED = {
    "type": "object",
    "description": "Books a room",
    "properties": {
        "_tool": {"type": "string", "const": "book_room"},
        "room": {"type": "string", "pattern": "^R[0-9]+$", "description": "Which room"},
        "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
        "_output": {"type": "object", "properties": {"booked": {"type": "boolean"}}},
    },
    "required": ["room"],
    "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def set_the_stage() -> list[str]:
    """Returns the address of every page that the stage makes worth looking at."""
    actor = make_user(Role.ADMIN, name="Ada Berger", username="ada")
    endpoint = make_endpoint(
        vendor=make_vendor(name="Fair Weather", slug="weather"), last_success_at=timezone.now()
    )
    failing = make_endpoint(failures=2, error_code="TIMEOUT", error_message="The vendor did not answer.")
    credential = credential_operations.create_credential(
        actor=actor, name="Main key", kind="bearer", url="http://127.0.0.1:9000/", secret="a-secret"
    )
    client = credential_operations.create_credential(
        actor=actor,
        name="Weather sign-in",
        kind="oauth_code",
        url="http://127.0.0.1:9000/",
        secret="a-secret",
        client_id="pegboard",
        token_url="http://127.0.0.1:9000/token",
        authorization_url="http://127.0.0.1:9000/a/long/way/to/where/people/sign/in/at/this/vendor",
        scope="read write",
    )
    signature = make_signature(
        "forecast", inputs=INPUTS, outputs=INPUTS[:1], annotations=Annotations(read_only=True)
    )
    tool = make_tool(signature, endpoint=endpoint, tags=["weather"])
    other = make_tool(make_signature("history", inputs=INPUTS[:1]), endpoint=endpoint)
    run = _runs(endpoint, tool, other)
    agent = agents.create_agent(actor=actor, name="Travel desk", slug="desk", description="Plans trips.")
    agents.create_agent(actor=actor, name="Packing helper", parent=agent)
    pin = pins.pin_tool(agent, actor=actor, tool=tool, ordinal=1)
    procedures.create_procedure(
        agent, actor=actor, title="Plan a trip", body="Ask for {city}.\n1. Call forecast(), then forecst()."
    )
    publishing.publish(
        agent,
        actor=actor,
        note="The first",
        channel="live",
        accept=["unknown_reference"],
        reason="The stage shows a remark.",
    )
    tunings.tune(pin, actor=actor, description="Ask for the city first.")
    publishing.publish(agent, actor=actor, accept=["unknown_reference"], reason="As before.")
    team = teams.create_team(actor=actor, name="Travel")
    teams.add_member(team, actor, actor=actor)
    agents.create_agent(actor=actor, name="Ticket clerk", team=team)
    entry = AuditEntry.objects.filter(kind="release").first()
    running = Run.objects.create(endpoint=failing, status="running", pages=2, seen=120)
    failed_run = Run.objects.create(
        endpoint=endpoint,
        status="failed",
        error_code="SHRINK_HELD",
        error_message="Most are gone.",
        would_withdraw=3,
    )
    endpoint.held_run = failed_run
    endpoint.save()
    defined = definitions.define(actor=actor, parts=parts_of(DEFINED))
    composite, request, mock = _activities(actor, pin.version, other, credential)
    place = environments.create(agent, actor=actor, name="test", is_default=True)
    agent_keys.issue(
        actor, actor=actor, name="Desk, production", scopes=["runtime", "invoke"], agents=[agent]
    )
    environments.bind(place, tool, actor=actor, activity=composite)
    by_other = f"by=tool:{other.pk}:{other.current.ordinal}"
    return [
        *("/", "/vendors/", "/vendors/weather/", "/endpoints/new/", f"/endpoints/{failing.pk}/"),
        *(
            f"/endpoints/{endpoint.pk}/",
            f"/endpoints/{endpoint.pk}/?tab=settings",
            "/vendors/weather/?tab=settings",
            f"/runs/{run.pk}/",
            f"/runs/{running.pk}/",
            f"/runs/{failed_run.pk}/",
        ),
        *(
            "/credentials/",
            "/credentials/new/",
            f"/credentials/{credential.pk}/",
            f"/credentials/{client.pk}/",
            f"/credentials/{client.pk}/edit/",
            "/review/",
            "/review/?state=blocked",
        ),
        *("/tools/", "/tools/?q=forcast+nonsensical", "/tools/?q=nonsensical"),
        *(
            f"/tools/{tool.pk}/{part}"
            for part in (
                "",
                "try/",
                f"try/?call={_calls(tool, actor)}",
                "tuning/",
                "translations/de/",
                "versions/",
                "used-by/",
                "findings/",
                "raw/",
            )
        ),
        *(f"/tools/compare/?tool={tool.pk}&tool={other.pk}", "/tools/compare/"),
        *(f"/tools/{defined.pk}/", f"/tools/{defined.pk}/define/", f"/tools/{defined.pk}/define/?json"),
        *("/tools/define/import/", "/translations/"),
        *(
            "/activities/",
            "/activities/?q=nonsense",
            "/activities/new/",
            f"/activities/new/?kind=composite&interface=tool:{tool.pk}:1",
            f"/activities/{composite.pk}/",
            f"/activities/{composite.pk}/change/",
            f"/activities/{request.pk}/",
            f"/activities/{request.pk}/change/",
            f"/activities/{mock.pk}/",
            f"/activities/{mock.pk}/change/",
            f"/tools/{tool.pk}/same-job/",
            f"/tools/{tool.pk}/same-job/?pin={pin.pk}&{by_other}",
        ),
        *(
            "/agents/desk/environments/",
            "/agents/desk/mocks/",
            f"/agents/desk/mocks/{pin.pk}/?city=Oslo&try=1",
            "/agents/desk/mocks/procedures/plan-a-trip/",
        ),
        *(
            "/agents/",
            "/agents/desk/",
            "/agents/import/",
            "/agents/desk/edit/",
            f"/agents/desk/add-tools/?tool={other.pk}",
            "/agents/desk/upgrades/",
            "/agents/desk/procedures/",
            "/agents/desk/procedures/plan-a-trip/",
            "/agents/desk/procedures/plan-a-trip/history/",
            "/agents/packing-helper/",
        ),
        *(
            f"/agents/desk/pins/{pin.pk}/",
            "/agents/desk/releases/",
            "/agents/desk/channels/live/?release=2",
            "/agents/desk/releases/compare/",
            "/agents/desk/publish/",
            "/agents/desk/releases/2/connect/",
            "/agents/desk/releases/2/?format=json-schema",
        ),
        *("/notifications/", "/notifications/webhooks/new/", f"/notifications/webhooks/{_webhook(actor)}/"),
        *("/judges/", f"/judges/{_judge(actor)}/"),
        *("/agents/desk/received/", "/vendors/weather/remove/", f"/endpoints/{endpoint.pk}/remove/"),
        *("/teams/", "/teams/everyone/", "/teams/travel/", f"/users/{actor.pk}/", f"/audit/{entry.pk}/"),
        *("/keys/", "/keys/new/", "/audit/", "/users/", "/users/new/", "/nothing/here/"),
    ]


def _activities(actor, interface, other, credential):
    """Two steps, of which the second takes a part of what the first came to; a request with all
    rows; and a mock with examples and situations."""
    inputs = {"city": {"input": "city"}}
    step = {"tool": other.pk, "ordinal": other.current.ordinal, "inputs": inputs}
    second = {
        "tool": interface.tool_id,
        "ordinal": 1,
        "inputs": {"city": {"step": 1, "output": "x", "at": "/0/name"}},
    }
    composite = activities.create(
        actor=actor,
        name="Look back, then ahead",
        kind="composite",
        config={"steps": [step, second], "outputs": {"city": {"step": 2, "output": "city"}}},
        interface=interface,
    )
    request = activities.create(
        actor=actor,
        name="Weather of our own",
        kind="http",
        config={
            "address": "http://127.0.0.1:9000/v1/{city}/now",
            "query": {"units": {"input": "units", "otherwise": "METRIC"}},
            "headers": {"X-Asked-By": {"value": "Pegboard"}},
            "outputs": {"city": {"at": "/city"}},
            "statuses": {"404": "invalid_arguments"},
            "credential": str(credential.pk),
        },
        interface=interface,
    )
    mock = activities.create(
        actor=actor,
        name="Weather that is made up",
        kind="mock",
        config={
            "examples": [{"arguments": {"city": "Oslo"}, "outputs": {"city": "Oslo"}}],
            "situations": [{"name": "interrupt", "switch": False}, {"name": "slow", "when": {"city": "*"}}],
        },
        interface=interface,
    )
    return composite, request, mock


def _calls(tool, actor) -> int:
    """One that worked and is an example, and one that asks; returns the second."""
    worked, asks = (
        requesting.request_call(tool.current, actor=actor, arguments={"city": city})
        for city in ("Oslo", "Rome")
    )
    exchange = RecordedExchange(
        "POST", "http://127.0.0.1:9000/", {"X-A": "b"}, "{}", 200, {"X-B": "c"}, '{"sky": "fair"}'
    )
    rows = [{"day": "Monday", "sky": "fair"}, {"day": "Tuesday", "sky": "rain"}]
    results = {
        worked: ("ok", Result(outputs={"days": rows}, attempts=[Attempt("ok", exchanges=[exchange])])),
        asks: (
            "needs_input",
            Result(
                error={"code": "INTERRUPT", "message": "It asks for more."},
                asks=[
                    StoredQuestion("q", "Which?", {"type": "string"}),
                    StoredQuestion("v", "Go.", url="https://auth.example/"),
                ],
                resume={},
            ),
        ),
    }
    for call, (outcome, result) in results.items():
        Call.objects.filter(pk=call.pk).update(
            status="finished", outcome=outcome, duration_ms=40, result=msgspec.json.encode(result).decode()
        )
    examples.save_example(Call.objects.get(pk=worked.pk), actor=actor, name="Capital")
    return asks.pk


def _runs(endpoint, tool, other) -> Run:
    run = Run.objects.create(
        endpoint=endpoint,
        status="succeeded",
        pages=1,
        seen=3,
        added=1,
        changed=1,
        withdrawn=1,
        rejected=1,
        notes=[{"code": "ID_NOT_UUID", "message": "The id of a tool is not a UUID.", "count": 2}],
    )
    make_version(tool, make_signature("forecast", inputs=INPUTS[:2]), run=run)
    drifted = make_version(tool, make_signature("forecast", description="Other words"), label="2", run=run)
    Finding.objects.create(
        endpoint=endpoint,
        tool=tool,
        version=drifted,
        run=run,
        code="DRIFT",
        severity="high",
        subject="x",
        message="It drifted.",
    )
    Withdrawal.objects.create(tool=other, run=run)
    Rejection.objects.create(run=run, tool="#3", code="NAME_TOO_LONG", reason="Its name has 300 characters.")
    return run


def _judge(actor) -> str:
    facts = {"name": "Big model", "url": "http://127.0.0.1:9/v1", "model": "big-1", "key": "a-secret"}
    return str(judges.create(actor=actor, **facts).pk)


def _webhook(actor) -> str:
    row, _ = webhooks.create(
        actor=actor, name="On-call chat", url="http://127.0.0.1:9/hook", events=list(Event.values)
    )
    Delivery.objects.create(
        webhook=row,
        notice=Notice.objects.create(event=Event.BROKEN, subject="1", title="“Weather” cannot be read"),
        error="It could not be reached.",
        attempts=2,
    )
    return str(row.pk)
