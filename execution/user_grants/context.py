"""The context of a call besides its inputs: tokens and secrets, or the error for missing ones."""

from collections.abc import Sequence

from catalog.credentials.oauth import token_replies
from catalog.models import Call, EndUser
from core.outbound.errors import printable
from execution.user_grants import authorizing, end_users, grants, providers, vault
from execution.user_grants import tokens as user_tokens
from protocols.base import Context, Needs, Protocol
from protocols.call_outcome import QUESTIONS, Ask, Outcome

# Replaces the state of a protocol: the continued call is sent like a first one.
NOTHING_SENT = {"nothing_sent": True}
USER = "user_id"
_SOME_TEXT = {"type": "string", "minLength": 1}


class MissingError(Exception):
    """Something that the tool needs is not there. `outcome` is that of the call; nothing was sent."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


def context_of(call: Call, protocol: Protocol) -> Context:
    """Return the user, tokens and secrets of a call. Raises MissingError, DomainError."""
    thread = call.thread.remote_id if call.thread else ""
    questions = call.runtime.side.questions if call.runtime else QUESTIONS
    if not protocol.takes_context:
        return Context(thread=thread, questions=questions)
    needs = protocol.needs(call.version.decoded())
    if absent := missing_secrets(needs, vault.names(call.version.tool.endpoint) if needs.secrets else ()):
        names = ", ".join(f"“{printable(name, 100)}”" for name in absent)
        message = (
            f"The tool needs the secret {names}, which is not in the vault of its vendor. "
            "Ask an administrator to enter it there."
        )
        raise MissingError(Outcome("refused", error={"code": "SECRET_MISSING", "message": message}))
    if call.on_behalf_of:
        user = EndUser.objects.filter(agent=call.agent or 0, digest=call.on_behalf_of).first()
        if user is None:
            message = "The user of this call was deleted meanwhile. Call the tool again."
            raise MissingError(Outcome("refused", error={"code": "USER_FORGOTTEN", "message": message}))
        name = end_users.name_of(user)
    else:
        # A user who tries a tool may have been asked, now or in the calls that this one continues.
        step: Call | None = call
        while step and not isinstance(step.answers.get(USER), str):
            step = step.continues
        name = step.answers[USER] if step else ""
    if needs.user and not name:
        ask = Ask(USER, "The tool needs to know its user.", _SOME_TEXT)
        message = "The tool acts for a user, and the call does not name the user. Set “on_behalf_of”."
        raise MissingError(_authorization_outcome("USER_MISSING", message, [ask]))
    tokens = _request_tokens(call, needs) if needs.providers else {}
    secrets = vault.decrypt_secrets(call.version.tool.endpoint, needs.secrets)
    return Context(user=name, tokens=tokens, secrets=secrets, thread=thread, questions=questions)


def _request_tokens(call: Call, needs: Needs) -> dict[str, str]:
    # For providers with an OAuth client of Pegboard. At others, the vendor asks the user itself.
    endpoint = call.version.tool.endpoint
    clients_by_provider = {
        name: row for name, row in providers.clients(endpoint).items() if name in needs.providers
    }
    if not clients_by_provider:
        return {}
    user = grants.user_of(call)
    if user is None:
        names = ", ".join(f"“{printable(name, 100)}”" for name in clients_by_provider)
        message = f"The tool acts for a user at {names}, and the call does not name the user."
        raise MissingError(Outcome("refused", error={"code": "USER_MISSING", "message": message}))
    tokens: dict[str, str] = {}
    asks, refused = [], []
    asked_before = {ask.id for ask in call.continues.decoded().asks} if call.continues else set()
    for name, credential in clients_by_provider.items():
        scopes = needs.providers[name]
        token = user_tokens.token_for(user, endpoint, name, credential, scopes)
        if token is not None:
            tokens[name] = token
            continue
        if lacking := grants.refused_scopes(user, endpoint, name, scopes):
            refused.append(f"{token_replies.scope_names(lacking)} at “{printable(name, 100)}”")
            if name in asked_before:
                # A continued call has asked its user already.
                message = (
                    f"The user did not grant {refused[-1]}, which the tool needs. To ask again, call it "
                    "again."
                )
                raise MissingError(Outcome("refused", error={"code": "GRANT_REFUSED", "message": message}))
        url = authorizing.ask(user, call, name, credential=credential, scopes=scopes, site=call.site)
        asks.append(Ask(name, f"Let the tool act for you at {name}, then run it again.", url=url))
    if asks:
        names = ", ".join(f"“{printable(ask.id, 100)}”" for ask in asks)
        message = f"The user has to authorize the tool at {names} first. Show the user the address in “asks”."
        if refused:
            message += f" When asked before, the user did not grant {', '.join(refused)}."
        raise MissingError(_authorization_outcome("GRANT_MISSING", message, asks))
    return tokens


def missing_secrets(needs: Needs, stored_names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(needs.secrets) if name not in stored_names]


def _authorization_outcome(code: str, message: str, asks: Sequence[Ask]) -> Outcome:
    error = {"code": code, "message": message}
    return Outcome("needs_authorization", error=error, asks=asks, resume=NOTHING_SENT)
