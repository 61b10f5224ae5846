"""Runs that translate a vendor's texts. Workers send one request after the other and commit each result."""

import time
from datetime import timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.models import Vendor
from catalog.models.translations import TranslationOrigin
from catalog.translations import files, languages, stored, tool_texts
from catalog.translations.languages import find_language
from catalog.translations.tool_texts import ToolText
from core import wakes
from core.encryption import UndecryptableError
from core.errors import DomainError
from core.outbound.errors import ProtocolError, RefusedError, printable
from designer.models import RehearsalJudge, RehearsalStatus, TranslationRun
from designer.rehearsals.openai_chat import InvalidReplyError
from designer.rehearsals.outside import request_chat
from designer.translations import chat
from people import audit
from people.models import User

TASK = "designer.tasks.translate"
# Of one request. A single longer text is sent alone.
MAX_TEXTS, MAX_CHARACTERS = 20, 6_000
TOOLS_AT_ONCE = 50
# A worker stops after so many seconds; a request may take 120 more, and the lease lasts longer.
PORTION_SECONDS, LEASE = 100.0, timedelta(minutes=8)
RETRY_DELAYS = (timedelta(seconds=15), timedelta(minutes=1), timedelta(minutes=4))
MAX_WAIT = timedelta(hours=1)
ACTIVE = (RehearsalStatus.QUEUED, RehearsalStatus.RUNNING)


class TextBatch(NamedTuple):
    """Texts for one request. after_tool: the tools up to it need no other request; tools_done: how many."""

    texts: list[ToolText]
    after_tool: int
    tools_done: int
    is_last: bool


@transaction.atomic
def start_run(*, actor: User, language: str, vendor: Vendor, judge: RehearsalJudge) -> TranslationRun:
    """Queue a run. Raises DomainError if one is active for the vendor and language."""
    find_language(language)
    Vendor.objects.select_for_update(no_key=True).get(pk=vendor.pk)
    if TranslationRun.objects.filter(vendor=vendor, language=language, status__in=ACTIVE).exists():
        message = _(
            "The texts of this vendor are being translated into this language. Wait, or cancel that run."
        )
        raise DomainError("translation_running", message, status=409)
    run = TranslationRun.objects.create(
        language=language,
        vendor=vendor,
        judge=judge,
        model=judge.model,
        tool_count=files.tools_to_translate(vendor.slug).count(),
        asked_by=actor,
        due_at=timezone.now(),
    )
    audit.record(actor, "start", run, after={"language": language, "model": judge.model})
    transaction.on_commit(lambda: wakes.wake_worker(TASK, run.pk))
    return run


@transaction.atomic
def cancel_run(run: TranslationRun, *, actor: User) -> None:
    """Stop the run after its current request. Finished translations stay."""
    if not TranslationRun.objects.filter(pk=run.pk, status__in=ACTIVE).update(
        status=RehearsalStatus.FAILED, message="Cancelled.", due_at=None, finished_at=Now()
    ):
        raise DomainError("translation_over", _("This run is over."), status=409)
    audit.record(actor, "cancel", run)


def tick() -> None:
    """Wake workers for due runs and for runs whose worker died. Any process may call this, and twice."""
    wakes.send_missing(TASK, due_runs().values_list("pk", flat=True)[: wakes.MAX_WAKES])


def due_runs() -> QuerySet[TranslationRun]:
    """Return the runs that a worker may continue now, the oldest first."""
    return TranslationRun.objects.filter(status__in=ACTIVE, due_at__lte=Now()).order_by("due_at", "pk")


