"""Activities that send one HTTP request. Its address is fixed, apart from inputs in its path.

It obeys the same rules as requests to vendors (core/outbound). Its credential is sent only to the origin that
it was entered for. The request is sent once.
"""

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials import sessions
from catalog.models import Credential
from catalog.models.vendors import OAuthKind
from core.errors import DomainError, invalid
from core.outbound.errors import RefusedError
from core.outbound.policy import origin_of, source_of
from core.outbound.session import HttpSession
from execution.activities import conversions, http_request
from execution.activities.base import ActivityKind, ActivityWork
from execution.activities.conversions import UnfitValueError
from execution.activities.http_request import Template
from execution.activities.picking import ActivityFault
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.list_pages import Note
from protocols.signature import Annotations, Signature

# The session itself raises errors for the others: unauthorized, wait, or unavailable.
_ACCEPTED = {*range(200, 300), *range(400, 500)} - {401, 408, 425, 429}


class Http(ActivityKind):
    name: ClassVar[str] = "http"
    label = gettext_lazy("An HTTP request")
    summary = gettext_lazy("Sends one request to your own address, and reads the outputs from the reply.")

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        if faults := list(self.faults(config, interface)):
            fields = {fault.place: fault.message for fault in reversed(faults)}
            raise DomainError(faults[0].code, faults[0].message, fields=fields)
        stored: dict[str, Any] = msgspec.to_builtins(read_template(config))
        return stored

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterable[ActivityFault]:
        template = read_template(config)
        faults = list(http_request.faults(template, interface))
        if any(fault.place == "address" for fault in faults):
            return faults
        try:
            origin = origin_of(http_request.origin(template))
        except RefusedError as error:
            return [*faults, ActivityFault("address", "address_refused", error.message)]
        if not template.credential:
            return faults
        row = _find_credential(template.credential)
        if row is None:
            code, message = "unknown_credential", _("There is no such credential.")
        elif row.kind == OAuthKind.USERS:
            code = "credential_of_users"
            message = _("“{credential}” is for users of agents, and not for an implementation.").format(
                credential=row
            )
        elif row.origin != origin:
            code = "credential_elsewhere"
            message = _("“{credential}” was entered for {origin} and is not sent anywhere else.").format(
                credential=row, origin=row.origin
            )
        else:
            return faults
        return [*faults, ActivityFault("credential", code, message)]

    def perform(self, work: ActivityWork) -> Outcome:
        template = read_template(work.config)
        accept = tuple(sorted(_ACCEPTED | {int(status) for status in template.statuses}))
        try:
            request = http_request.request(template, work.call.arguments, accept)
        except UnfitValueError as error:
            return outcomes.failed("invalid_arguments", "ARGUMENTS", f"Some inputs do not fit: {error}.")
        credential = credential_of(template)
        open_ = partial(
            sessions.open_address,
            http_request.origin(template),
            credential,
            source=source_of(
                is_administrator=work.call.activity is not None and work.call.activity.is_by_administrator
            ),
        )
        exchange = partial(_send_request, template, request, work.signature)
        return work.converse(partial(open_, mark=str(work.call.key)), exchange)

    def why_confirm(self, config: Mapping[str, Any], effects: Annotations) -> str:
        method = read_template(config).method
        # Pegboard cannot know what other methods do; a tuned effect may state that the tool destroys nothing.
        if method == "GET" or (method != "DELETE" and effects.destructive is False):
            return ""
        return f"sends a request with {method}, which may destroy something."

    def origins(self, config: Mapping[str, Any]) -> Iterable[str]:
        return [http_request.origin(read_template(config))]

    def credentials(self, config: Mapping[str, Any]) -> Iterable[str]:
        credential = read_template(config).credential
        return [credential] if credential else []


def read_template(config: Mapping[str, Any]) -> Template:
    """Parse a stored configuration. Raises DomainError if it is not a template."""
    try:
        return msgspec.convert(config, Template)
    except msgspec.ValidationError as exc:
        raise invalid(config=f"The request cannot be read: {exc}.") from exc


def credential_of(template: Template) -> Credential | None:
    """Return the credential of a template. Raises DomainError if it was removed."""
    if not template.credential:
        return None
    credential = _find_credential(template.credential)
    if credential is None:
        raise DomainError(
            "credential_removed", "The credential of this implementation was removed.", status=409
        )
    return credential


def _find_credential(credential: str) -> Credential | None:
    try:
        pk = uuid.UUID(credential)
    except ValueError:
        return None
    return Credential.objects.filter(pk=pk, removed_at=None).first()


def _send_request(template: Template, request: Any, signature: Signature, session: HttpSession) -> Outcome:
    reply = session.send(request)
    kind = http_request.outcome_of_status(template, reply.status)
    if kind is None:
        return outcomes.complaint(reply)
    if kind != "ok":
        reason, fields = outcomes.explanation(reply)
        message = f"The address answered {reply.status}{f': {reason}' if reason else '.'}"
        failure = outcomes.failed(kind, f"HTTP_{reply.status}", message, fields=fields)
        return outcomes.with_wait(failure, reply)
    parameters = {parameter.name: parameter for parameter in signature.outputs}
    answer = http_request.outputs(template, reply)
    values, notes = dict(answer.value), [*outcomes.notes_on(answer)]
    for name in values.keys() & parameters.keys():
        try:
            values[name] = conversions.convert_value(values[name], parameters[name])
        except UnfitValueError as error:
            notes.append(Note("VALUE_TYPE", f"“{name}” {error}."))
    return Outcome("ok", outputs=values, notes=notes)
