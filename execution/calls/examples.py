"""Arguments that users store under a name, to fill the form or to run a call again."""

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from catalog.models import Call, Example, Tool
from core import display_names
from core.errors import DomainError
from execution.calls import masking
from people import audit
from people.models import User

MAX_NAME_LENGTH = 100
MAX_PER_TOOL = 50


def save_example(call: Call, *, actor: User, name: str) -> Example:
    """Store the arguments of the call without sensitive values of other tools, which no mark here masks."""
    return store_example(call.tool, masking.own_arguments(call), actor=actor, name=name, call=call)


@transaction.atomic
def store_example(
    tool: Tool, arguments: dict[str, Any], *, actor: User, name: str, call: Call | None = None
) -> Example:
    """Store an example. Raises DomainError for an invalid or taken name, and if the tool has too many
    examples."""
    name = name.strip()
    if reason := display_names.name_problem(name, MAX_NAME_LENGTH):
        raise DomainError("invalid", _("Choose another name for the example."), fields={"name": reason})
    Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
    # Users outside of a team are not told that its examples exist, so those are neither counted nor compared.
    visible = Example.objects.filter(tool=tool).visible_to(actor)
    if visible.filter(created_by=actor).count() >= MAX_PER_TOOL:
        message = _("You have {maximum} examples of this tool, which is the most. Remove one first.").format(
            maximum=MAX_PER_TOOL
        )
        raise DomainError("too_many_examples", message, status=409)
    if visible.filter(name=name).exists():
        message = _("There is an example “{name}” already. Choose another name.").format(name=name)
        raise DomainError("name_taken", message, fields={"name": message}, status=409)
    example = Example.objects.create(
        tool=tool, name=name, arguments=arguments, created_by=actor, created_name=str(actor)
    )
    facts = {"tool": tool.pk, "call": call.pk} if call else {"tool": tool.pk}
    audit.record(actor, "save", example, after=facts)
    return Example.objects.get(pk=example.pk)


@transaction.atomic
def remove_example(example: Example, *, actor: User) -> None:
    audit.record(actor, "remove", example, before={"tool": example.tool_id})
    example.delete()