def perform(run_id: int) -> None:
    """Translate a portion of the run. Workers call this."""
    if not due_runs().filter(pk=run_id).update(status=RehearsalStatus.RUNNING, due_at=Now() + LEASE):
        return
    run = TranslationRun.objects.select_related("judge", "vendor").get(pk=run_id)
    if run.judge.removed_at:
        _end_run(run, "The evaluation model was removed.")
        return
    try:
        is_over = _translate_portion(run)
    except (RefusedError, UndecryptableError) as exc:
        _end_run(run, printable(exc.message, 1_000))
    except (ProtocolError, InvalidReplyError) as exc:
        message = printable(getattr(exc, "message", str(exc)), 1_000)
        if run.attempts >= len(RETRY_DELAYS):
            _end_run(run, message)
            return
        retry_after = timedelta(seconds=getattr(exc, "retry_after", None) or 0)
        wait = max(RETRY_DELAYS[run.attempts], min(retry_after, MAX_WAIT))
        TranslationRun.objects.filter(pk=run.pk, status__in=ACTIVE).update(
            status=RehearsalStatus.QUEUED, due_at=Now() + wait, attempts=F("attempts") + 1, message=message
        )
    else:
        if is_over:
            _end_run(run, "")
        else:
            TranslationRun.objects.filter(pk=run.pk, status__in=ACTIVE).update(due_at=Now())


def _translate_portion(run: TranslationRun) -> bool:
    """Return whether the run is over: everything is translated, or it was cancelled."""
    ends = time.monotonic() + PORTION_SECONDS
    while time.monotonic() < ends:
        batch = find_untranslated(run)
        translations: dict[str, str] = {}
        if batch.texts:
            language = languages.BY_CODE[run.language].name
            body = chat.build_request(run.judge.model, language, batch.texts)
            translations = chat.parse_reply(request_chat(run.judge, body), batch.texts)
        # The result of a request is stored with the progress.
        with transaction.atomic():
            if not TranslationRun.objects.select_for_update().get(pk=run.pk).is_active:
                return True
            counts = stored.write_translations(
                translations,
                language=run.language,
                origin=TranslationOrigin.MODEL,
                actor=None,
                model=run.model,
                why=f"Translation run {run.pk}",
                replaces=False,
            )
            run.translated += counts.added
            run.refused += [text.digest for text in batch.texts if text.digest not in translations]
            run.after_tool, run.attempts = batch.after_tool, 0
            run.tools_done += batch.tools_done
            run.save(update_fields=["translated", "refused", "after_tool", "attempts", "tools_done"])
        if batch.is_last:
            return True
    return False


def find_untranslated(run: TranslationRun) -> TextBatch:
    """Return the next texts of the vendor that have no translation into the language of the run."""
    texts: dict[str, ToolText] = {}
    last, done, refused = run.after_tool, 0, set(run.refused)
    rows = files.tools_to_translate(run.vendor.slug).filter(pk__gt=run.after_tool).order_by("pk")
    tools = list(rows.select_related("current", "texts")[:TOOLS_AT_ONCE])
    for tool in tools:
        is_in_language = hasattr(tool, "texts") and tool.texts.language == run.language
        if tool.current is None or is_in_language:
            missing_texts = []
        else:
            missing_texts = tool_texts.texts_of(tool.current.decoded())
            translations = stored.translations_of([text.digest for text in missing_texts], run.language)
            missing_texts = [text for text in missing_texts if text.digest not in translations]
        missing = [text for text in missing_texts if text.digest not in refused and text.digest not in texts]
        for text in missing:
            size = len(text.source) + sum(len(other.source) for other in texts.values())
            if texts and (len(texts) >= MAX_TEXTS or size > MAX_CHARACTERS):
                return TextBatch(list(texts.values()), last, done, is_last=False)
            texts[text.digest] = text
        last, done = tool.pk, done + 1
    return TextBatch(list(texts.values()), last, done, is_last=len(tools) < TOOLS_AT_ONCE)


def _end_run(run: TranslationRun, message: str) -> None:
    status = RehearsalStatus.FAILED if message else RehearsalStatus.SUCCEEDED
    TranslationRun.objects.filter(pk=run.pk, status__in=ACTIVE).update(
        status=status, message=message, due_at=None, finished_at=Now()
    )
