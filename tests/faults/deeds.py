"""What processes do while something befalls them. Arguments and results are JSON."""

from typing import Any


def load() -> None:
    """Everything that a worker has loaded before its first task."""
    from django.urls import get_resolver

    from pegboard.celery import app

    app.loader.import_default_modules()
    app.finalize()
    get_resolver().url_patterns  # noqa: B018 - imports the views
    import catalog.tasks  # noqa: F401
    from catalog import invariants

    list(invariants.claims())


def request(endpoint: int, actor: int) -> int:
    """Somebody presses the button."""
    from catalog import enumeration
    from catalog.models import Endpoint
    from catalog.models.runs import Trigger
    from people.models import User

    row = Endpoint.objects.select_related("vendor").get(pk=endpoint)
    return enumeration.request_run(row, trigger=Trigger.PERSON, actor=User.objects.get(pk=actor)).pk


def task(run: int) -> None:
    """A worker gets the message."""
    from catalog import tasks

    tasks.enumerate_endpoint(run)


def hasty_task(run: int) -> None:
    """The same on a connection that the database ends when it idles in a transaction for half a second."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '500ms'")
    task(run)


def tick() -> None:
    from catalog import enumeration

    enumeration.tick()


def perform_all(runs: list[int]) -> list[list[Any]]:
    """Try every one of them; for each, whether this process was the one that read it."""
    import os

    from catalog import enumeration

    return [[os.getpid(), enumeration.perform(run).attempt] for run in runs]


def token(credential: str) -> str:
    """Somebody needs an access token."""
    from catalog.models import Credential
    from catalog.oauth import tokens

    return tokens.token_for(Credential.objects.get(pk=credential)).secret.reveal()


def found(url: str) -> dict[str, Any]:
    """An administrator with a key, an agent with a published release, and an endpoint that was read."""
    from catalog import enumeration
    from catalog.models import Tool
    from catalog.models.runs import Trigger
    from designer import agents, pins, releases
    from people import tokens
    from tests.factories import make_endpoint, make_user

    task_free = enumeration.perform
    ada = make_user(username="ada")
    endpoint = make_endpoint(url=url, name="the endpoint")
    task_free(enumeration.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    raise NotImplementedError((tokens, agents, pins, releases, Tool, ada))
