"""The catalog's own kinds of events: their words, from what is true when they are told, and who hears."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from django.db.models import Q, QuerySet

from catalog.models import (
    Credential,
    Endpoint,
    Finding,
    Run,
    Tool,
    ToolVersion,
    VendorRequest,
    Withdrawal,
)
from catalog.models.tools import ToolStatus
from catalog.models.vendor_requests import RequestState
from catalog.notifications import kinds
from catalog.notifications.kinds import Kind, Told
from catalog.notifications.models import Event, Subscription, Webhook
from core.outbound.errors import printable
from people.models import ApiKey, Role, User

MAX_SENTENCE_LENGTH = 500
NAMED = 3
# A delivery stays small, however much a vendor changes; the page and REST have the rest.
TOOLS_TOLD = 20
# How a subject begins that is an endpoint which was removed, and no run.
REMOVED = "endpoint:"
# Of tools that are defined here, which no run reads: a version, and a tool that was withdrawn.
VERSION, TOOL = "version:", "tool:"


def tell_broken(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None or not endpoint.failures:
        return None
    return _about(endpoint, "cannot be read", endpoint.error_message, with_error=True)


def tell_recovered(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    return _about(endpoint, "can be read again", "Its tools are up to date.") if endpoint else None


def tell_held(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None or not endpoint.held_run_id:
        return None
    told = _about(endpoint, "waits for your decision", endpoint.error_message, with_error=True)
    facts = {**told.facts, "run": endpoint.held_run_id}
    return Told(told.title, told.says, f"/runs/{endpoint.held_run_id}/", facts)


def tell_review(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None:
        return None
    waiting = Finding.objects.filter(waiting_decision__endpoint=endpoint)
    if not (count := waiting.count()):
        return None
    first = waiting.order_by("-id").values_list("message", flat=True)[0]
    things = "1 thing" if count == 1 else f"{count:,} things"
    told = _about(endpoint, f"has {things} waiting for review", first)
    return Told(told.title, told.says, "/review/", {**told.facts, "waiting": count})


def tell_sign_in(subject: str) -> Told | None:
    credential = Credential.objects.filter(pk=subject, removed_at=None, grant__ended_at__isnull=False).first()
    if credential is None:
        return None
    name = printable(credential.name)
    facts = {"credential": {"id": str(credential.pk), "name": name, "origin": credential.origin}}
    says = printable(credential.grant.error_message, MAX_SENTENCE_LENGTH)
    return Told(f"“{name}” needs a sign-in", says, f"/credentials/{credential.pk}/", facts)


def tell_webhook_paused(subject: str) -> Told | None:
    webhook = Webhook.objects.filter(pk=subject, removed_at=None, is_paused=True).first()
    if webhook is None:
        return None
    name = printable(webhook.name)
    facts = {"webhook": {"id": str(webhook.pk), "name": name}}
    says = printable(webhook.paused_why, MAX_SENTENCE_LENGTH)
    return Told(f"The webhook “{name}” was paused", says, f"/notifications/webhooks/{webhook.pk}/", facts)


def tell_key_reported(subject: str) -> Told | None:
    key = ApiKey.objects.select_related("user").filter(pk=subject).exclude(reported_at=None).first()
    if key is None:
        return None
    name, owner = printable(key.name), printable(str(key.user), 150)
    facts = {"key": {"id": key.pk, "name": name, "prefix": key.prefix, "owner": key.user.username}}
    says = (
        f"Pegboard was sent this key of {owner}, so others may have it too. It was revoked at once. "
        "Look in the audit trail for what it did, and give the program a new one."
    )
    return Told(f"The API key “{name}” was reported as leaked", says, "/keys/", facts)


def tell_key_ending(subject: str) -> Told | None:
    """`subject` is a key, and the days before its end of the notice."""
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
    says = (
        f"It belongs to {owner}. Programs that use it are refused from {ends:%d %b %Y, %H:%M} UTC on. "
        "Make a new key, give it to these programs, and revoke this one."
    )
    return Told(f"The API key “{name}” ends on {ends:%d %b}", says, "/keys/", facts)


def _ending_key(subject: str) -> int:
    return int(subject.partition(":")[0])


def tell_vendor_requested(subject: str) -> Told | None:
    row = VendorRequest.objects.select_related("asked_by").filter(pk=subject).first()
    if row is None or not row.is_waiting:
        return None
    who = printable(str(row.asked_by), 150)
    return _about_request(row, lambda name: f"{who} asks for “{name}”", row.reason)


def tell_vendor_answered(subject: str) -> Told | None:
    row = VendorRequest.objects.select_related("endpoint__vendor").filter(pk=subject).first()
    if row is None or row.is_waiting:
        return None
    if row.state == RequestState.DECLINED:
        return _about_request(row, lambda name: f"“{name}” was declined", row.answer)
    says = "You asked for it. Its tools are in the catalog soon."
    told = _about_request(row, lambda name: f"“{name}” is connected", says)
    return replace(told, path=f"/endpoints/{row.endpoint_id}/") if row.live_endpoint else told


def _about_request(row: VendorRequest, title: Callable[[str], str], says: str) -> Told:
    name = printable(row.vendor_name, 120)
    facts = {"request": {"id": row.pk, "vendor": name, "protocol": row.protocol, "state": row.state}}
    path = f"/vendor-requests/#request-{row.pk}"
    return Told(title(name), printable(says, MAX_SENTENCE_LENGTH), path, facts)


def tell_changed(subject: str) -> Told | None:
    """Of known tools, the versions that one run has found. Tools of a vendor's first list are no change."""
    if subject.startswith(VERSION):
        return _tell_defined(subject)
    run = _run(subject)
    versions = ToolVersion.objects.filter(run=int(subject), tool__in=changed_tools(subject))
    versions = versions.select_related("tool").order_by("tool__name", "pk").defer("raw", "signature")
    if run is None or not (count := versions.count()):
        return None
    shown = list(versions[:TOOLS_TOLD])
    held = Tool.objects.filter(stopped__run=int(subject), pk__in=changed_tools(subject)).count()
    says = _listed([each.tool for each in shown], count)
    if held:
        says += f" {held:,} of them wait for review." if held < count else " All of it waits for review."
    facts = {"run": run.pk, "count": count, "held": held, "tools": [_tool(each.tool, each) for each in shown]}
    return _of_vendor(run.endpoint, f"changed {_counted(count)}", says, f"/runs/{run.pk}/", facts)


