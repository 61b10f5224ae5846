"""The detection on the page for a new endpoint, and the values that it enters into the form."""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

import protocols
from catalog.forms import ConnectForm
from catalog.models import VendorRequest
from catalog.vendors import detection_jobs
from catalog.vendors.detection import Detection
from catalog.vendors.detection_jobs import Job
from catalog.views import offers
from catalog.views.asked import number
from people.permissions import person

NAME = "detection"


def job_of(request: HttpRequest) -> Job | None:
    """Return the detection that the address or the form of this page names, if it has not expired."""
    job_id = _id_of(request)
    return detection_jobs.find(job_id, actor=person(request)) if job_id else None


def context_of(request: HttpRequest, job: Job | None) -> dict[str, Any]:
    """Return the context for `catalog/_detection.html`, and the preview that belongs to it."""
    if job is None:
        return {"is_detection_over": bool(_id_of(request))}
    context: dict[str, Any] = {
        "detection": job,
        "labels": [protocols.get(name).label for name in job.tried if name in dict(protocols.connectable())],
    }
    if job.result is None:
        return context
    detected = job.result
    context |= {"detected": detected, "sentence": sentence_of(detected)}
    if request.method == "GET" and detected.preview:
        context |= {
            "preview": detected.preview,
            "wanted": detected.preview.wanted,
            "wants_sign_in": detected.wants_sign_in,
        }
        if detected.discovery:
            context |= offers.offers_of(request, detected.discovery)
    return context


def initial_of(request: HttpRequest, job: Job | None) -> dict[str, Any]:
    """Return the values of the form: those of the vendor or the vendor request that the address of the page
    names, and those that were detected.
    """
    values: dict[str, Any] = {"vendor": request.GET.get("vendor", "")}
    if request_id := number(request.GET.get("request", "")):
        values["vendor_request"] = request_id
        if vendor_request := VendorRequest.objects.filter(pk=request_id).first():
            values |= {
                "vendor_name": vendor_request.vendor_name,
                "protocol": vendor_request.protocol,
                "url": vendor_request.url,
            }
    if job is None or job.result is None:
        return values | ({"url": job.address} if job else {})
    detected = job.result
    values |= {NAME: _id_of(request), "url": detected.address}
    values["vendor_name"] = detected.name or (urlsplit(detected.address).hostname or "")
    if protocol := detected.protocol or next(iter(detected.possible), ""):
        values["protocol"] = protocol
    return values


def layout_of(request: HttpRequest, job: Job | None, form: ConnectForm) -> dict[str, bool]:
    """Return the open parts of the page: those with missing values, and those that the user has opened."""
    detected = job.result if job else None
    is_known = bool(detected and detected.protocol)
    is_possible = bool(detected and detected.possible)
    return {
        "is_known": is_known,
        "is_by_hand": is_possible or (request.method == "POST" and not is_known),
        "wants_credential": bool(form["credential"].value()),
    }


def add_document(request: HttpRequest, data: QueryDict) -> None:
    """Put the pasted document of a detection into the sent form, unless the form contains another one."""
    job = job_of(request)
    if job is None or not job.is_document or job.result is None or not job.result.protocol:
        return
    recognition = protocols.get(job.result.protocol).recognition
    if recognition is None or data.get("protocol") != job.result.protocol:
        return
    field, job_id = f"{job.result.protocol}-{recognition.document_setting}_text", _id_of(request)
    if job_id and not data.get(field):
        data[field] = detection_jobs.document_of(job_id, actor=person(request))


def sentence_of(detection: Detection) -> str:
    """Return the result in a sentence, such as “MCP server Acme, 112 tools, wants a sign-in”."""
    if not detection.protocol:
        return ""
    parts = [f"{detection.label} {detection.name}".strip()]
    preview = detection.preview
    if preview and (preview.tools or not preview.error):
        if preview.is_complete:
            template = ngettext("{count} tool", "{count} tools", preview.tools)
        else:
            template = ngettext("over {count} tool", "over {count} tools", preview.tools)
        parts.append(template.format(count=number_format(preview.tools, force_grouping=True)))
    if detection.wants_sign_in:
        parts.append(_("wants a sign-in"))
    elif preview and preview.wanted:
        parts.append(_("calls need a credential"))
    return ", ".join(parts)


def _id_of(request: HttpRequest) -> UUID | None:
    text = (request.POST if request.method == "POST" else request.GET).get(NAME, "")
    try:
        return UUID(text)
    except ValueError:
        return None
