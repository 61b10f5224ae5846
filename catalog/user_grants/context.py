"""What a call carries beside its inputs, found before anything is sent; or what is missing for it."""

from collections.abc import Sequence

from catalog.models import Call, EndUser
from catalog.protocols.base import Ask, Context, Needs, Outcome, Protocol
from catalog.user_grants import end_users, vault
from core.outbound.errors import printable

# In place of a protocol's own state: the call that goes on is made as it would have been at first.
NOTHING_SENT = {"nothing_sent": True}
USER = "user_id"
_SOME_TEXT = {"type": "string", "minLength": 1}


class MissingError(Exception):
    """Something that the tool needs is not there. `outcome` is that of the call; nothing was sent."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


def of(call: Call, protocol: Protocol) -> Context:
    """Raises MissingError, DomainError."""
    if not protocol.takes_context:
        return Context()
    needs = protocol.needs(call.version.decoded())
    if absent := missing_secrets(needs, vault.names(call.version.tool.endpoint) if needs.secrets else ()):
        raise MissingError(_without_secrets(absent))
    name = _name_of_user(call)
    if needs.user and not name:
        ask = Ask(USER, "The tool has to know who its user is.", _SOME_TEXT)
        message = "The tool acts for a user, and the call does not say for whom. Say it in “on_behalf_of”."
        raise MissingError(_asking("USER_MISSING", message, [ask]))
    return Context(user=name, secrets=vault.opened(call.version.tool.endpoint, needs.secrets))


def missing_secrets(needs: Needs, known: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(needs.secrets) if name not in known]


def _name_of_user(call: Call) -> str:
    if not call.on_behalf_of:
        # A user who tries a tool may have been asked for it, now or in the calls that this one continues.
        step: Call | None = call
        while step and not isinstance(answer := step.answers.get(USER), str):
            step = step.continues
        return answer if step else ""
    user = EndUser.objects.filter(agent=call.agent or 0, digest=call.on_behalf_of).first()
    if user is None:
        message = "The user of this call was forgotten meanwhile. Call the tool again."
        raise MissingError(Outcome("refused", error={"code": "USER_FORGOTTEN", "message": message}))
    return end_users.name_of(user)


def _without_secrets(absent: Sequence[str]) -> Outcome:
    named = ", ".join(f"“{printable(name, 100)}”" for name in absent)
    message = (
        f"The tool needs the secret {named}, which is not in the vault of its vendor. Ask an administrator "
        "to enter it there."
    )
    return Outcome("refused", error={"code": "SECRET_MISSING", "message": message})


def _asking(code: str, message: str, asks: Sequence[Ask]) -> Outcome:
    error = {"code": code, "message": message}
    return Outcome("needs_authorization", error=error, asks=asks, resume=NOTHING_SENT)
