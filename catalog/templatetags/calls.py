"""Calls in words. Everything a vendor answered is text: bounded, and never markup."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from django import template
from django.template.context import Context
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials import status as credential_status
from catalog.credentials.oauth import clients
from catalog.models import Call, Endpoint
from catalog.models.calls import Attempt, RecordedExchange, Retry
from catalog.templatetags.display import milliseconds, shown
from core.readable_changes import outline, outline_rows
from protocols.signature import Parameter

register = template.Library()

OUTCOMES = {
    "ok": gettext_lazy("Succeeded"),
    "tool_error": gettext_lazy("The tool failed"),
    "invalid_arguments": gettext_lazy("Invalid inputs"),
    "needs_authorization": gettext_lazy("Needs permission"),
    "needs_input": gettext_lazy("Needs an answer"),
    "unavailable": gettext_lazy("Not available"),
    "refused": gettext_lazy("Refused"),
    "cancelled": gettext_lazy("Cancelled"),
    "latent": gettext_lazy("Waits for output"),
    "unknown": gettext_lazy("Unknown result"),
}
NEXT_STEPS = {
    "tool_error": gettext_lazy("The vendor reports an error. Read it, then change the inputs."),
    "invalid_arguments": gettext_lazy("Correct the inputs, then run the tool again."),
    "unavailable": gettext_lazy("Try again later. If it fails again, check the endpoint."),
    "refused": gettext_lazy(
        "A retry does not help. Ask an administrator to check the endpoint and its credential."
    ),
    "needs_authorization": gettext_lazy("A person must grant access before the call can continue."),
    "needs_input": gettext_lazy("Answer below to continue the call."),
    "latent": gettext_lazy("Enter the output below, or wait for the model to send it."),
    "unknown": gettext_lazy("Check whether it had an effect before you run it again."),
    "cancelled": gettext_lazy("Run the tool again if you need the result."),
}
MAX_TEXT_LENGTH = 4_000
MAX_DOCUMENT_LENGTH = 20_000
MAX_ROWS, MAX_COLUMNS = 50, 8


@register.filter
def call_state(call: Call) -> str:
    return call.outcome or "running"


@register.filter
def call_word(call: Call) -> str:
    return str(OUTCOMES[call.outcome]) if call.outcome else str(call.get_status_display())


@register.filter
def outcome_word(outcome: str) -> str:
    return str(OUTCOMES.get(outcome, outcome))


@register.filter
def on_a_time_line(attempts: list[Attempt]) -> list[dict[str, Any]]:
    """Return each attempt with its start and width on a line of 100. A short attempt has a width of 1."""
    total = max(1, sum(attempt.waited_ms + attempt.duration_ms for attempt in attempts))
    rows, began = [], 0
    for attempt in attempts:
        began += attempt.waited_ms
        # A value with a comma would be none in SVG.
        start, width = min(99.0, 100 * began / total), max(1.0, 100 * attempt.duration_ms / total)
        rows.append({"attempt": attempt, "x": f"{start:.2f}", "width": f"{width:.2f}"})
        began += attempt.duration_ms
    return rows


@register.filter
def next_step(call: Call, retry: Retry | None = None) -> str:
    if call.error_code == "AUTH":
        return _("Ask an administrator to check the endpoint's credential.")
    wait = milliseconds(retry.after_ms) if retry and retry.after_ms else ""
    if retry and retry.can_retry and call.outcome == "tool_error":
        if wait:
            return _("The vendor allows a retry, after {duration}.").format(duration=wait)
        return _("The vendor allows a retry.")
    if retry and wait and call.outcome == "unavailable":
        if retry.can_retry:
            advice = _("Try again, after {duration}. If it fails again, check the endpoint.")
        else:
            advice = _(
                "The tool may have run already. If it can safely run twice, try again, after {duration}. "
                "If it fails again, check the endpoint."
            )
        return advice.format(duration=wait)
    return str(NEXT_STEPS.get(call.outcome, ""))


@register.inclusion_tag("catalog/_wider_sign_in.html", takes_context=True)
def wider_sign_in(context: Context, endpoint: Endpoint) -> dict[str, Any]:
    """Return the sign-in that would add the scope for which the vendor refused a request."""
    shared = {name: context.get(name) for name in ("csrf_token", "request", "user")}
    credential = endpoint.credential
    if credential is None or not clients.uses_oauth(credential):
        return shared
    grant = credential.grant
    return shared | {
        "credential": credential,
        "status": credential_status.status_of(credential, timezone.now()),
        "signs_in_at": urlsplit(grant.authorization_url or grant.token_url).netloc,
    }


@register.filter
def in_order(outputs: dict[str, Any], declared_parameters: tuple[Parameter, ...]) -> list[tuple[str, Any]]:
    """Order outputs as in the signature, with unknown ones last."""
    names = [output.name for output in declared_parameters if output.name in outputs]
    return [(name, outputs[name]) for name in dict.fromkeys([*names, *outputs])]


@register.filter
def pairs(fields: dict[str, str]) -> list[tuple[str, str]]:
    """Return the items of a mapping. A template would read `fields.items` as a member, which a vendor may
    have."""
    return list(fields.items())


@register.inclusion_tag("catalog/_value.html")
def output_value(value: Any) -> dict[str, Any]:
    """Return a value as a person reads it: text, a table of similar rows, else a line for each member."""
    match value:
        case str():
            return {"text": shown(_cut_text(value, MAX_TEXT_LENGTH))} if value else {"plain": _("empty text")}
        case None:
            return {"plain": _("nothing")}
        case bool():
            return {"plain": _("yes") if value else _("no")}
        case int() | float():
            return {"plain": str(value)}
    if not value:
        return {"plain": _("empty")}
    if isinstance(value, list) and len(value) <= MAX_ROWS and _are_plain(value):
        return {"items": [_format_cell(item) for item in value]}
    # The members of rows that are flat objects with few members are columns.
    rows = value[:MAX_ROWS] if isinstance(value, list) and all(isinstance(row, dict) for row in value) else []
    is_flat = all(_are_plain(row.values()) for row in rows)
    columns = list(dict.fromkeys(name for row in rows for name in row)) if is_flat else []
    if 0 < len(columns) <= MAX_COLUMNS:
        cells = [[_format_cell(row.get(column)) for column in columns] for row in rows]
        return {"columns": [shown(c) for c in columns], "rows": cells, "more": len(value) - len(cells)}
    facts = list(islice(outline_rows(value), MAX_ROWS + 1))
    return {
        "facts": [(shown(path), shown(_cut_text(text, MAX_TEXT_LENGTH))) for path, text in facts[:MAX_ROWS]],
        "is_cut": len(facts) > MAX_ROWS,
    }


def _are_plain(values: Iterable[Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _format_cell(value: Any) -> SafeString:
    return shown(_cut_text(outline(value), 200))


@register.filter
def document(value: Any) -> SafeString:
    """Return JSON with line breaks, truncated for a page."""
    return shown(_cut_text(json.dumps(value, ensure_ascii=False, indent=2), MAX_DOCUMENT_LENGTH))


@register.filter
def request_text(sent: RecordedExchange) -> SafeString:
    return shown(_format_message(f"{sent.method} {sent.url}", sent.headers, sent.body))


@register.filter
def reply_text(sent: RecordedExchange) -> SafeString:
    first = str(sent.status) if sent.status else _("No reply.")
    return shown(_format_message(first, sent.reply_headers, sent.reply))


def _format_message(first: str, headers: dict[str, str], body: str) -> str:
    head = "\n".join([first, *(f"{name}: {value}" for name, value in headers.items())])
    with suppress(ValueError, RecursionError):
        body = json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    return f"{head}\n\n{_cut_text(body, MAX_TEXT_LENGTH)}" if body else head


def _cut_text(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    count = number_format(len(text) - longest, force_grouping=True)
    return f"{text[:longest]}… {_('({count} more characters)').format(count=count)}"