def tell_withdrawn(subject: str) -> Told | None:
    """Those that are still gone. `subject` is a run, or "endpoint:" and one that was removed."""
    if subject.startswith(TOOL):
        return _tell_defined(subject)
    removed = int(subject.removeprefix(REMOVED)) if subject.startswith(REMOVED) else 0
    run = None if removed else _run(subject)
    endpoint = run.endpoint if run else Endpoint.objects.select_related("vendor").filter(pk=removed).first()
    gone = Tool.objects.filter(pk__in=withdrawn_tools(subject)).order_by("name", "pk")
    if endpoint is None or not (count := gone.count()):
        return None
    shown = list(gone[:TOOLS_TOLD])
    path = f"/runs/{run.pk}/" if run else f"/tools/{shown[0].pk}/"
    facts = {"run": run.pk if run else None, "count": count, "tools": [_tool(each) for each in shown]}
    what = f"offers {_counted(count)} no more"
    says = _listed(shown, count)
    if removed:
        says = f"The endpoint was removed from Pegboard. {says}"
    return _of_vendor(endpoint, what, says, path, facts)


def _tell_defined(subject: str) -> Told | None:
    is_change = subject.startswith(VERSION)
    changed = changed_tools(subject) if is_change else withdrawn_tools(subject)
    tools = Tool.objects.select_related("endpoint__vendor", "current").filter(pk__in=changed)
    if (tool := tools.first()) is None:
        return None
    name = printable(tool.name, 60)
    facts = {"run": None, "count": 1, "tools": [_tool(tool, tool.current if is_change else None)]}
    about = {**_about(tool.endpoint, "", "").facts, **facts}
    if is_change:
        says = "It is defined here. Agents stay on the version that they have until a designer moves them."
        return Told(f"“{name}” has a new version", says, f"/tools/{tool.pk}/versions/", {**about, "held": 0})
    says = "It was defined here. It can be pinned no more; what was pinned and published stays."
    return Told(f"“{name}” was withdrawn", says, f"/tools/{tool.pk}/", about)


