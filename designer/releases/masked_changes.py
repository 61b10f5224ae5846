"""Differences of releases as people see them: a changed sensitive preset has a mask on both sides."""

from collections.abc import Mapping
from dataclasses import replace

from catalog.models import SensitiveValues
from catalog.rules.sensitive_values import mask_part
from catalog.tools.sensitive_values import marks_of
from core.schema import pointers
from designer.exports.document import ReleaseDocument
from designer.exports.round_trip import presets_of
from designer.releases.diff import AgentDifference, ReleasedToolChange, TreeChange, compare_releases


def compare_masked(before: ReleaseDocument | None, after: ReleaseDocument) -> TreeChange:
    """Compare two releases, and mask the sensitive presets of the changed tools."""
    changes = compare_releases(before, after)
    agents = (changes.own, *changes.agents)
    changed = {tool.tool for agent in agents for tool in (*agent.tools, *agent.context) if tool.members}
    nodes = [node for document in (before, after) if document for node in document.nodes]
    tools = {
        tool.id for node in nodes for tool in node.tools if tool.id in changed and presets_of(tool.signature)
    }
    marks = marks_of(tools) if tools else {}
    if not any(row.inputs for row in marks.values()):
        return changes
    masked_agent, *others = (_masked_agent(agent, marks) for agent in agents)
    return TreeChange(masked_agent, others)


def _masked_agent(agent: AgentDifference, marks: Mapping[int, SensitiveValues]) -> AgentDifference:
    def masked_change(change: ReleasedToolChange) -> ReleasedToolChange:
        if change.tool not in marks:
            return change
        members = [
            pointers.join((side, steps[0], "preset", *steps[1:]))
            for steps in map(pointers.split, marks[change.tool].inputs)
            for side in ("inputs", "hidden")
        ]
        masked = [
            replace(
                row,
                before=mask_part(row.before, row.steps, members),
                after=mask_part(row.after, row.steps, members),
            )
            for row in change.members
        ]
        return replace(change, members=masked)

    tools, context = (
        [masked_change(change) for change in changes] for changes in (agent.tools, agent.context)
    )
    return replace(agent, tools=tools, context=context)
