import re
from typing import Any

from protocols import members
from protocols.list_pages import UnreadableItemError
from protocols.signature import Parameter, Signature

MEMBERS = {"id", "name", "about", "asks", "tells"}
MAX_PARAMETERS = 1000
_ID = re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f]{1,255}")


def read(document: dict[str, Any]) -> Signature:
    return Signature(
        name=members.name(document, "name"),
        description=members.text(document, "about"),
        inputs=_parameters(document, "asks"),
        outputs=_parameters(document, "tells"),
        rest={member: value for member, value in document.items() if member not in MEMBERS} or None,
    )


def write(signature: Signature, tool_id: str) -> dict[str, Any]:
    document = {"id": tool_id, "name": signature.name, "about": signature.description}
    document["asks"] = [parameter.name for parameter in signature.inputs]
    document["tells"] = [parameter.name for parameter in signature.outputs]
    return document | (signature.rest or {})


def read_tool_id(document: dict[str, Any]) -> str:
    tool_id = document.get("id")
    if isinstance(tool_id, str) and _ID.fullmatch(tool_id):
        return tool_id
    raise members.wrong("id", tool_id, "text of 1 to 255 characters, none of them a control character")


def _parameters(document: dict[str, Any], member: str) -> tuple[Parameter, ...]:
    names = members.array(document, member)
    if len(names) > MAX_PARAMETERS:
        raise UnreadableItemError("SCHEMA_TOO_BIG", f"“{member}” has more than {MAX_PARAMETERS:,} entries.")
    if not all(isinstance(name, str) for name in names):
        raise members.wrong(member, names, "an array of text")
    return tuple(
        Parameter(id=name, name=name, type="string", required=member == "asks", description="")
        for name in names
    )
