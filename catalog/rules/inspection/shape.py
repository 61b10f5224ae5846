"""Rules on the parts of a signature: names, lengths, missing texts and schemas that cause trouble."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress

from catalog.rules.inspection.alarms import AlarmMatch, Severity, signature_rule, text_rule
from catalog.rules.inspection.characters import spell_out_hidden
from core.schema import SchemaBoundsError, read_document, subschemas
from core.translatable import mark
from protocols import parameters as json_schema
from protocols.signature import Signature

# Limits of the protocols and of model providers.
MODEL_NAME, MAX_NAME_LENGTH = 64, 254
MAX_DESCRIPTION_LENGTH, LONG_DESCRIPTION, HUGE_DESCRIPTION = 1_999, 4_000, 16_000
MAX_PARAMETER_LENGTH = 64
# A name has a few words; a text that steers a model has more.
PROSE_WORDS = 6
MAX_SCHEMA_DEPTH, MAX_SCHEMA_MEMBERS = 32, 2_000

BLANK_LINES = re.compile(r"\n(?:[ \t]{0,40}\r?\n){11}")
BLANKS = re.compile(r"[ \t]{80}")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.\-/:]{1,128}")
REPEATED = re.compile(r"\((?:[^()\\]|\\.){0,200}[+*](?:[^()\\]|\\.){0,200}\)(?:[+*]|\{\d{1,9},)")
DESTROYING = re.compile(r"(?:delete|remove|destroy|drop|purge|erase|wipe|truncate)(?![a-z])", re.IGNORECASE)
CONTEXT_NAMES = frozenset(
    {
        *("conversation", "conversationhistory", "chathistory", "chatlog", "messagehistory"),
        *("previousmessages", "systemprompt", "sidenote", "chainofthought", "scratchpad", "toollist"),
        *("availabletools", "fullcontext", "modelcontext", "modelreasoning", "currentcontext"),
        *("usercontext", "llmcontext", "hiddeninstructions", "internalmonologue"),
    }
)

Verdict = tuple[Severity, str] | None


@text_rule(
    "PADDING",
    "medium",
    "pushes text out of sight with blank space",
    "\n\n\n",
    "\n \n",
    "\n\r\n\r",
    "\n\t",
    " " * 9,
    "\t\t\t",
)
def padding(text: str) -> AlarmMatch | None:
    match = BLANK_LINES.search(text) or BLANKS.search(text)
    return AlarmMatch(match.start(), match.end()) if match else None


@signature_rule("LONG_NAME")
def long_name(signature: Signature) -> Verdict:
    length = len(signature.name)
    if length > MAX_NAME_LENGTH:
        return "medium", f"The name has {length:,} characters; the protocols allow {MAX_NAME_LENGTH}."
    if length > MODEL_NAME:
        return "low", f"The name has {length} characters; most models take {MODEL_NAME}, so it is shortened."
    return None


@signature_rule("LONG_DESCRIPTION")
def long_description(signature: Signature) -> Verdict:
    length = len(signature.description)
    if length <= MAX_DESCRIPTION_LENGTH:
        return None
    severity: Severity = "low"
    if length > LONG_DESCRIPTION:
        severity = "high" if length > HUGE_DESCRIPTION else "medium"
    return (
        severity,
        f"The description has {length:,} characters; {MAX_DESCRIPTION_LENGTH:,} are usual at most.",
    )


@signature_rule("NO_DESCRIPTION")
def no_description(signature: Signature) -> Verdict:
    if signature.description.strip():
        return None
    return "low", "There is no description, so a model knows this tool by its name alone."


@signature_rule("INPUTS_UNDESCRIBED")
def inputs_undescribed(signature: Signature) -> Verdict:
    undescribed = [parameter.name for parameter in signature.inputs if not parameter.description.strip()]
    if not undescribed:
        return None
    return (
        "low",
        f"{len(undescribed)} of {len(signature.inputs)} inputs have no description: "
        f"{join_names(undescribed)}.",
    )


@signature_rule("ODD_NAME")
def odd_name(signature: Signature) -> Verdict:
    if PLAIN_NAME.fullmatch(signature.name):
        return None
    return (
        "low",
        f"The name {_quote(signature.name)} is not made of plain letters, digits, _, -, ., / and :.",
    )


@signature_rule("PROSE_NAME")
def prose_name(signature: Signature) -> Verdict:
    # Some vendors write “Temperature in Fahrenheit” where others write temperature_f; that is legal.
    for parameter in (*signature.inputs, *signature.outputs):
        words = len(parameter.name.split())
        if (len(parameter.name) > MAX_PARAMETER_LENGTH and words > 1) or words > PROSE_WORDS:
            return "high", f"A parameter's name is a sentence: {_quote(parameter.name)}."
    return None


@signature_rule("CONTEXT_PARAMETER")
def context_parameter(signature: Signature) -> Verdict:
    context_inputs = [
        p.name for p in signature.inputs if re.sub(r"[^a-z]", "", p.name.lower()) in CONTEXT_NAMES
    ]
    if not context_inputs:
        return None
    return "medium", f"It asks for more than a call needs to know: the input {join_names(context_inputs)}."


@signature_rule("CLAIM")
def claim(signature: Signature) -> Verdict:
    claims = signature.annotations
    if not DESTROYING.match(signature.name) or not (claims.read_only or claims.destructive is False):
        return None
    statement = mark("that it only reads") if claims.read_only else mark("that it destroys nothing")
    return "medium", f"It is called {_quote(signature.name)} and claims {statement}."


@signature_rule("REMOTE_SCHEMA")
def remote_schema(signature: Signature) -> Verdict:
    # An identifier of the schema's own makes such a reference a local one.
    if all(
        member not in subschemas.REFERENCES or str(value).startswith("#")
        for _, member, value in _members(signature)
    ):
        return None
    for reference in _unresolved_references(signature, "REMOTE_REF"):
        return "high", f"A schema points to another document, {_quote(reference)}. It is never fetched."
    return None


@signature_rule("ENDLESS_SCHEMA")
def endless_schema(signature: Signature) -> Verdict:
    # Recursion through a property or an item ends with the value. A cycle within one place never ends.
    if not any(member == "$ref" for _, member, _ in _members(signature)):
        return None
    for reference in _unresolved_references(signature, "ENDLESS_REF"):
        return (
            "medium",
            f"A schema refers to itself without an end: {_quote(reference)}. A provider that resolves "
            "references may refuse every request with this tool.",
        )
    return None


def _unresolved_references(signature: Signature, code: str) -> Iterator[str]:
    """Return the references that have a finding of this code."""
    sides = ((signature.inputs, signature.schema_rest), (signature.outputs, signature.outputs_rest))
    for parameters, remainder in sides:
        with suppress(SchemaBoundsError):  # LARGE_SCHEMA
            document = read_document(json_schema.write_schema(parameters, remainder))
            yield from (finding.subject for finding in document.findings if finding.code == code)


@signature_rule("SAME_INPUT_NAME")
def same_input_name(signature: Signature) -> Verdict:
    for parameters in (signature.inputs, signature.outputs):
        if all(parameter.name.isascii() for parameter in parameters):
            continue
        names: dict[str, str] = {}
        for name in dict.fromkeys(parameter.name for parameter in parameters):
            other = names.setdefault(unicodedata.normalize("NFKC", name), name)
            if other != name:
                return (
                    "medium",
                    f"Two parameters are called {_quote(name)}, in code points that only a program can tell "
                    f"apart: {other!a} and {name!a}.",
                )
    return None


@signature_rule("LARGE_SCHEMA")
def large_schema(signature: Signature) -> Verdict:
    deepest = count = 0
    for depth, _, _ in _members(signature):
        deepest, count = max(deepest, depth), count + 1
    if deepest > MAX_SCHEMA_DEPTH or count > MAX_SCHEMA_MEMBERS:
        return "medium", f"Its schemas are {deepest} levels deep with {count:,} members."
    return None


@signature_rule("SLOW_PATTERN")
def slow_pattern(signature: Signature) -> Verdict:
    for _, member, value in _members(signature):
        if member == "pattern" and isinstance(value, str) and REPEATED.search(value):
            return (
                "low",
                f"The pattern {_quote(value)} repeats a repetition, which can take for ever to match.",
            )
    return None


def _members(signature: Signature) -> Iterator[tuple[int, str, object]]:
    """Yield depth, name and value of every member of every schema."""
    schemas: list[object] = [p.schema for p in (*signature.inputs, *signature.outputs) if p.schema]
    schemas += [remainder for remainder in (signature.schema_rest, signature.outputs_rest) if remainder]
    waiting = [(1, schema) for schema in schemas]
    while waiting:
        depth, value = waiting.pop()
        if isinstance(value, dict):
            yield from ((depth, name, child) for name, child in value.items())
            waiting += [(depth + 1, child) for child in value.values()]
        elif isinstance(value, list):
            waiting += [(depth + 1, child) for child in value]


def _quote(text: str) -> str:
    return f"“{spell_out_hidden(text[:80])}{'…' if len(text) > 80 else ''}”"


def join_names(names: Iterable[str]) -> str:
    """Return up to three names in quotes, with the number of others."""
    quoted = [_quote(name) for name in names]
    more = f" and {len(quoted) - 3} more" if len(quoted) > 3 else ""
    return f"{', '.join(quoted[:3])}{more}"
