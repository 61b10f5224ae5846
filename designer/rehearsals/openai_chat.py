"""Requests to an OpenAI-compatible endpoint about one sentence, and the replies. Pure.

https://platform.openai.com/docs/api-reference/chat/create. A reply in any other form counts as no answer.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from core.outbound.errors import printable
from designer.rehearsals.results import InputAnswer, Sentence, SentenceResult

PATH = "/chat/completions"
MAX_NAME_LENGTH = 100


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one try: the tool that the model called, "" for none, and its arguments if they can be
    read.
    """

    tool: str
    arguments: Mapping[str, Any] | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class InvalidReplyError(Exception):
    """The reply is not a chat completion. The message states why."""


def build_request(model: str, tools: Sequence[Mapping[str, Any]], sentence: str) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": sentence}]}
    return {**body, "tools": list(tools)} if tools else body


def parse_reply(document: object) -> ToolChoice:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(document, dict) or not isinstance(message, dict):
        raise InvalidReplyError("The endpoint's reply is not a chat completion.")
    calls = message.get("tool_calls")
    usage = document.get("usage")
    input_tokens, output_tokens = (
        _token_count(usage, "prompt_tokens"),
        _token_count(usage, "completion_tokens"),
    )
    if calls is None or calls == []:
        return ToolChoice(tool="", input_tokens=input_tokens, output_tokens=output_tokens)
    # If the model calls several tools, the first call counts.
    call = calls[0] if isinstance(calls, list) else None
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise InvalidReplyError("The endpoint's reply calls a tool without its name.")
    arguments = function.get("arguments")
    with suppress(ValueError, RecursionError):
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return ToolChoice(
        tool=printable(name, MAX_NAME_LENGTH),
        arguments=arguments if isinstance(arguments, dict) else None,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def _token_count(usage: object, member: str) -> int:
    count = usage.get(member) if isinstance(usage, dict) else None
    is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 10**9
    return count if is_count and isinstance(count, int) else 0


def summarize_tries(
    sentence: Sentence, choices_made: Sequence[ToolChoice], shown_names: set[str], failure: str = ""
) -> SentenceResult:
    """Combine several tries into one answer. A tool has to be ahead to be chosen, as with the built-in
    judge."""
    choices = Counter(choice.tool for choice in choices_made)
    expected_count = choices[sentence.expected] if sentence.expected else 0
    rivals = [(count, name) for name, count in choices.items() if name != sentence.expected]
    rival_count, rival = max(rivals, default=(0, ""))
    chosen_tool = sentence.expected if expected_count > rival_count else rival
    message = sentence.explain_miss(chosen_tool, none="The model called no tool.") if choices_made else ""
    if choices_made and sentence.expected and chosen_tool and chosen_tool not in shown_names:
        message = f"The model called “{chosen_tool}”, which the agent does not have."
    inputs = []
    if expected_count > rival_count:
        # Most of the tries that called the tool have to pass the value.
        tries = [choice.arguments or {} for choice in choices_made if choice.tool == sentence.expected]
        for name, value in sorted(sentence.inputs.items()):
            count = sum(_is_same_value(arguments.get(name), value) for arguments in tries)
            is_right = 2 * count > len(tries)
            explanation = "" if is_right else f"{count} of {len(tries)} tries passed “{value}” for “{name}”."
            inputs.append(InputAnswer(name=name, expected=value, right=is_right, message=explanation))
    return SentenceResult(
        rehearsal=sentence.id,
        says=sentence.says,
        expected=sentence.expected,
        chosen=chosen_tool,
        margin=round((expected_count - rival_count) / len(choices_made), 3) if choices_made else 0.0,
        choices=dict(choices),
        inputs=tuple(inputs),
        message=message,
        failed=failure,
    )


def _is_same_value(actual: object, expected: object) -> bool:
    if isinstance(actual, str) and isinstance(expected, str):
        return actual.strip().casefold() == expected.strip().casefold()
    return type(actual) is type(expected) and actual == expected
