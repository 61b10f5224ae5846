"""Changes of what runs for a tool, with the checks of publishing in default and protected environments.

A change there is refused like a publication whose checks fail, unless a user accepts each failed check by its
code with a reason. docs/decisions/0081-checked-bindings.md has the alternatives.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db import transaction

from catalog.models import Activity, ActivityVersion, Tool
from core.errors import invalid
from designer import environments
from designer.environments import WHATEVER
from designer.errors import ChecksFailedError
from designer.models import Agent, Binding, Environment
from designer.readiness import obstacles
from designer.readiness.obstacles import AgentTool
from designer.releases import draft_checks
from designer.releases.checks import not_accepted
from people.models import User


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The codes of failed checks that a user accepts, and the reason for the audit trail."""

    codes: Collection[str] = ()
    reason: str = ""


NOTHING_ACCEPTED = Acceptance()


@transaction.atomic
def bind(
    environment: Environment,
    tool: Tool,
    *,
    actor: User,
    activity: Activity | None,
    version: ActivityVersion | None = None,
    expected: str = WHATEVER,
    acceptance: Acceptance = NOTHING_ACCEPTED,
) -> Binding:
    """See `environments.bind`. Raises ChecksFailedError."""
    binding = environments.bind(
        environment,
        tool,
        actor=actor,
        activity=activity,
        version=version,
        expected=expected,
        reason=acceptance.reason,
    )
    _run_checks(environment.agent, tool, [environment], actor, acceptance)
    return binding


@transaction.atomic
def unbind(
    environment: Environment,
    tool: Tool,
    *,
    actor: User,
    expected: str = WHATEVER,
    acceptance: Acceptance = NOTHING_ACCEPTED,
) -> None:
    """See `environments.unbind`. Raises ChecksFailedError."""
    environments.unbind(environment, tool, actor=actor, expected=expected, reason=acceptance.reason)
    _run_checks(environment.agent, tool, [environment], actor, acceptance)


@transaction.atomic
def move_named(
    agent: Agent,
    tool: Tool,
    *,
    actor: User,
    activity: Activity,
    version: ActivityVersion,
    acceptance: Acceptance = NOTHING_ACCEPTED,
) -> None:
    """See `environments.move_named`. Raises ChecksFailedError."""
    environments.move_named(
        agent, tool, actor=actor, activity=activity, version=version, reason=acceptance.reason
    )
    _run_checks(agent, tool, list(agent.environments.all()), actor, acceptance)


def _run_checks(
    agent: Agent, tool: Tool, affected: Iterable[Environment], actor: User, acceptance: Acceptance
) -> None:
    checked = [environment for environment in affected if environment.is_default or environment.is_protected]
    if not checked:
        return
    pins = [pin for pin in environments.pins_of(agent) if pin.tool_id == tool.pk]
    readiness = obstacles.of_tools(agent, [AgentTool.of_pin(pin) for pin in pins], places=checked)
    # Two agents of the tree may have the tool, and the checks find a pin by its name.
    checks = [
        check
        for environment in checked
        for pin, tool_readiness in zip(pins, readiness[environment.pk], strict=True)
        for check in draft_checks.readiness_checks([pin], agent, [tool_readiness])
    ]
    failed_checks = not_accepted(checks, acceptance.codes, is_admin=actor.can_administer)
    if failed_checks:
        reasons = " ".join(check.message for check in failed_checks)
        message = f"Nothing was changed: {reasons} To change it anyway, accept the check with a reason."
        raise ChecksFailedError(message, checks)
    if any(check.severity == "error" for check in checks) and not acceptance.reason.strip():
        raise invalid(reason="Give the reason for which the failed checks are accepted.")
