"""Findings about vendors that refuse calls with valid inputs, so their signature is incomplete."""

from django.db import transaction

from catalog.models import Call, Finding
from catalog.models.findings import Severity
from catalog.notifications import outbox
from core.outbound.errors import printable
from protocols.call_outcome import Outcome

CODE = "REFUSES_VALID"
# Pegboard's own refusal, before anything is sent.
PEGBOARD_CODE = "ARGUMENTS"
# A method, media type or length that the document declares and the vendor refuses.
_ABOUT_THE_FORM = ("HTTP_405", "HTTP_406", "HTTP_411", "HTTP_415")


def is_refused(outcome: Outcome) -> bool:
    code = str((outcome.error or {}).get("code", ""))
    return (outcome.outcome == "invalid_arguments" and code != PEGBOARD_CODE) or code in _ABOUT_THE_FORM


def add_finding(call: Call, outcome: Outcome) -> None:
    """Add a finding, once per version, without the vendor's message, which may repeat the arguments."""
    if not is_refused(outcome) or call.continues_id or call.activity_id:
        return
    version, tool = call.version, call.version.tool
    answer = str((outcome.error or {})["code"])
    status = answer.removeprefix("HTTP_")
    reply = f"answered {status}" if status != answer else f"answered “{printable(answer, 40)}”"
    subject = f"Version {printable(version.label)} of “" if version.label else "“"
    finding = Finding(
        endpoint_id=tool.endpoint_id,
        tool=tool,
        version=version,
        code=CODE,
        severity=Severity.LOW,
        subject=version.digest,
        message=f"{subject}{printable(tool.name, 200)}” refuses inputs that its signature allows: the vendor "
        f"{reply}. Report it to the vendor, or describe in the tuning of the tool what else a call needs.",
    )
    with transaction.atomic():
        if not Finding.objects.filter(tool=tool, code=CODE, subject=version.digest).exists():
            Finding.objects.bulk_create([finding], ignore_conflicts=True)
            outbox.report_waiting_review(tool.endpoint_id)
