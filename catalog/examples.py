"""Arguments of calls that people keep under a name, to fill the form or to run again."""

from django.db import IntegrityError, transaction

from catalog.errors import CatalogError
from catalog.models import Call, Example
from people import audit, clashes, names
from people.models import User

LONGEST_NAME = 100
MOST_PER_TOOL = 50


@transaction.atomic
def save_example(call: Call, *, actor: User, name: str) -> Example:
    """The arguments of `call`, whatever came of it."""
    name = name.strip()
    if why := names.why_not(name, LONGEST_NAME):
        raise CatalogError("invalid", "Give the example another name.", fields={"name": why})
    if Example.objects.filter(tool=call.tool).count() >= MOST_PER_TOOL:
        message = f"A tool has up to {MOST_PER_TOOL} examples. Remove one first."
        raise CatalogError("too_many_examples", message, status=409)
    try:
        with transaction.atomic():
            example = Example.objects.create(
                tool=call.tool, name=name, arguments=call.arguments, created_by=actor, created_name=str(actor)
            )
    except IntegrityError as exc:
        if not clashes.is_taken(exc):
            raise
        message = f"There is an example “{name}” already. Choose another name."
        raise CatalogError("name_taken", message, fields={"name": message}, status=409) from exc
    audit.record(actor, "save", example, after={"tool": call.tool_id, "call": call.pk})
    return Example.objects.get(pk=example.pk)


@transaction.atomic
def remove_example(example: Example, *, actor: User) -> None:
    audit.record(actor, "remove", example, before={"tool": example.tool_id})
    example.delete()
