"""OpenAPI documents for tests, as short as possible."""

import json
from typing import Any

from protocols.openapi import document as openapi_document
from protocols.openapi import signature as openapi_signature
from protocols.signature import Signature

Document = dict[str, Any]


def document(paths: Document, *, openapi: str = "3.1.0", **members: Any) -> Document:
    return {"openapi": openapi, "info": {"title": "Test", "version": "1"}, "paths": paths, **members}


def operation(name: str = "", **members: Any) -> Document:
    id_member = {"operationId": name} if name else {}
    return {**id_member, "responses": {"200": {"description": "Good"}}, **members}


def answers(schema: Any) -> Document:
    return {"200": {"description": "Good", "content": {"application/json": {"schema": schema}}}}


def takes(
    schema: Any, media: str = "application/json", *, required: bool = True, **media_members: Any
) -> Document:
    return {"required": required, "content": {media: {"schema": schema, **media_members}}}


def parsed(document: Document) -> openapi_document.OpenApiDocument:
    return openapi_document.parse(json.dumps(document).encode())


def cuts(document: Document) -> dict[str, Document]:
    """Return the cut documents by tool id. Raises for an operation that cannot be cut out."""
    document_read = parsed(document)
    return {operation.tool_id: document_read.cut(operation) for operation in document_read.operations}


def cut(op: Document, path: str = "/things", method: str = "post", **members: Any) -> Document:
    (only,) = cuts(document({path: {method: op}}, **members)).values()
    return only


def read_signature(op: Document, path: str = "/things", method: str = "post", **members: Any) -> Signature:
    return openapi_signature.read_signature(cut(op, path, method, **members))
