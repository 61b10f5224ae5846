"""Activities that send one HTTP request: to an address that is fixed but for what inputs say in its path.

It goes out under the same rules as what is sent to vendors (core/outbound), with a credential that stays at
the origin that it was entered for. It is sent once.
"""

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import msgspec

from catalog.credentials import sessions
from catalog.models import Credential
from catalog.models.vendors import CredentialKind
from core.errors import DomainError, invalid
from core.outbound.errors import RefusedError
from core.outbound.policy import origin_of, source_of
from core.outbound.session import Session
from execution.activities import conversions, http_request
from execution.activities.base import Kind, Work
from execution.activities.conversions import UnfitValueError
from execution.activities.http_request import Template
from execution.activities.picking import Fault
from protocols.base import Note, Outcome
from protocols.calls import outcomes
from protocols.signature import Annotations, Signature

# Of all others a session says by itself what they mean: who may not, when to come back, what is away.
_ACCEPTED = {*range(200, 300), *range(400, 500)} - {401, 408, 425, 429}


class Http(Kind):
    name: ClassVar[str] = "http"
    label = "An HTTP request"
    summary = "Sends one request to an address of your own, and takes the outputs from the reply."

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        if faults := list(self.faults(config, interface)):
            fields = {fault.place: fault.message for fault in reversed(faults)}
            raise DomainError(faults[0].code, faults[0].message, fields=fields)
        kept: dict[str, Any] = msgspec.to_builtins(read(config))
        return kept

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterable[Fault]:
        template = read(config)
        found = list(http_request.faults(template, interface))
        if any(fault.place == "address" for fault in found):
            return found
        try:
            origin = origin_of(http_request.origin(template))
        except RefusedError as error:
            return [*found, Fault("address", "address_refused", error.message)]
        if template.credential:
            found += _faults_in_credential(template.credential, origin)
        return found

    def perform(self, work: Work) -> Outcome:
        template = read(work.config)
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
        speak = partial(_spoken, template, request, work.signature)
        return work.converse(partial(open_, mark=str(work.call.key)), speak)

    def why_confirm(self, config: Mapping[str, Any], effects: Annotations) -> str:
        method = read(config).method
        # What else a request does, only people know: our words for the tool may say that it destroys nothing.
        if method == "GET" or (method != "DELETE" and effects.destructive is False):
            return ""
        return f"sends a request with {method}, which may destroy something."

    def origins(self, config: Mapping[str, Any]) -> Iterable[str]:
        return [http_request.origin(read(config))]

    def credentials(self, config: Mapping[str, Any]) -> Iterable[str]:
        credential = read(config).credential
        return [credential] if credential else []


def read(config: Mapping[str, Any]) -> Template:
    """Raises DomainError for what is no template."""
    try:
        return msgspec.convert(config, Template)
    except msgspec.ValidationError as exc:
        raise invalid(config=f"The request cannot be read: {exc}.") from exc


def credential_of(template: Template) -> Credential | None:
    """Raises DomainError where the chosen one is gone."""
    if not template.credential:
        return None
    found = _found(template.credential)
    if found is None:
        raise DomainError("credential_removed", "The credential of this activity was removed.", status=409)
    return found


def _found(credential: str) -> Credential | None:
    try:
        pk = uuid.UUID(credential)
    except ValueError:
        return None
    return Credential.objects.filter(pk=pk, removed_at=None).first()


def _faults_in_credential(credential: str, origin: str) -> Iterable[Fault]:
    found = _found(credential)
    if found is None:
        yield Fault("credential", "unknown_credential", "There is no such credential.")
    elif found.kind == CredentialKind.OAUTH_USERS:
        message = f"“{found}” is for users of agents, and not for an activity."
        yield Fault("credential", "credential_of_users", message)
    elif found.origin != origin:
        message = f"“{found}” was entered for {found.origin} and is not sent anywhere else."
        yield Fault("credential", "credential_elsewhere", message)


def _spoken(template: Template, request: Any, signature: Signature, session: Session) -> Outcome:
    reply = session.send(request)
    kind = http_request.meaning(template, reply.status)
    if kind is None:
        return outcomes.complaint(reply)
    if kind != "ok":
        why, fields = outcomes.explanation(reply)
        message = f"The address answered {reply.status}{f': {why}' if why else '.'}"
        failure = outcomes.failed(kind, f"HTTP_{reply.status}", message, fields=fields)
        return outcomes.with_wait(failure, reply)
    known = {each.name: each for each in signature.outputs}
    answer = http_request.outputs(template, reply)
    found, notes = dict(answer.value), [*outcomes.notes_on(answer)]
    for name in found.keys() & known.keys():
        try:
            found[name] = conversions.converted(found[name], known[name])
        except UnfitValueError as error:
            notes.append(Note("VALUE_TYPE", f"“{name}” {error}."))
    return Outcome("ok", outputs=found, notes=notes)
