"""Assess changed tools: findings for broken promises, and stops by the endpoint's policy."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from django.utils import timezone

from catalog.enumeration.current_tools import CurrentTool
from catalog.enumeration.staging import AssessedTool, StagedTool
from catalog.models import Finding, Run, ToolVersion
from catalog.models.tools import version_name
from catalog.review import breaches
from catalog.rules import assess, policy
from catalog.rules.assess import OfferedVersion
from core.failpoints import failpoint
from protocols import signature


def assess_changes(
    run: Run,
    promises: Collection[str],
    current: Mapping[str, CurrentTool],
    changed_tools: Sequence[tuple[str, StagedTool]],
) -> tuple[list[Finding], dict[int, AssessedTool]]:
    """Compare each changed tool with its version in effect.

    Return the findings, and the assessments by the tool's primary key: only of tools whose new version is
    stopped or raises an alarm. promises: those of the protocol (`Protocol.promises`).
    """
    findings: list[Finding] = []
    assessed: dict[int, AssessedTool] = {}
    endpoint_policy = policy.with_defaults(run.endpoint.policy)
    version_ids = [pk for tool, _ in changed_tools if (pk := current[tool].in_effect)]
    before = {version.tool_id: version for version in ToolVersion.objects.filter(pk__in=version_ids)}
    texts_by_tool = _signatures_under_label([row for _, row in changed_tools])
    for tool, row in changed_tools:
        pk = current[tool].pk
        old, texts = before.get(pk), texts_by_tool[pk]
        failpoint("compare")
        assessment = assess.assess(
            OfferedVersion(old.decoded(), old.label, old.digest) if old else None,
            OfferedVersion(signature.from_json(row.signature), row.label, row.digest),
            promised_rules=promises,
            is_rewritten=bool(texts) and row.signature not in texts,
        )
        old_pk = old.pk if old else None
        findings += [breaches.finding(run, pk, breach, old_pk) for breach in assessment.breaches]
        stop = assessment.stop(endpoint_policy)
        if stop or assessment.alarms:
            name = version_name(row.label, len(texts), timezone.now()) if row.label else ""
            assessed[pk] = AssessedTool(stop, name, assess.to_json(assessment.alarms))
    return findings, assessed


def _signatures_under_label(changed_tools: Sequence[StagedTool]) -> dict[int, list[str]]:
    """Return the stored signatures by tool that have the same version label as the staged one."""
    labels = {tool.tool_pk: tool.label for tool in changed_tools if tool.tool_pk and tool.label}
    rows = ToolVersion.objects.filter(tool__in=labels, label__in=set(labels.values())).order_by()
    texts_by_tool: dict[int, list[str]] = defaultdict(list)
    for tool, label, text in rows.values_list("tool_id", "label", "signature") if labels else ():
        if labels[tool] == label:
            texts_by_tool[tool].append(text)
    return texts_by_tool
