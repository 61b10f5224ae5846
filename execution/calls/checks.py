"""Checks before a call: whether it may run now, and what a user must confirm."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catalog.models import ActivityVersion, Endpoint, ToolVersion
from catalog.models.calls import StoredQuestion
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.tools import effective_texts
from core.canonical_json import canonical
from core.errors import DomainError
from execution.activities import kinds, reach
from execution.activities.reach import ActivityReach
from execution.calls import results
from execution.calls.runtime import Runtime
from protocols.call_outcome import Outcome, is_withheld
from protocols.signature import Annotations

MAX_ARGUMENTS_BYTES = 256 * 1024


class ArgumentsError(DomainError):
    """The arguments of a call are invalid, so nothing is sent. `outcome` has the reasons."""

    def __init__(self, outcome: Outcome) -> None:
        error = outcome.error or {}
        super().__init__("invalid_arguments", error.get("message", ""), fields=dict(error.get("fields", {})))
        self.outcome = outcome


class ConfirmationError(DomainError):
    """A user must confirm the call first."""

    def __init__(self, why: str) -> None:
        message = f"{why} Confirm to run it."
        super().__init__("confirm_needed", message, fields={"confirm": "Confirm to run it."}, status=409)


def refuse_answers(asks: Sequence[StoredQuestion], answers: Mapping[str, Any]) -> None:
    """Raise ArgumentsError for answers that do not fit the questions."""
    faults = dict.fromkeys(answers.keys() - {ask.id for ask in asks}, "was not asked")
    for ask in asks:
        is_left_out = ask.id in answers and is_withheld(answers[ask.id])
        if ask.schema is not None and not is_left_out:
            faults |= results.faults_in_answer(ask, answers.get(ask.id))
    if faults:
        error = {"code": "ARGUMENTS", "message": "Some answers do not fit.", "fields": faults}
        raise ArgumentsError(Outcome("invalid_arguments", error=error))


def why_confirm(version: ToolVersion, activity: ActivityVersion | None = None) -> str:
    """Return the sentence that a user must confirm before this version or the `activity` runs; "" for
    none.
    """
    effects = effective_texts.effects(version.tool, version.decoded())
    return reason_to_confirm(version, () if activity else review_states(version), effects, activity)


def reason_to_confirm(
    version: ToolVersion,
    states: Collection[FindingState],
    effects: Annotations,
    activity: ActivityVersion | None = None,
) -> str:
    """Return the sentence that a user must confirm before the version or the `activity` runs; "" for none.

    states: of the version's findings. effects: of the version, with the tuning for all agents.
    """
    if activity and not kinds.get(activity.kind).acts:
        return ""  # This activity only writes an output, so it has no effects.
    if reason := _version_reason(version, states, effects):
        return reason
    if activity is None:
        return ""
    reached = reach.find_reach([activity])[activity.pk]
    return why_confirm_reached(reached, effects, whys_by_version(reached.tools))


def _version_reason(version: ToolVersion, states: Collection[FindingState], effects: Annotations) -> str:
    if FindingState.OPEN in states:
        return f"“{version.tool}” waits for review, so what would run has not been approved."
    if version.decoded().annotations.destructive is True:
        return f"The vendor declares that “{version.tool}” may destroy something."
    if effects.destructive is True:
        return f"Its tuning for all agents declares that “{version.tool}” may destroy something."
    return ""


def why_confirm_reached(activity_reach: ActivityReach, effects: Annotations, whys: Mapping[int, str]) -> str:
    """Return the sentence that a user must confirm before an activity runs, because its steps are not
    confirmed one by one.

    effects: of the tool that the activity implements. whys: the reasons of `whys_by_version` for the called
    tools.
    """
    for activity in activity_reach.versions:
        if reason := kinds.get(activity.kind).why_confirm(activity.config, effects):
            return f"“{activity.activity}” {reason}"
    return next((whys[tool.pk] for tool in activity_reach.tools if tool.pk in whys), "")


def whys_by_version(versions: Collection[ToolVersion]) -> dict[int, str]:
    """Return the reasons by primary key for the versions that must be confirmed, in at most two
    statements."""
    callable_versions = {version.pk: [version, *_listed_version(version)] for version in versions}
    states = (
        holds.review_states([row for rows in callable_versions.values() for row in rows]) if versions else {}
    )
    rewrites = effective_texts.rewrites([version.tool_id for version in versions if version.tool.is_tuned])
    reasons = {}
    for version in versions:
        signature = version.decoded()
        if version.tool_id in rewrites:
            signature = rewrites[version.tool_id].reword(signature)
        version_states = [states[row.pk] for row in callable_versions[version.pk] if row.pk in states]
        if reason := _version_reason(version, version_states, signature.annotations):
            reasons[version.pk] = reason
    return reasons


def review_states(version: ToolVersion) -> Collection[FindingState]:
    """Return the review states of everything that a call of this version may run."""
    versions = [version, *_listed_version(version)]
    if version.read_stopping is None:
        return holds.review_states(versions).values()
    return holds.states_by(version.read_stopping, versions).values() if version.read_stopping else ()


def _listed_version(version: ToolVersion) -> list[ToolVersion]:
    """Return the held version of a vendor without version labels, which runs regardless of the chosen
    version.
    """
    return [version.tool.stopped] if version.tool.stopped and not version.label else []


def refuse_unfit(version: ToolVersion, states: Collection[FindingState], runtime: Runtime | None) -> None:
    """Raise DomainError for a version that may not run now. `states`: its `review_states`."""
    refuse_removed(version.tool.endpoint)
    if runtime and FindingState.OPEN in states:
        message = (
            f"“{runtime.tool}” waits for review in Pegboard, so it does not run until an administrator "
            "accepts it."
        )
        raise DomainError("waits_for_review", message, status=409)
    if FindingState.BLOCKED in states:
        raise DomainError("version_blocked", f"“{version.tool}” was blocked in review.", status=409)


def refuse_too_large(arguments: Mapping[str, Any]) -> None:
    if len(canonical(arguments)) > MAX_ARGUMENTS_BYTES:
        raise DomainError("too_large", f"The inputs are larger than {MAX_ARGUMENTS_BYTES // 1024} kB.")


def refuse_removed(endpoint: Endpoint) -> None:
    if not endpoint.is_live:
        raise DomainError("endpoint_removed", "The vendor was removed, so its tools cannot run.", status=409)