def changed_tools(subject: str) -> QuerySet[Tool, int]:
    if subject.startswith(VERSION):
        rows = ToolVersion.objects.filter(pk=int(subject.removeprefix(VERSION)), ordinal__gt=1).order_by()
    else:
        rows = ToolVersion.objects.filter(run=int(subject), ordinal__gt=1).order_by()
    return rows.values_list("tool", flat=True)  # type: ignore[return-value]


def withdrawn_tools(subject: str) -> QuerySet[Tool, int]:
    if subject.startswith(TOOL):
        gone = Tool.objects.filter(pk=int(subject.removeprefix(TOOL)), status=ToolStatus.WITHDRAWN)
        return gone.order_by().values_list("pk", flat=True)
    if subject.startswith(REMOVED):
        rows = Tool.objects.filter(endpoint=int(subject.removeprefix(REMOVED)), status=ToolStatus.WITHDRAWN)
        return rows.order_by().values_list("pk", flat=True)
    open_ones = Withdrawal.objects.filter(run=int(subject), returned_run=None).order_by()
    return open_ones.values_list("tool", flat=True)  # type: ignore[return-value]


def _run(subject: str) -> Run | None:
    return Run.objects.select_related("endpoint__vendor").filter(pk=subject).first()


def _counted(count: int) -> str:
    return "1 tool" if count == 1 else f"{count:,} tools"


def _listed(tools: Sequence[Tool], count: int) -> str:
    named = ", ".join(f"“{printable(tool.name, 60)}”" for tool in tools[:NAMED])
    return f"{named} and {count - NAMED:,} more." if count > NAMED else f"{named}."


def _tool(tool: Tool, version: ToolVersion | None = None) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": tool.pk, "name": printable(tool.name, 120)}
    if version:
        facts |= {"version": printable(version.label, 100), "ordinal": version.ordinal}
    return facts


def _of_vendor(endpoint: Endpoint, what: str, says: str, path: str, facts: dict[str, Any]) -> Told:
    about = _about(endpoint, "", "").facts
    vendor = printable(endpoint.vendor.name, 60)
    return Told(f"{vendor} {what}", printable(says, MAX_SENTENCE_LENGTH), path, {**about, **facts})


def tell_test(subject: str) -> Told:
    says = "A user pressed “Send a test” in Pegboard. Nothing has happened."
    return Told("A test of this webhook", says, f"/notifications/webhooks/{subject}/")


def administrators_for(event: str) -> Q:
    asked = Subscription.objects.filter(event=event)
    return Q(role=Role.ADMIN, pk__in=asked.values("user"))


def hear_of_key(subject: str) -> QuerySet[User]:
    owner = ApiKey.objects.filter(pk=subject)
    return User.objects.filter(Q(pk__in=owner.values("user")) | administrators_for(Event.KEY_REPORTED))


def hear_of_ending_key(subject: str) -> QuerySet[User]:
    owner = ApiKey.objects.filter(pk=_ending_key(subject))
    return User.objects.filter(Q(pk__in=owner.values("user")) | administrators_for(Event.KEY_ENDING))


def hear_of_request(subject: str) -> QuerySet[User]:
    return User.objects.filter(administrators_for(Event.VENDOR_REQUESTED))


