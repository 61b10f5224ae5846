"""What is asked of a call before it is made: whether it may run now, and what a person has to confirm."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catalog.activities import kinds, reach
from catalog.activities.reach import Reached
from catalog.calls import results
from catalog.calls.runtime import Runtime
from catalog.models import ActivityVersion, Endpoint, ToolVersion
from catalog.models.calls import Asked
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.tools import effective_texts
from core.canonical_json import canonical
from core.errors import DomainError
from protocols.base import Outcome, is_withheld
from protocols.signature import Annotations

MAX_ARGUMENTS_BYTES = 256 * 1024


class ArgumentsError(DomainError):
    """The call would be refused before anything is sent; `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        error = outcome.error or {}
        super().__init__("invalid_arguments", error.get("message", ""), fields=dict(error.get("fields", {})))
        self.outcome = outcome


class ConfirmationError(DomainError):
    """A person has to confirm the call first."""

    def __init__(self, why: str) -> None:
        message = f"{why} Confirm that it shall run."
        super().__init__("confirm_needed", message, fields={"confirm": "Say yes to run it."}, status=409)


def refuse_answers(asks: Sequence[Asked], answers: Mapping[str, Any]) -> None:
    """Raises ArgumentsError for answers that do not fit what was asked."""
    faults = dict.fromkeys(answers.keys() - {ask.id for ask in asks}, "was not asked")
    for ask in asks:
        is_left_out = ask.id in answers and is_withheld(answers[ask.id])
        if ask.schema is not None and not is_left_out:
            faults |= results.faults_in_answer(ask, answers.get(ask.id))
    if faults:
        said = {"code": "ARGUMENTS", "message": "Some answers do not fit.", "fields": faults}
        raise ArgumentsError(Outcome("invalid_arguments", error=said))


def why_confirm(version: ToolVersion, activity: ActivityVersion | None = None) -> str:
    """What a person has to know and confirm before this version runs, or `activity` for it; empty for
    most."""
    effects = effective_texts.effects(version.tool, version.decoded())
    return reason_to_confirm(version, () if activity else review_states(version), effects, activity)


def reason_to_confirm(
    version: ToolVersion,
    states: Collection[FindingState],
    effects: Annotations,
    activity: ActivityVersion | None = None,
) -> str:
    if activity and not kinds.get(activity.kind).acts:
        return ""
    if why := _why_by_itself(version, states, effects):
        return why
    if activity is None:
        return ""
    found = reach.reached([activity])[activity.pk]
    return why_confirm_reached(found, effects, whys_by_version(found.tools))


def _why_by_itself(version: ToolVersion, states: Collection[FindingState], effects: Annotations) -> str:
    if FindingState.OPEN in states:
        return f"“{version.tool}” waits for review, so what would run has not been approved."
    if version.decoded().annotations.destructive is True:
        return f"The vendor says that “{version.tool}” may destroy something."
    if effects.destructive is True:
        return f"Words for all agents say that “{version.tool}” may destroy something."
    return ""


def why_confirm_reached(found: Reached, effects: Annotations, whys: Mapping[int, str]) -> str:
    """The same of all that an activity runs, whose steps are not asked about once it runs. `effects` are
    those of the tool that it runs for, and `whys` what `whys_by_version` says of the tools that it calls."""
    for each in found.versions:
        if why := kinds.get(each.kind).why_confirm(each.config, effects):
            return f"“{each.activity}” {why}"
    return next((whys[each.pk] for each in found.tools if each.pk in whys), "")


def whys_by_version(versions: Collection[ToolVersion]) -> dict[int, str]:
    """Why each has to be confirmed, by primary key, of those that have to be; in two statements at most."""
    ran = {each.pk: [each, *_listed(each)] for each in versions}
    states = holds.review_states([row for rows in ran.values() for row in rows]) if ran else {}
    ours = effective_texts.rewrites([each.tool_id for each in versions if each.tool.is_tuned])
    told = {}
    for each in versions:
        said = each.decoded()
        effects = ours[each.tool_id].reword(said).annotations if each.tool_id in ours else said.annotations
        of_it = [states[row.pk] for row in ran[each.pk] if row.pk in states]
        if why := _why_by_itself(each, of_it, effects):
            told[each.pk] = why
    return told


def review_states(version: ToolVersion) -> Collection[FindingState]:
    """What review says of all that may run where this version is called."""
    versions = [version, *_listed(version)]
    if version.read_stopping is None:
        return holds.review_states(versions).values()
    return holds.states_by(version.read_stopping, versions).values()


def _listed(version: ToolVersion) -> list[ToolVersion]:
    # A vendor without versions runs what it lists, whichever was chosen.
    return [version.tool.stopped] if version.tool.stopped and not version.label else []


def refuse_unfit(version: ToolVersion, states: Collection[FindingState], runtime: Runtime | None) -> None:
    """Raises DomainError for a version that may not run now. `states` are its `review_states`."""
    refuse_removed(version.tool.endpoint)
    if runtime and FindingState.OPEN in states:
        message = (
            f"“{runtime.tool}” waits for review in Pegboard, so it does not run until an administrator "
            "accepts it."
        )
        raise DomainError("waits_for_review", message, status=409)
    if FindingState.BLOCKED in states:
        raise DomainError("version_blocked", f"“{version.tool}” was blocked in review.", status=409)


def refuse_too_large(given: Mapping[str, Any]) -> None:
    if len(canonical(given)) > MAX_ARGUMENTS_BYTES:
        raise DomainError("too_large", f"The inputs are larger than {MAX_ARGUMENTS_BYTES // 1024} kB.")


def refuse_removed(endpoint: Endpoint) -> None:
    if not endpoint.is_live:
        raise DomainError("endpoint_removed", "The vendor was removed, so its tools cannot run.", status=409)
