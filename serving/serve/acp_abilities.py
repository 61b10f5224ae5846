"""The abilities of the agents of a release, which depend on the vendors and implementations of their
tools.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from catalog.models import Call, ToolVersion
from core.errors import DomainError
from designer.environments import bound_tools, environments
from designer.environments.bound_tools import Subject
from designer.exports import schema
from designer.exports.document import ReleasedTool
from designer.models import Release
from execution.activities import kinds, reach
from execution.calls import requesting
from execution.threads import configurations, threads
from people.models import ApiKey
from protocols.acp.client import ACP
from protocols.acp.document import CONFIG, interrupts, thread_state_schema
from protocols.acp.server.messages import QUESTIONS
from protocols.acp.server.release import Abilities


def abilities_of(released_tool: ReleasedTool, release: Release, key: ApiKey) -> Abilities:
    tool = released_tool.signature
    version = requesting.find_version(released_tool.id, released_tool.version.ordinal)
    if version is None:
        return Abilities(has_threads=False)
    has_threads = threads.can_have(version)
    config = configurations.parameter_of(version)
    visible_inputs = {row.parameter.name: row.parameter for row in tool.inputs}
    shown_config = visible_inputs.get(config.name) if config else None
    # In this protocol a configuration is not an input.
    others = tuple(row for row in tool.inputs if row.parameter is not shown_config)
    config_schema = shown_config.schema if shown_config else None
    if isinstance(config_schema, dict) and shown_config:
        description = shown_config.description
        if description != config_schema.get("description", CONFIG):
            config_schema = {**config_schema, "description": description}
    return Abilities(
        has_threads=has_threads,
        interrupts=_find_interrupts(released_tool, version, release, key),
        # The state of a thread may repeat outputs that a designer has hidden, so it is not described.
        thread_state=(
            thread_state_schema(version.decoded()) if has_threads and not tool.hidden_outputs else None
        ),
        input_schema=(
            schema.as_the_vendor_does(structs.replace(tool, inputs=others)) if shown_config else None
        ),
        config=config_schema,
    )


def _find_interrupts(
    tool: ReleasedTool, version: ToolVersion, release: Release, key: ApiKey
) -> Sequence[Mapping[str, Any]]:
    # An environment decides what runs, and it may change without a new release.
    try:
        place = environments.choose_environment(release, key)
        resolution = bound_tools.resolve(place, Subject.of_released(tool), agent=release.agent_id)
    except DomainError:
        return []  # nothing runs
    if resolution.runs == "vendor" and _declares_questions(version):
        return list(interrupts(version.decoded()).values())
    activity = bound_tools.version_of(resolution)
    if activity:
        reached = reach.find_reach([activity])[activity.pk]
        asks_itself = any(kinds.get(row.kind).may_ask(row.config) for row in reached.versions)
        may_ask = asks_itself or any(map(_vendor_may_ask, reached.tools))
    else:
        may_ask = resolution.runs == "vendor" and _vendor_may_ask(version)
    return [QUESTIONS] if may_ask else []


def _vendor_may_ask(version: ToolVersion) -> bool:
    if _declares_questions(version):
        return bool(interrupts(version.decoded()))
    return version.tool.endpoint.build_protocol().may_ask()


def _declares_questions(version: ToolVersion) -> bool:
    return version.tool.endpoint.protocol == ACP.name


def question_kind(call: Call) -> str:
    """Return the interrupt type of a call's question, "" if its vendor declares none."""
    is_vendors = call.activity_id is None and _declares_questions(call.version)
    return call.decoded().asks[0].id if is_vendors else ""
