"""Log lines: for people, or as JSON for a log collector (PEGBOARD_LOG=json). One event, one line.

What a vendor or a caller may have sent is escaped: no line break and no terminal code gets into a log.
"""

import inspect
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from celery import Task, signals

from core import log_context
from core.invisible_characters import escape_hidden

OURS = (
    "pegboard",
    "people",
    "catalog",
    "protocols",
    "designer",
    "execution",
    "serving",
    "django.request",
    "celery",
)
HEADER = "pegboard_trace"
# Collectors of logs cut longer lines in two.
MAX_MESSAGE_LENGTH = 8_000
MAX_EXCEPTION_LENGTH = 30_000
_TRACES: dict[str, Any] = {}


def _escaped_message(record: logging.LogRecord) -> str:
    return escape_hidden(record.getMessage()[:MAX_MESSAGE_LENGTH])


def _escaped_exception(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    text = formatter.formatException(record.exc_info) if record.exc_info else ""
    return escape_hidden(text[-MAX_EXCEPTION_LENGTH:], keep="\n")


class LineFormatter(logging.Formatter):
    """Formats log lines for people.

    A traceback follows on lines that begin with a bar, so none looks like an event.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(" ", "milliseconds")
        facts = "".join(f" {name}={fact}" for name, fact in _facts_of(record).items())
        line = f"{time} {record.levelname} {record.name} {_escaped_message(record)}{facts}"
        if exception := _escaped_exception(record, self):
            line += "\n  | " + exception.replace("\n", "\n  | ")
        return line


class JsonFormatter(logging.Formatter):
    """Formats log lines for programs: docs/operations.md lists the members."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat("T", "milliseconds")
        event: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _escaped_message(record),
            **_facts_of(record),
            "process": record.process,
        }
        if exception := _escaped_exception(record, self):
            event["exception"] = exception
        return json.dumps(event, ensure_ascii=False)


def _facts_of(record: logging.LogRecord) -> dict[str, object]:
    # The subject of the line: from the context, or from `extra={"facts": ...}`.
    stated: dict[str, object] = getattr(record, "facts", {})
    facts = {**log_context.facts(), **stated}
    return {name: escape_hidden(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}


def formatter() -> logging.Formatter:
    return JsonFormatter() if os.environ.get("PEGBOARD_LOG") == "json" else LineFormatter()


def configuration() -> dict[str, Any]:
    """Return the configuration for `logging.config.dictConfig`, and so for Django."""
    # Lines contain neither the source line nor the thread, because finding them takes a fifth of the time of
    # a line: https://docs.python.org/3/howto/logging.html#optimization
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = False
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"ours": {"()": formatter}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "ours"}},
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            **{name: {"level": "INFO"} for name in OURS},
            # Without Django's own handlers, one of which mails whole stacks with their variables.
            "django": {"level": "INFO", "handlers": []},
            "django.server": {"handlers": [], "propagate": True},
            # It quotes addresses and headers, and keys may be in both.
            "urllib3": {"level": "CRITICAL"},
        },
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Let Pegboard's loggers write warnings and errors only, and restore their levels at the end."""
    loggers = [logging.getLogger(name) for name in OURS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@signals.setup_logging.connect
def keep_our_configuration(**_: object) -> None:
    """Do nothing: a receiver of this signal keeps Celery from replacing the configuration of Django."""


@signals.before_task_publish.connect
def add_request_facts(headers: dict[str, Any] | None = None, **_: object) -> None:
    """Add the ids of the request and its user to a task, for the log lines of the worker."""
    if headers is not None:
        facts = log_context.facts()
        headers[HEADER] = {name: facts[name] for name in ("request_id", "user_id") if name in facts}


@signals.task_prerun.connect
def begin_task(
    task_id: str = "", task: Task[..., Any] | None = None, args: Any = (), kwargs: Any = None, **_: object
) -> None:
    if task is None:
        return
    handed = getattr(task.request, HEADER, None)
    headers = handed if isinstance(handed, dict) else {}
    facts: dict[str, Any] = {"task": task.name, "task_id": task_id}
    # Otherwise the task itself raises the error.
    with suppress(TypeError):
        bound = inspect.signature(task.run).bind(*args, **(kwargs or {}))
        # The arguments of a task are ids with names: run_id, endpoint_id.
        facts |= {
            name: value
            for name, value in bound.arguments.items()
            if name.endswith("_id") and isinstance(value, str | int)
        }
    _TRACES[task_id] = log_context.begin({**headers, **facts})


@signals.task_postrun.connect
def end_task(task_id: str = "", **_: object) -> None:
    if token := _TRACES.pop(task_id, None):
        log_context.end(token)
