"""The kinds of events of the catalog: their texts, from the state at the time of dispatch, and their
recipients."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from catalog.models import Credential, Endpoint, Finding, Run, Tool, ToolVersion, VendorRequest, Withdrawal
from catalog.models.tools import ToolStatus
from catalog.models.vendor_requests import RequestState
from catalog.notifications import kinds
from catalog.notifications.kinds import EventKind, NotificationText
from catalog.notifications.models import Event, Subscription, Webhook
from core.outbound.errors import printable
from core.translatable import mark
from people.models import ApiKey, Role, User

MAX_SENTENCE_LENGTH = 500
MAX_TOOLS_NAMED = 3
# A limit for deliveries, whatever the number of changed tools. The page and REST list all of them.
MAX_TOOLS_SHOWN = 20
# The prefix of a subject that is a removed endpoint, not a run.
REMOVED = "endpoint:"
# The prefixes of subjects for definitions, which no run reads: a version, and a withdrawn tool.
VERSION, TOOL = "version:", "tool:"


def describe_broken(subject: str) -> NotificationText | None:
    endpoint = _find_endpoint(subject)
    if endpoint is None or not endpoint.failures:
        return None
    title = mark("“{name}” of {vendor} cannot be synced")
    return _endpoint_text(endpoint, title, endpoint.error_message, with_error=True)


def describe_recovered(subject: str) -> NotificationText | None:
    endpoint = _find_endpoint(subject)
    title = mark("“{name}” of {vendor} can be read again")
    return _endpoint_text(endpoint, title, "Its tools are up to date.") if endpoint else None


def describe_held(subject: str) -> NotificationText | None:
    endpoint = _find_endpoint(subject)
    if endpoint is None or not endpoint.held_run_id:
        return None
    title = mark("“{name}” of {vendor} waits for your decision")
    text = _endpoint_text(endpoint, title, endpoint.error_message, with_error=True)
    facts = {**text.facts, "run": endpoint.held_run_id}
    return NotificationText(text.title, text.says, f"/runs/{endpoint.held_run_id}/", facts)


def describe_review(subject: str) -> NotificationText | None:
    endpoint = _find_endpoint(subject)
    if endpoint is None:
        return None
    waiting = Finding.objects.filter(waiting_decision__endpoint=endpoint)
    if not (count := waiting.count()):
        return None
    first = waiting.order_by("-id").values_list("message", flat=True)[0]
    title = (
        mark("“{name}” of {vendor} has 1 thing waiting for review")
        if count == 1
        else mark("“{name}” of {vendor} has {count} things waiting for review")
    )
    text = _endpoint_text(endpoint, title, first, count=count)
    return NotificationText(text.title, text.says, "/review/", {**text.facts, "waiting": count})


def describe_sign_in(subject: str) -> NotificationText | None:
    credential = Credential.objects.filter(pk=subject, removed_at=None, grant__ended_at__isnull=False).first()
    if credential is None:
        return None
    name = printable(credential.name)
    facts = {"credential": {"id": str(credential.pk), "name": name, "origin": credential.origin}}
    message = printable(credential.grant.error_message, MAX_SENTENCE_LENGTH)
    return NotificationText(
        mark(f"“{name}” needs a sign-in"), message, f"/credentials/{credential.pk}/", facts
    )


def describe_paused_webhook(subject: str) -> NotificationText | None:
    webhook = Webhook.objects.filter(pk=subject, removed_at=None, is_paused=True).first()
    if webhook is None:
        return None
    name = printable(webhook.name)
    facts = {"webhook": {"id": str(webhook.pk), "name": name}}
    message = printable(webhook.paused_why, MAX_SENTENCE_LENGTH)
    return NotificationText(
        mark(f"The webhook “{name}” was paused"), message, f"/notifications/webhooks/{webhook.pk}/", facts
    )


def describe_reported_key(subject: str) -> NotificationText | None:
    key = ApiKey.objects.select_related("user").filter(pk=subject).exclude(reported_at=None).first()
    if key is None:
        return None
    name, owner = printable(key.name), printable(str(key.user), 150)
    facts = {"key": {"id": key.pk, "name": name, "prefix": key.prefix, "owner": key.user.username}}
    message = (
        f"Someone sent this key of {owner} to Pegboard, so others may have it too. Pegboard revoked it. "
        "Check the audit trail for its use, and create a new key for the program."
    )
    title = mark(f"The API key “{name}” was reported as leaked")
    return NotificationText(title, message, "/keys/", facts)


def describe_expiring_key(subject: str) -> NotificationText | None:
    """Describe a key that expires. `subject`: the key, and the days before its end."""
    key = ApiKey.objects.select_related("user").filter(pk=_ending_key(subject), revoked_at=None).first()
    if key is None or key.expires_at is None:
        return None
    name, owner = printable(key.name), printable(str(key.user), 150)
    ends = key.expires_at.astimezone(UTC)
    facts = {
        "key": {
            "id": key.pk,
            "name": name,
            "prefix": key.prefix,
            "owner": key.user.username,
            "expires_at": ends.isoformat(timespec="seconds"),
        }
    }
    message = (
        f"It belongs to {owner} and is valid until {ends:%d %b %Y, %H:%M} UTC. "
        "Create a new key for the programs that use it, and revoke this one."
    )
    title = mark(f"The API key “{name}” ends on {ends:%d %b}")
    return NotificationText(title, message, "/keys/", facts)


def _ending_key(subject: str) -> int:
    return int(subject.partition(":")[0])


def describe_vendor_request(subject: str) -> NotificationText | None:
    row = VendorRequest.objects.select_related("asked_by").filter(pk=subject).first()
    if row is None or not row.is_waiting:
        return None
    requester = printable(str(row.asked_by), 150)
    return _request_text(row, lambda name: mark(f"{requester} asks for “{name}”"), row.reason)


def describe_answered_request(subject: str) -> NotificationText | None:
    row = VendorRequest.objects.select_related("endpoint__vendor").filter(pk=subject).first()
    if row is None or row.is_waiting:
        return None
    if row.state == RequestState.DECLINED:
        return _request_text(row, lambda name: mark(f"“{name}” was declined"), row.answer)
    message = "You requested it. Its tools will be in the catalog soon."
    text = _request_text(row, lambda name: mark(f"“{name}” is connected"), message)
    return replace(text, path=f"/endpoints/{row.endpoint_id}/") if row.live_endpoint else text


def _request_text(row: VendorRequest, title: Callable[[str], str], message: str) -> NotificationText:
    name = printable(row.vendor_name, 120)
    facts = {"request": {"id": row.pk, "vendor": name, "protocol": row.protocol, "state": row.state}}
    return NotificationText(title(name), printable(message, MAX_SENTENCE_LENGTH), row.path, facts)


def describe_changed(subject: str) -> NotificationText | None:
    """Describe the new versions of one run, without tools that the vendor listed for the first time."""
    if subject.startswith(VERSION):
        return describe_definition(subject)
    run = _find_run(subject)
    versions = ToolVersion.objects.filter(run=int(subject), tool__in=changed_tools(subject))
    versions = versions.select_related("tool").order_by("tool__name", "pk").defer("raw", "signature")
    if run is None or not (count := versions.count()):
        return None
    shown_versions = list(versions[:MAX_TOOLS_SHOWN])
    held_count = Tool.objects.filter(stopped__run=int(subject), pk__in=changed_tools(subject)).count()
    message = _list_names([version.tool for version in shown_versions], count)
    if held_count:
        message += (
            f" Waiting for review: {held_count:,}." if held_count < count else " All of them wait for review."
        )
    facts = {
        "run": run.pk,
        "count": count,
        "held": held_count,
        "tools": [_tool_facts(version.tool, version) for version in shown_versions],
    }
    title = mark("{vendor} changed 1 tool") if count == 1 else mark("{vendor} changed {count} tools")
    return _vendor_text(run.endpoint, title, message, f"/runs/{run.pk}/", facts)


def describe_withdrawn(subject: str) -> NotificationText | None:
    """Describe tools that are still withdrawn. `subject`: a run, or "endpoint:" and a removed endpoint."""
    if subject.startswith(TOOL):
        return describe_definition(subject)
    removed = int(subject.removeprefix(REMOVED)) if subject.startswith(REMOVED) else 0
    run = None if removed else _find_run(subject)
    endpoint = run.endpoint if run else Endpoint.objects.select_related("vendor").filter(pk=removed).first()
    withdrawn = Tool.objects.filter(pk__in=withdrawn_tools(subject)).order_by("name", "pk")
    if endpoint is None or not (count := withdrawn.count()):
        return None
    shown_tools = list(withdrawn[:MAX_TOOLS_SHOWN])
    path = f"/runs/{run.pk}/" if run else f"/tools/{shown_tools[0].pk}/"
    facts = {
        "run": run.pk if run else None,
        "count": count,
        "tools": [_tool_facts(tool) for tool in shown_tools],
    }
    title = (
        mark("{vendor} no longer offers 1 tool")
        if count == 1
        else mark("{vendor} no longer offers {count} tools")
    )
    message = _list_names(shown_tools, count)
    if removed:
        message = f"The endpoint was removed from Pegboard. {message}"
    return _vendor_text(endpoint, title, message, path, facts)


def describe_definition(subject: str) -> NotificationText | None:
    is_change = subject.startswith(VERSION)
    tool_ids = changed_tools(subject) if is_change else withdrawn_tools(subject)
    tools = Tool.objects.select_related("endpoint__vendor", "current").filter(pk__in=tool_ids)
    if (tool := tools.first()) is None:
        return None
    name = printable(tool.name, 60)
    facts = {"run": None, "count": 1, "tools": [_tool_facts(tool, tool.current if is_change else None)]}
    all_facts = {**_endpoint_text(tool.endpoint, "", "").facts, **facts}
    if is_change:
        message = "It is defined in Pegboard. Agents keep their version until a designer upgrades them."
        return NotificationText(
            mark(f"“{name}” has a new version"),
            message,
            f"/tools/{tool.pk}/versions/",
            {**all_facts, "held": 0},
        )
    message = "It was defined in Pegboard. It cannot be pinned any more. Existing pins and releases keep it."
    return NotificationText(mark(f"“{name}” was withdrawn"), message, f"/tools/{tool.pk}/", all_facts)


def changed_tools(subject: str) -> QuerySet[Tool, int]:
    if subject.startswith(VERSION):
        rows = ToolVersion.objects.filter(pk=int(subject.removeprefix(VERSION)), ordinal__gt=1).order_by()
    else:
        rows = ToolVersion.objects.filter(run=int(subject), ordinal__gt=1).order_by()
    return rows.values_list("tool", flat=True)  # type: ignore[return-value]


def withdrawn_tools(subject: str) -> QuerySet[Tool, int]:
    """Return the primary keys of the tools that a notice is about and that are still withdrawn.

    subject: a tool, an endpoint that was removed, or the primary key of a run.
    """
    if subject.startswith(TOOL):
        tools = Tool.objects.filter(pk=int(subject.removeprefix(TOOL)), status=ToolStatus.WITHDRAWN)
        return tools.order_by().values_list("pk", flat=True)
    if subject.startswith(REMOVED):
        rows = Tool.objects.filter(endpoint=int(subject.removeprefix(REMOVED)), status=ToolStatus.WITHDRAWN)
        return rows.order_by().values_list("pk", flat=True)
    open_ones = Withdrawal.objects.filter(run=int(subject), returned_run=None).order_by()
    return open_ones.values_list("tool", flat=True)  # type: ignore[return-value]


def _find_run(subject: str) -> Run | None:
    return Run.objects.select_related("endpoint__vendor").filter(pk=subject).first()


def _list_names(tools: Sequence[Tool], count: int) -> str:
    names = ", ".join(f"“{printable(tool.name, 60)}”" for tool in tools[:MAX_TOOLS_NAMED])
    return f"{names} and {count - MAX_TOOLS_NAMED:,} more." if count > MAX_TOOLS_NAMED else f"{names}."


def _tool_facts(tool: Tool, version: ToolVersion | None = None) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": tool.pk, "name": printable(tool.name, 120)}
    if version:
        facts |= {"version": printable(version.label, 100), "ordinal": version.ordinal}
    return facts


def _vendor_text(
    endpoint: Endpoint, title: str, message: str, path: str, facts: dict[str, Any]
) -> NotificationText:
    text = _endpoint_text(endpoint, title, message, count=facts["count"])
    return NotificationText(text.title, text.says, path, {**text.facts, **facts})


def describe_test(subject: str) -> NotificationText:
    message = "A user pressed “Send a test” in Pegboard. Nothing has happened."
    return NotificationText(mark("A test of this webhook"), message, f"/notifications/webhooks/{subject}/")


def administrators_for(event: str) -> Q:
    subscriptions = Subscription.objects.filter(event=event)
    return Q(role=Role.ADMIN, pk__in=subscriptions.values("user"))


def readers_of_key(subject: str) -> QuerySet[User]:
    owner = ApiKey.objects.filter(pk=subject)
    return User.objects.filter(Q(pk__in=owner.values("user")) | administrators_for(Event.KEY_REPORTED))


def readers_of_ending_key(subject: str) -> QuerySet[User]:
    owner = ApiKey.objects.filter(pk=_ending_key(subject))
    return User.objects.filter(Q(pk__in=owner.values("user")) | administrators_for(Event.KEY_ENDING))


def readers_of_request(subject: str) -> QuerySet[User]:
    return User.objects.filter(administrators_for(Event.VENDOR_REQUESTED))


def readers_of_answer(subject: str) -> QuerySet[User]:
    answered = VendorRequest.objects.filter(pk=subject)
    is_requester = Q(pk__in=answered.values("asked_by"))
    return User.objects.filter(is_requester | administrators_for(Event.VENDOR_ANSWERED))


def _build_kind(event: Event, **facts: Any) -> EventKind:
    return EventKind(name=event, label=event.label, **facts)


# A webhook covers its agents, or everything, so some kinds have another description for webhooks.
_EVENT_KINDS = (
    _build_kind(
        Event.BROKEN,
        tell=describe_broken,
        explained=_("A sync failed, and no sync succeeded within 90 seconds."),
    ),
    _build_kind(
        Event.RECOVERED,
        tell=describe_recovered,
        explained=_("After a notification that it cannot be synced."),
        to_webhooks=_("After a delivery that the endpoint cannot be synced."),
    ),
    _build_kind(
        Event.HELD,
        tell=describe_held,
        is_for_administrators=True,
        explained=_("So many tools are missing that Pegboard withdraws them only after your confirmation."),
    ),
    _build_kind(
        Event.REVIEW,
        tell=describe_review,
        is_for_administrators=True,
        explained=_("New findings, or new versions that are held."),
    ),
    _build_kind(
        Event.SIGN_IN,
        tell=describe_sign_in,
        is_for_administrators=True,
        explained=_("Until an administrator signs in, its endpoints cannot be synced."),
    ),
    _build_kind(
        Event.WEBHOOK_PAUSED,
        tell=describe_paused_webhook,
        is_for_administrators=True,
        explained=_("Its receiver failed again and again."),
    ),
    _build_kind(
        Event.KEY_REPORTED,
        tell=describe_reported_key,
        explained=_(
            "Pegboard revoked it. You are always notified of your own keys, administrators of all keys."
        ),
        to_webhooks=_("Sent for every key. Pegboard revoked it."),
        readers=readers_of_key,
        mails_all=True,
    ),
    _build_kind(
        Event.KEY_ENDING,
        tell=describe_expiring_key,
        explained=_(
            "14 and 3 days before. You are always notified of your own keys, administrators of all keys."
        ),
        to_webhooks=_("Sent for every key, 14 and 3 days before."),
        readers=readers_of_ending_key,
        mails_all=True,
        happens_once=True,
    ),
    _build_kind(
        Event.VENDOR_REQUESTED,
        tell=describe_vendor_request,
        is_for_administrators=True,
        explained=_("For administrators, who connect it or decline."),
        readers=readers_of_request,
        mails_all=True,
    ),
    _build_kind(
        Event.TOOLS_CHANGED,
        tell=describe_changed,
        explained=_(
            "Tools that you follow, or that are pinned by agents that you follow. One message per run."
        ),
        to_webhooks=_("Tools that its agents pin, or all tools if it names no agent. One message per run."),
        happens_once=True,
    ),
    _build_kind(
        Event.TOOLS_WITHDRAWN,
        tell=describe_withdrawn,
        explained=_("Calls of withdrawn tools may fail."),
        happens_once=True,
    ),
    _build_kind(
        Event.VENDOR_ANSWERED,
        tell=describe_answered_request,
        explained=_("You are always notified of your own requests, administrators of all requests."),
        to_webhooks=_("Sent for every request for a vendor."),
        readers=readers_of_answer,
        mails_all=True,
    ),
)


def register() -> None:
    # Django calls `ready` again for another list of apps; higher layers have set recipients since.
    if not kinds.KINDS:
        for kind in _EVENT_KINDS:
            kinds.register(kind)


def _find_endpoint(subject: str) -> Endpoint | None:
    return Endpoint.objects.live().select_related("vendor").filter(pk=subject).first()


def _endpoint_text(
    endpoint: Endpoint, title: str, message: str, *, count: int = 0, with_error: bool = False
) -> NotificationText:
    name, vendor = printable(str(endpoint), 120), printable(endpoint.vendor.name, 60)
    facts: dict[str, Any] = {
        "endpoint": {"id": endpoint.pk, "name": name, "protocol": endpoint.protocol},
        "vendor": {"slug": endpoint.vendor.slug, "name": vendor},
    }
    message = printable(message, MAX_SENTENCE_LENGTH)
    if with_error:
        facts["error"] = {"code": endpoint.error_code, "message": message}
    title = title.format(name=name, vendor=vendor, count=f"{count:,}")
    return NotificationText(title, message, f"/endpoints/{endpoint.pk}/", facts)
