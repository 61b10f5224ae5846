"""Evaluation models: OpenAI-compatible chat endpoints that administrators configure."""

from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core import display_names, encryption
from core.encryption import Secret
from core.errors import DomainError
from core.outbound.addresses import MAX_URL_LENGTH
from core.outbound.errors import ProtocolError
from core.outbound.policy import origin_of
from designer.models import RehearsalJudge
from designer.models.rehearsals import MAX_SECONDS, MAX_TRIES
from people import audit
from people.models import User

FIELD = "designer.rehearsaljudge.sealed"
MAX_JUDGES = 20
MAX_MODEL_LENGTH, MAX_KEY_LENGTH = 200, 4_000
KEY: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("API key"),
    max_length=MAX_KEY_LENGTH,
    blank=True,
    help_text=gettext_lazy("Stored encrypted and never shown again."),
)


def live() -> QuerySet[RehearsalJudge]:
    return RehearsalJudge.objects.filter(removed_at=None).order_by("name", "pk")


def find(pk: str | UUID) -> RehearsalJudge:
    """Return the evaluation model. Raises DomainError if there is none."""
    try:
        judge = live().filter(pk=UUID(str(pk))).first()
    except ValueError:
        judge = None
    if judge is None:
        message = _("No such evaluation model. Choose one that an administrator has set up, or “built-in”.")
        raise DomainError("unknown_judge", message, fields={"judge": message})
    return judge


@transaction.atomic
def create(
    *, actor: User, name: str, url: str, model: str, key: str = "", tries: int = 3, seconds: int = 30
) -> RehearsalJudge:
    """Add an evaluation model. `url` is the address to which `/chat/completions` is added. The key is never
    shown again.
    """
    if live().count() >= MAX_JUDGES:
        raise DomainError(
            "too_many_judges",
            _("There are {max_judges} evaluation models. Remove one first.").format(max_judges=MAX_JUDGES),
            status=409,
        )
    judge = RehearsalJudge()
    _apply_changes(judge, {"name": name, "url": url, "model": model, "tries": tries, "seconds": seconds})
    _store_key(judge, key)
    judge.save()
    audit.record(actor, "add", judge, after=facts(judge))
    return judge


@transaction.atomic
def change(judge: RehearsalJudge, *, actor: User, **changes: Any) -> RehearsalJudge:
    """Change `name`, `url`, `model`, `tries`, `seconds` or `key`. Without a new key the stored one remains,
    unless the URL's origin changes: the key was not entered for that origin.
    """
    judge = _lock_judge(judge)
    before, key = facts(judge), changes.pop("key", "")
    _apply_changes(judge, changes)
    if key:
        _store_key(judge, key)
    elif judge.origin != before["origin"]:
        _store_key(judge, "")
    if facts(judge) != before:
        judge.save()
        audit.record(actor, "edit", judge, before=before, after=facts(judge))
    return judge


@transaction.atomic
def remove(judge: RehearsalJudge, *, actor: User) -> None:
    """Remove the evaluation model and its key. Raises DomainError while agents use it."""
    judge = _lock_judge(judge)
    agents = [str(plan.agent) for plan in judge.plans.select_related("agent").order_by("agent__name")]
    if agents:
        agent_names = ", ".join(f"“{name}”" for name in agents[:5])
        message = _("{agent_names} use this evaluation model. Choose another one there first.").format(
            agent_names=agent_names
        )
        raise DomainError("judge_in_use", message, status=409)
    audit.record(actor, "remove", judge, before=facts(judge))
    judge.sealed, judge.fingerprint, judge.removed_at = "", "", timezone.now()
    judge.save()


def key_of(judge: RehearsalJudge) -> Secret | None:
    """Return the decrypted key, if there is one. Raises UndecryptableError."""
    if not judge.sealed:
        return None
    return encryption.decrypt(judge.sealed, row=judge.pk, field=FIELD, name=judge.name)


def facts(judge: RehearsalJudge) -> dict[str, Any]:
    """Return the values that may be shown of it."""
    return {
        "name": judge.name,
        "url": judge.url,
        "origin": judge.origin,
        "model": judge.model,
        "tries": judge.tries,
        "seconds": judge.seconds,
        "fingerprint": judge.fingerprint,
    }


def _lock_judge(judge: RehearsalJudge) -> RehearsalJudge:
    current = live().select_for_update().filter(pk=judge.pk).first()
    if current is None:
        raise DomainError("not_found", _("Another user removed this evaluation model."), status=404)
    return current


def _apply_changes(judge: RehearsalJudge, changes: dict[str, Any]) -> None:
    for member in ("name", "url", "model", "tries", "seconds"):
        value = changes.get(member, getattr(judge, member))
        setattr(judge, member, value.strip() if isinstance(value, str) else value)
    fields = {}
    if name_error := display_names.name_problem(judge.name, 100):
        fields["name"] = name_error
    elif live().filter(name=judge.name).exclude(pk=judge.pk).exists():
        fields["name"] = _("Another evaluation model has this name.")
    if not judge.model or len(judge.model) > MAX_MODEL_LENGTH or not judge.model.isprintable():
        fields["model"] = _("Enter the model, in at most {max_model_length} characters.").format(
            max_model_length=MAX_MODEL_LENGTH
        )
    if not 1 <= judge.tries <= MAX_TRIES:
        fields["tries"] = _("Enter a number from 1 to {max_tries}.").format(max_tries=MAX_TRIES)
    if not 1 <= judge.seconds <= MAX_SECONDS:
        fields["seconds"] = _("Enter a number of seconds from 1 to {max_seconds}.").format(
            max_seconds=MAX_SECONDS
        )
    try:
        judge.origin = origin_of(judge.url[: MAX_URL_LENGTH + 1])
        judge.url = judge.url.rstrip("/")
        if judge.url.endswith("/chat/completions"):
            fields["url"] = _("Enter the address without “/chat/completions”, which is added.")
    except ProtocolError as exc:
        fields["url"] = exc.message
    if fields:
        raise DomainError("invalid", next(iter(fields.values())), fields=fields)


def _store_key(judge: RehearsalJudge, key: str) -> None:
    key = key.strip()
    if len(key) > MAX_KEY_LENGTH or any(not " " < character < "\x7f" for character in key):
        message = _(
            "A key has at most {max_key_length} characters and no spaces. Enter it as the service issued it."
        ).format(max_key_length=MAX_KEY_LENGTH)
        raise DomainError("invalid", message, fields={"key": message})
    judge.sealed = encryption.encrypt(Secret(key), row=judge.pk, field=FIELD) if key else ""
    judge.fingerprint = encryption.fingerprint(Secret(key)) if key else ""