def hear_of_answer(subject: str) -> QuerySet[User]:
    answered = VendorRequest.objects.filter(pk=subject)
    asker = Q(pk__in=answered.values("asked_by"))
    return User.objects.filter(asker | administrators_for(Event.VENDOR_ANSWERED))


def register() -> None:
    explained: dict[Event, tuple[Callable[[str], Told | None], str]] = {
        Event.BROKEN: (
            tell_broken,
            "An enumeration run failed, and did not succeed within a minute and a half.",
        ),
        Event.RECOVERED: (tell_recovered, "After you were told that it cannot be read."),
        Event.HELD: (
            tell_held,
            "So many tools are missing that Pegboard withdraws none of them without you.",
        ),
        Event.REVIEW: (tell_review, "New findings, or new versions that are held."),
        Event.SIGN_IN: (tell_sign_in, "Until an administrator signs in, its endpoints cannot be read."),
        Event.WEBHOOK_PAUSED: (tell_webhook_paused, "Its receiver failed again and again."),
        Event.KEY_REPORTED: (
            tell_key_reported,
            "It was revoked at once. Of your own you hear in any case, administrators of all.",
        ),
        Event.KEY_ENDING: (
            tell_key_ending,
            "14 and 3 days before. Of your own you hear in any case, administrators of all.",
        ),
        Event.VENDOR_REQUESTED: (tell_vendor_requested, "For administrators, who connect it or decline."),
        Event.TOOLS_CHANGED: (
            tell_changed,
            "Tools that you follow, or that agents pin which you follow. One message for a run.",
        ),
        Event.TOOLS_WITHDRAWN: (
            tell_withdrawn,
            "The same of tools that are gone: calls of them may fail from now on.",
        ),
        Event.VENDOR_ANSWERED: (
            tell_vendor_answered,
            "Of what you asked for you hear in any case, administrators of all.",
        ),
    }
    hear = {
        Event.KEY_REPORTED: hear_of_key,
        Event.KEY_ENDING: hear_of_ending_key,
        Event.VENDOR_REQUESTED: hear_of_request,
        Event.VENDOR_ANSWERED: hear_of_answer,
    }
    # A webhook follows nothing: it is for agents, or as administrators' may be for all that there is.
    to_webhooks = {
        Event.RECOVERED: "After the webhook was told that the endpoint cannot be read.",
        Event.KEY_REPORTED: "Of each key. It was revoked at once.",
        Event.KEY_ENDING: "Of each key, 14 and 3 days before.",
        Event.TOOLS_CHANGED: (
            "Tools that its agents pin, or all tools where it names no agent. One message for a run."
        ),
        Event.VENDOR_ANSWERED: "Of each request for a vendor.",
    }
    for event, (tell, says) in explained.items():
        readers = hear.get(event)
        kinds.register(
            Kind(
                name=event,
                label=event.label,
                explained=says,
                to_webhooks=to_webhooks.get(event, ""),
                tell=tell,
                readers=readers,
                mails_all=readers is not None,
                happens_once=event in (Event.TOOLS_CHANGED, Event.TOOLS_WITHDRAWN, Event.KEY_ENDING),
            )
        )


def _endpoint(subject: str) -> Endpoint | None:
    return Endpoint.objects.live().select_related("vendor").filter(pk=subject).first()


def _about(endpoint: Endpoint, what: str, says: str, *, with_error: bool = False) -> Told:
    name, vendor = printable(str(endpoint), 120), printable(endpoint.vendor.name, 60)
    facts: dict[str, Any] = {
        "endpoint": {"id": endpoint.pk, "name": name, "protocol": endpoint.protocol},
        "vendor": {"slug": endpoint.vendor.slug, "name": vendor},
    }
    says = printable(says, MAX_SENTENCE_LENGTH)
    if with_error:
        facts["error"] = {"code": endpoint.error_code, "message": says}
    return Told(f"“{name}” of {vendor} {what}", says, f"/endpoints/{endpoint.pk}/", facts)
