"""What an OpenAI-compatible endpoint is asked about one sentence, and what its reply says. Pure.

https://platform.openai.com/docs/api-reference/chat/create: whatever is not as it says there is no answer.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.outbound.errors import printable
from designer.rehearsals.results import Answer, InputAnswer, Sentence

PATH = "/chat/completions"
MAX_NAME_LENGTH = 100


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One try: the tool that was called, empty for none, with its arguments if they can be read."""

    tool: str
    arguments: Mapping[str, Any] | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class NoAnswerError(Exception):
    """The reply is no chat completion; says what is wrong with it."""


def request(model: str, tools: Sequence[Mapping[str, Any]], says: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": says}]}
    return {**asked, "tools": list(tools)} if tools else asked


def read(document: object) -> Chosen:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(document, dict) or not isinstance(message, dict):
        raise NoAnswerError("It answered something that is no chat completion.")
    calls = message.get("tool_calls")
    usage = document.get("usage")
    asked, said = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if calls is None or calls == []:
        return Chosen(tool="", input_tokens=asked, output_tokens=said)
    # Of several calls the first is what it does first.
    call = calls[0] if isinstance(calls, list) else None
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise NoAnswerError("It called a tool without saying which.")
    return Chosen(
        tool=printable(name, MAX_NAME_LENGTH),
        arguments=_arguments(function.get("arguments")),
        input_tokens=asked,
        output_tokens=said,
    )


def _count(usage: object, member: str) -> int:
    found = usage.get(member) if isinstance(usage, dict) else None
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 10**9
    return found if is_count and isinstance(found, int) else 0


def _arguments(given: object) -> dict[str, Any] | None:
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def answer(sentence: Sentence, tried: Sequence[Chosen], known: set[str], failed: str = "") -> Answer:
    """What several tries say together. What does not lead is not chosen, as with the built-in judge."""
    choices = Counter(each.tool for each in tried)
    wanted = choices[sentence.expected] if sentence.expected else 0
    others = [(count, name) for name, count in choices.items() if name != sentence.expected]
    best, rival = max(others, key=lambda each: (each[0], each[1]), default=(0, ""))
    chosen = sentence.expected if wanted > best else rival
    return Answer(
        rehearsal=sentence.id,
        says=sentence.says,
        expected=sentence.expected,
        chosen=chosen,
        margin=round((wanted - best) / len(tried), 3) if tried else 0.0,
        choices=dict(choices),
        inputs=_inputs(sentence, tried) if wanted > best else (),
        message=_why_not(sentence, chosen, known) if tried else "",
        failed=failed,
    )


def _why_not(sentence: Sentence, chosen: str, known: set[str]) -> str:
    said = sentence.why_not(chosen, none="No tool was called.")
    is_made_up = bool(sentence.expected and chosen) and chosen not in known
    return f"“{chosen}” was chosen, which the agent does not show." if is_made_up else said


def _inputs(sentence: Sentence, tried: Sequence[Chosen]) -> tuple[InputAnswer, ...]:
    # Of the tries that called the tool, most have to give the value.
    given = [each.arguments or {} for each in tried if each.tool == sentence.expected]
    found = []
    for name, value in sorted(sentence.inputs.items()):
        right = sum(_same(each.get(name), value) for each in given)
        is_right = 2 * right > len(given)
        message = "" if is_right else f"“{value}” was given for “{name}” in {right} of {len(given)} tries."
        found.append(InputAnswer(name=name, expected=value, right=is_right, message=message))
    return tuple(found)


def _same(given: object, wanted: object) -> bool:
    if isinstance(given, str) and isinstance(wanted, str):
        return given.strip().casefold() == wanted.strip().casefold()
    return type(given) is type(wanted) and given == wanted
