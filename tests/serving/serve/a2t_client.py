"""A client of A2T, written from the text of the draft alone: it uses every call, and checks each member of
each answer against the text.

https://datatracker.ietf.org/doc/html/draft-rosenberg-aiproto-a2t-00 sections 5 to 7.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

# Sends a method, a path below the platform's root, a query and a body; returns the status and the document.
Send = Callable[[str, str, Mapping[str, str], Any], tuple[int, Any]]

SIGNATURE = {
    *("toolId", "name", "description", "img", "version", "currentVersion", "tags"),
    *("input_parameters", "output_parameters"),
}
OPTIONAL = {"img", "tags"}
# Section 5.1 names the least of a number and the longest text, section 6.1 the most of a number alone.
INPUT = {"id", "name", "type", "description", "required", "max", "min", "max-length", "allowed-values"}
OUTPUT = {"id", "name", "type", "description", "allowed-values"}
TYPES = {"string", "int", "boolean", "enum"}
ENUM_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
# "int" without "max".
DEFAULT_MAX = 65535


class BrokenError(AssertionError):
    """The server does not keep to the text."""


def must(holds: object, rule: str, value: object = "") -> None:
    if not holds:
        raise BrokenError(f"{rule}: {value!r}" if value != "" else rule)


class Client:
    def __init__(self, send: Send) -> None:
        self._send = send

    def tools(self, limit: int | None = None) -> list[dict[str, Any]]:
        signatures = self._pages("/tools", limit)
        for signature in signatures:
            must(
                signature["version"] == signature["currentVersion"],
                "only the latest version is listed",
                signature,
            )
        for member in ("toolId", "name"):
            values = [signature[member] for signature in signatures]
            must(len(set(values)) == len(values), f"“{member}” is not unique on the server", values)
        return signatures

    def tool(self, tool_id: str) -> dict[str, Any]:
        signature = self._signature(self._got(f"/tools/{tool_id}"))
        must(
            signature["version"] == signature["currentVersion"], "the current version is returned", signature
        )
        must(signature["toolId"] == tool_id, "another tool is returned", signature)
        return signature

    def versions(self, tool_id: str, limit: int | None = None) -> list[dict[str, Any]]:
        signatures = self._pages(f"/tools/{tool_id}/versions", limit)
        numbers = [signature["version"] for signature in signatures]
        must(numbers == sorted(set(numbers), reverse=True), "versions are listed newest first", numbers)
        must(
            {signature["toolId"] for signature in signatures} == {tool_id},
            "versions of another tool",
            signatures,
        )
        must(
            {signature["currentVersion"] for signature in signatures} == {numbers[0]},
            "“currentVersion” is the newest",
        )
        for newer, older in pairwise(signatures):
            only_adds(older, newer)
        return signatures

    def version(self, tool_id: str, number: int) -> dict[str, Any]:
        signature = self._signature(self._got(f"/tools/{tool_id}/versions/{number}"))
        must(
            (signature["toolId"], signature["version"]) == (tool_id, number),
            "another version is returned",
            signature,
        )
        return signature

    def invoke(
        self, signature: Mapping[str, Any], arguments: Mapping[str, Any], *, by_version: bool
    ) -> dict[str, Any]:
        """The outputs by name. The arguments are those that a conforming client sends."""
        status, document = self.invoked(signature, arguments, by_version=by_version)
        must(status == 200, "a call that is formatted correctly is answered", (status, document))
        must(set(document) == {"output_parameters"}, "the answer has “output_parameters” alone", document)
        declared = {
            output_parameter["name"]: output_parameter for output_parameter in signature["output_parameters"]
        }
        outputs = {}
        for output_parameter in document["output_parameters"]:
            must(
                set(output_parameter) == {"name", "value"},
                "an output is a name and a value",
                output_parameter,
            )
            must(
                output_parameter["name"] in declared,
                "an output has the name of the signature",
                output_parameter,
            )
            must(
                _is_of(declared[output_parameter["name"]], output_parameter["value"]),
                "an output is of its type",
                output_parameter,
            )
            outputs[output_parameter["name"]] = output_parameter["value"]
        must(len(outputs) == len(document["output_parameters"]), "an output is returned twice", document)
        return outputs

    def invoked(
        self, signature: Mapping[str, Any], arguments: Mapping[str, Any], *, by_version: bool
    ) -> tuple[int, Any]:
        version = f"/versions/{signature['version']}" if by_version else ""
        input_parameters = [{"name": name, "value": value} for name, value in arguments.items()]
        body = {"name": signature["name"], "input_parameters": input_parameters}
        return self._send("POST", f"/tools/{signature['toolId']}{version}:invoke", {}, body)

    def _pages(self, path: str, limit: int | None) -> list[dict[str, Any]]:
        signatures: list[dict[str, Any]] = []
        query = {} if limit is None else {"pageLimit": str(limit)}
        cursors: set[str] = set()
        while True:
            page = self._got(path, query)
            must(set(page) == {"items", "paging"}, "a list has “items” and “paging”", page)
            must(set(page["paging"]) <= {"pageLimit", "next"}, "“paging” has other members", page["paging"])
            actual = page["paging"]["pageLimit"]
            must(type(actual) is int and 0 < len(page["items"]) <= actual, "“pageLimit” is held", page)
            must(limit is None or actual <= limit, "more is returned than was asked for", page["paging"])
            signatures += [self._signature(item) for item in page["items"]]
            cursor = page["paging"].get("next")
            if not cursor:
                return signatures
            must(isinstance(cursor, str) and cursor not in cursors, "the cursor leads on", cursor)
            cursors.add(cursor)
            query = {**query, "pageCursor": cursor}

    def _got(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        status, document = self._send("GET", path, query or {}, None)
        must(status == 200, f"{path} answers", (status, document))
        return document

    def _signature(self, signature: Any) -> dict[str, Any]:
        must(set(signature) <= SIGNATURE, "a signature has no other members", set(signature) - SIGNATURE)
        must(
            set(signature) >= SIGNATURE - OPTIONAL, "a signature has all members", SIGNATURE - set(signature)
        )
        must(
            str(uuid.UUID(signature["toolId"])) == signature["toolId"].lower(),
            "“toolId” is a UUID",
            signature["toolId"],
        )
        must(0 < len(signature["name"]) < 255, "“name” has less than 255 characters", signature["name"])
        must(
            len(signature["description"]) < 2000, "“description” has less than 2000", signature["description"]
        )
        for member in ("version", "currentVersion"):
            number = signature[member]
            must(type(number) is int and number > 0, f"“{member}” is positive", number)
        must(signature["version"] <= signature["currentVersion"], "“currentVersion” is the newest", signature)
        must(
            all(isinstance(tag, str) for tag in signature.get("tags", [])),
            "“tags” are texts",
            signature.get("tags"),
        )
        _parameters(signature["input_parameters"], INPUT, TYPES)
        _parameters(signature["output_parameters"], OUTPUT, {*TYPES, "json"})
        must(signature["output_parameters"], "there are one or more outputs", signature["name"])
        return dict(signature)


def _parameters(parameters: Any, members: set[str], types: set[str]) -> None:
    must(isinstance(parameters, list), "parameters are an array", parameters)
    for parameter in parameters:
        must(set(parameter) <= members, "a parameter has no other members", set(parameter) - members)
        must(
            {"id", "name", "description"} <= set(parameter),
            "a parameter has an id, a name and a text",
            parameter,
        )
        must(parameter.get("type", "string") in types, "a parameter is of a type of the text", parameter)
        must(type(parameter.get("required", True)) is bool, "“required” is a boolean", parameter)
        for bound in ("max", "min", "max-length"):
            must(type(parameter.get(bound, 0)) is int, f"“{bound}” is a whole number", parameter)
        must(
            ("max" in parameter or "min" in parameter) <= (parameter.get("type") == "int"),
            "a bound is of a number",
            parameter,
        )
        is_enum = parameter.get("type") == "enum"
        must(is_enum or "allowed-values" not in parameter, "only an enum has values", parameter)
        if is_enum and "required" in members:
            must(parameter.get("allowed-values"), "an enum has values", parameter)
        for value in parameter.get("allowed-values", []):
            must(set(value) == {"name", "description"}, "a value has a name and a text", value)
            must(ENUM_NAME.fullmatch(value["name"]), "a value is capitalised snake case", value)
            must(
                len(value["name"]) <= 255 and len(value["description"]) <= 2000, "a value is too long", value
            )
    for member in ("id", "name"):
        values = [parameter[member] for parameter in parameters]
        must(len(set(values)) == len(values), f"“{member}” is unique within the tool", values)


def only_adds(older: Mapping[str, Any], newer: Mapping[str, Any]) -> None:
    """A new version may only add optional inputs, and outputs."""
    for side in ("input_parameters", "output_parameters"):
        after = {parameter["id"]: parameter for parameter in newer[side]}
        before = {parameter["id"]: parameter for parameter in older[side]}
        must(before.keys() <= after.keys(), f"{side}: nothing goes", before.keys() - after.keys())
        for name, was in before.items():
            same = ("name", "type", "required")
            now = after[name]
            must([now.get(m) for m in same] == [was.get(m) for m in same], "what is there stays", (was, now))
        added = [after[name] for name in after.keys() - before.keys()]
        is_input = side == "input_parameters"
        must(
            not is_input or all(not parameter.get("required", True) for parameter in added),
            "what is added is optional",
        )


def conforming(parameters: Sequence[Mapping[str, Any]], *, whole: bool = False) -> dict[str, Any]:
    """A value for each input that is required, or for all of them."""
    return {
        parameter["name"]: _value(parameter)
        for parameter in parameters
        if whole or parameter.get("required", True)
    }


def _value(parameter: Mapping[str, Any]) -> Any:
    match parameter.get("type", "string"):
        case "int":
            return parameter.get("min", min(1, parameter.get("max", DEFAULT_MAX)))
        case "boolean":
            return True
        case "enum":
            return parameter["allowed-values"][0]["name"]
        case "json":
            return {"any": ["thing"]}
    return "text"[: parameter.get("max-length", 4)]


def _is_of(parameter: Mapping[str, Any], value: Any) -> bool:
    match parameter.get("type", "string"):
        case "int":
            return type(value) is int
        case "boolean":
            return type(value) is bool
        case "json":
            return True
    return isinstance(value, str)
