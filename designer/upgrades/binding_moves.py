"""Change the activity that runs for a tool, with the checks of publishing in default and protected
environments.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from catalog.models import Activity, ActivityVersion, Tool
from core.errors import invalid
from core.translatable import Wording, join_sentences, mark
from designer.agents import agents
from designer.environments import bound_tools, environments
from designer.environments.environments import WHATEVER
from designer.errors import ChecksFailedError
from designer.models import Agent, Binding, CallEnvironment, Environment, Pin
from designer.readiness import obstacles
from designer.readiness.obstacles import AgentTool
from designer.releases import draft_checks
from designer.releases.checks import Check, not_accepted
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
    """Bind as `environments.bind` does, if the checks of the move pass. Raises ChecksFailedError."""
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
    """Unbind as `environments.unbind` does, if the checks of the move pass. Raises ChecksFailedError."""
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
    """Move as `environments.move_named` does, if the checks of the move pass. Raises ChecksFailedError."""
    environments.move_named(
        agent, tool, actor=actor, activity=activity, version=version, reason=acceptance.reason
    )
    _run_checks(agent, tool, list(agent.environments.all()), actor, acceptance)


@transaction.atomic
def create_environment(
    agent: Agent,
    *,
    actor: User,
    name: str,
    is_default: bool = False,
    acceptance: Acceptance = NOTHING_ACCEPTED,
) -> Environment:
    """Create an environment, and make it the default one if requested. Raises ChecksFailedError."""
    environment = environments.create(agent, actor=actor, name=name)
    return make_default(environment, actor=actor, acceptance=acceptance) if is_default else environment


@transaction.atomic
def make_default(
    environment: Environment,
    *,
    actor: User,
    is_default: bool = True,
    acceptance: Acceptance = NOTHING_ACCEPTED,
) -> Environment:
    """See `environments.make_default`.

    Raises ChecksFailedError if a check fails that passes now for callers that name no environment.
    """
    agent = agents.lock_agent(environment.agent)
    pins = bound_tools.pins_of(agent)
    earlier_checks = _read_checks(agent, pins, [bound_tools.default_place(agent.pk)])
    environment = environments.make_default(
        environment, actor=actor, is_default=is_default, reason=acceptance.reason
    )
    checks = _read_checks(agent, pins, [bound_tools.default_place(agent.pk)])
    _refuse_failed([check for check in checks if check not in earlier_checks], actor, acceptance)
    return environment


def _run_checks(
    agent: Agent, tool: Tool, affected: Iterable[Environment], actor: User, acceptance: Acceptance
) -> None:
    checked_environments = [
        environment for environment in affected if environment.is_default or environment.is_protected
    ]
    if checked_environments:
        pins = [pin for pin in bound_tools.pins_of(agent) if pin.tool_id == tool.pk]
        _refuse_failed(_read_checks(agent, pins, checked_environments), actor, acceptance)


def _read_checks(
    agent: Agent, pins: Sequence[Pin], checked: Sequence[CallEnvironment | Environment | None]
) -> list[Check]:
    """Return the checks of these tools in each environment; None is outside of all."""
    readiness = obstacles.of_tools(agent, [AgentTool.of_pin(pin) for pin in pins], places=checked)
    # Two agents of the tree may have tools of one name, and the checks find a pin by its name.
    return [
        check
        for environment in checked
        for pin, tool_readiness in zip(pins, readiness[environment.pk if environment else 0], strict=True)
        for check in draft_checks.readiness_checks([pin], agent, [tool_readiness])
    ]


def _refuse_failed(checks: Sequence[Check], actor: User, acceptance: Acceptance) -> None:
    failed_checks = not_accepted(checks, acceptance.codes, is_admin=actor.can_administer)
    if failed_checks:
        template = mark("Nothing was changed: {reasons} To change it anyway, accept the check with a reason.")
        reasons = join_sentences(check.message for check in failed_checks)
        raise ChecksFailedError(Wording(template, {"reasons": reasons}), checks)
    if any(check.severity == "error" for check in checks) and not acceptance.reason.strip():
        raise invalid(reason=_("Enter the reason why the failed checks are accepted."))
