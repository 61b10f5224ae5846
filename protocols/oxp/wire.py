"""Paths, headers and messages of OXP, for client and server.

Two revisions have the version 1.0: one wraps calls and replies in `request` and `result`, the other sends
them bare and states the version in a header.
"""

from collections.abc import Mapping
from typing import Any, Literal

Form = Literal["bare", "wrapped"]

VERSION = "1.0"
VERSION_HEADER = "OXP-Version"
VERSION_HEADERS = {VERSION_HEADER: VERSION}
KEY_HEADER = "OXP-API-Key"
SCHEMA = "urn:oxp:1.0"
TOOLS, CALL, HEALTH = "/tools", "/tools/call", "/health"

# Statuses of a call: it ran, it did not run, its input was rejected.
RAN, NOT_RUN, BAD_INPUT = 200, 400, 422

OTHER_FORM: dict[Form, Form] = {"bare": "wrapped", "wrapped": "bare"}
# The member at the top of a call in each form.
CALL_MEMBER: dict[Form, str] = {"bare": "tool_id", "wrapped": "request"}


def call(request: Mapping[str, Any], form: Form) -> dict[str, Any]:
    return {"$schema": SCHEMA, "request": request} if form == "wrapped" else dict(request)


def result(response: Mapping[str, Any], form: Form) -> dict[str, Any]:
    return {"$schema": SCHEMA, "result": response} if form == "wrapped" else dict(response)


def form_of(document: object) -> Form | None:
    """Return the form of a call, or None if the document is not a call."""
    if not isinstance(document, dict):
        return None
    forms: tuple[Form, ...] = ("wrapped", "bare")
    return next((form for form in forms if CALL_MEMBER[form] in document), None)


def response_in(document: object) -> object:
    """Return the unwrapped reply to a call."""
    if isinstance(document, dict) and "success" not in document and isinstance(document.get("result"), dict):
        return document["result"]
    return document
