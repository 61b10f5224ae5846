"""A vendor that refuses a call whose inputs fit the signature, which then does not say all it wants."""

from django.db import transaction

from catalog.models import Call, Finding
from catalog.models.findings import Severity
from catalog.notifications import outbox
from core.outbound.errors import printable
from protocols.base import Outcome

CODE = "REFUSES_VALID"
# What we say ourselves, before anything is sent.
OURS = "ARGUMENTS"
# A method, a media type or a length that the document describes and the vendor does not take.
_ABOUT_THE_FORM = ("HTTP_405", "HTTP_406", "HTTP_411", "HTTP_415")


def is_refused(outcome: Outcome) -> bool:
    code = str((outcome.error or {}).get("code", ""))
    return (outcome.outcome == "invalid_arguments" and code != OURS) or code in _ABOUT_THE_FORM


def tell(call: Call, outcome: Outcome) -> None:
    # Once for a version. What the vendor said stays with the call: it may repeat the arguments.
    if not is_refused(outcome) or call.continues_id or call.activity_id:
        return
    version, tool = call.version, call.version.tool
    answer = str((outcome.error or {})["code"])
    status = answer.removeprefix("HTTP_")
    said = f"answered {status}" if status != answer else f"answered “{printable(answer, 40)}”"
    which = f"Version {printable(version.label)} of “" if version.label else "“"
    finding = Finding(
        endpoint_id=tool.endpoint_id,
        tool=tool,
        version=version,
        code=CODE,
        severity=Severity.LOW,
        subject=version.digest,
        message=f"{which}{printable(tool.name, 200)}” refuses what its signature allows: the vendor {said} "
        "to inputs that fit it. Tell the vendor, or say in the words of the tool what else a call needs.",
    )
    with transaction.atomic():
        if not Finding.objects.filter(tool=tool, code=CODE, subject=version.digest).exists():
            Finding.objects.bulk_create([finding], ignore_conflicts=True)
            outbox.review_waits(tool.endpoint_id)
