"""Functions that processes run during a fault. Arguments and results are JSON."""

from typing import Any


def load() -> None:
    """Load all that a worker has loaded before its first task."""
    from django.urls import get_resolver

    from pegboard.celery import app

    app.loader.import_default_modules()
    app.finalize()
    get_resolver().url_patterns  # noqa: B018 - imports the views
    import catalog.tasks  # noqa: F401
    import execution.tasks  # noqa: F401
    from catalog import invariants

    list(invariants.claims())


def request(endpoint: int, actor: int) -> int:
    """Request a run, as a user does with the button."""
    from catalog.enumeration import runs as enumeration_runs
    from catalog.models import Endpoint
    from catalog.models.runs import Trigger
    from people.models import User

    row = Endpoint.objects.select_related("vendor").get(pk=endpoint)
    return enumeration_runs.request_run(row, trigger=Trigger.PERSON, actor=User.objects.get(pk=actor)).pk


def task(run: int) -> None:
    """A worker gets the message."""
    from catalog import tasks

    tasks.enumerate_run(run)


def hasty_task(run: int) -> None:
    """The same on a connection that the database ends when it idles in a transaction for half a second."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '500ms'")
    task(run)


def work_off(runs: list[int]) -> None:
    """Run one process of a worker that takes every due run, and waits for every vendor."""
    from functools import partial

    from catalog.credentials import sessions
    from catalog.enumeration import runs as enumeration_runs
    from core.outbound.limits import Limits

    patient = Limits(request=600, session=600)
    sessions.open_session = partial(sessions.open_session, limits=patient)
    for run in runs:
        enumeration_runs.perform(run)


def long_task(run: int) -> None:
    """The same with a heart that beats so fast that every reading is a long one."""
    from catalog.enumeration import heartbeat

    heartbeat.HEARTBEAT_SECONDS, heartbeat.STORE_SECONDS = 0.02, 0.0
    task(run)


def tick() -> None:
    from catalog.enumeration import schedule

    schedule.tick()


def sweep_calls() -> None:
    from execution.calls import queue

    queue.sweep()


def send_wakes(count: int) -> None:
    """Fill the queue of calls with messages that an outage has left there."""
    from celery import current_app

    from execution.calls import queue

    with current_app.connection_for_write() as connection, connection.Producer() as producer:
        for number in range(count):
            current_app.send_task(queue.TASK, args=[number], producer=producer)


def create_rows(url: str) -> dict[str, Any]:
    """An administrator with a key, an agent with a published release, and an endpoint that was read."""
    from catalog.enumeration import runs as enumeration_runs
    from catalog.models import Tool
    from catalog.models.runs import Trigger
    from designer.agents.agents import create_agent
    from designer.pins.pins import pin_tool
    from designer.releases.publishing import publish
    from people import api_keys
    from people.models import Role
    from tests.factories import make_endpoint, make_user

    ada = make_user(Role.ADMIN, username="ada")
    endpoint = make_endpoint(url=url, name="the endpoint")
    task(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    agent = create_agent(actor=ada, name="Clerk")
    pin_tool(agent, actor=ada, tool=Tool.objects.get(name="tool_1"))
    publish(agent, actor=ada)
    _, token = api_keys.issue(ada, actor=ada, name="for tests", scopes=["admin"])
    return {"endpoint": endpoint.pk, "ada": ada.pk, "token": token}


def breaches(only: list[str] | None = None) -> list[str]:
    from catalog import invariants

    return [str(breach) for breach in invariants.check(only or ())]


def migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", "--noinput", verbosity=0)


def the_catalog_of(endpoint: int) -> dict[str, Any]:
    from tests.faults.catalog import dump_of

    return dump_of(endpoint)


def add(url: str) -> int:
    """Another endpoint, not read yet and not due."""
    from datetime import timedelta

    from django.utils import timezone

    from tests.factories import make_endpoint, make_vendor

    vendor = make_vendor(name=f"Vendor at {url}", slug=f"vendor-{url.rpartition(':')[2].strip('/')}")
    later = timezone.now() + timedelta(days=1)
    return make_endpoint(vendor=vendor, url=url, name="the endpoint", next_due_at=later).pk


def connect(url: str) -> int:
    """Another endpoint, read once."""
    from catalog.enumeration import runs as enumeration_runs
    from catalog.models import Endpoint
    from catalog.models.runs import Trigger

    endpoint = Endpoint.objects.get(pk=add(url))
    task(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    return endpoint.pk


def take_up(run: int) -> None:
    """The scheduler finds that the worker is gone, and another one gets the message."""
    from tests.faults.catalog import housekeeping, let_the_lease_run_out

    let_the_lease_run_out()
    tick()
    task(run)
    housekeeping()


def perform_at(moment: float, runs: list[int]) -> None:
    """Wait for the moment, as others do, and try them all."""
    import time

    from catalog.enumeration import runs as enumeration_runs

    time.sleep(max(0.0, moment - time.monotonic()))
    for run in runs:
        enumeration_runs.perform(run)


def tick_at(moment: float, times: int, days: int) -> None:
    """A scheduler whose clock is `days` ahead, or behind."""
    import time
    from datetime import timedelta

    import time_machine
    from django.utils import timezone

    time.sleep(max(0.0, moment - time.monotonic()))
    with time_machine.travel(timezone.now() + timedelta(days=days), tick=True):
        for _ in range(times):
            tick()


def rotate(batch: int) -> int:
    """Change the key; return the number of secrets that were encrypted again."""
    from catalog.credentials import rotation

    rotation.BATCH = batch
    return rotation.rotate().encrypted


def token(credential: str) -> str:
    """Request an access token."""
    from catalog.credentials.oauth import tokens
    from catalog.models import Credential

    return tokens.token_for(Credential.objects.get(pk=credential)).secret.reveal()


def user_token(grant: str) -> str:
    """A call needs the access token of an end user."""
    from catalog.models import UserGrant
    from execution.user_grants import tokens

    row = UserGrant.objects.select_related("credential__grant", "end_user", "endpoint").get(pk=grant)
    assert row.credential is not None
    token = tokens.token_for(row.end_user, row.endpoint, row.provider, row.credential, ["read"])
    assert token is not None, "the user has to authorize it again"
    return token
