"""What a mock is told to answer, judged when it is saved, and what it answers to one call. Pure."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from core.canonical_json import canonical
from core.errors import DomainError
from core.schema import error_messages, samples, validation
from core.schema.samples import UnmetSchemaError
from execution.activities.mocks import situations
from execution.activities.mocks.situations import AnySituation, Moment, Situation
from protocols import parameters as json_schema
from protocols.base import Note, Outcome
from protocols.calls import arguments as call_arguments
from protocols.calls import outcomes
from protocols.signature import Signature

MAX_SEED = 2**53 - 1  # what every reader of JSON takes as a whole number
MAX_EXAMPLES = 100
MAX_SITUATIONS = 50
MAX_CONFIG_BYTES = 256 * 1024
# In the state that a call which stopped hands to the one that goes on.
STATE = "mock"
# Of made-up answers, when a mock is saved.
TRIED = 3
_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


class MockExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Answers calls that have these arguments, and perhaps others beside them."""

    arguments: dict[str, Any] = {}
    outputs: dict[str, Any]

    def fits(self, given: Mapping[str, Any]) -> bool:
        return all(name in given and given[name] == value for name, value in self.arguments.items())


class Mock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 0
    examples: Annotated[tuple[MockExample, ...], Meta(max_length=MAX_EXAMPLES)] = ()
    situations: Annotated[tuple[AnySituation, ...], Meta(max_length=MAX_SITUATIONS)] = ()


@dataclass(frozen=True)
class Reply:
    """`because` says for a person why it is this answer, which comes after so many `seconds`."""

    outcome: Outcome
    because: str
    seconds: float = 0.0


def read(config: Mapping[str, Any]) -> Mock:
    """The mock as it was saved. Raises DomainError where `config` says what no mock can be told."""
    try:
        mock = msgspec.convert(dict(config), Mock)
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        said, where = (place[1], place[2]) if place else (str(error), "")
        raise _invalid(
            {re.sub(r"\[(\d+)\]", r".\1", where) or "config": said.replace("`", "") + "."}
        ) from None
    told = enumerate(mock.situations)
    if faults := {f"situations.{n}.{name}": why for n, each in told for name, why in each.faults().items()}:
        raise _invalid(faults)
    return mock


def check(config: Mapping[str, Any], signature: Signature | None) -> dict[str, Any]:
    """The config as it is kept, judged by the tool that it stands for. Raises DomainError."""
    mock = read(config)
    # With lists where JSON has them, so that it equals what is read again.
    kept: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(mock))
    if len(canonical(kept)) > MAX_CONFIG_BYTES:
        raise _invalid({"config": f"A mock takes up to {MAX_CONFIG_BYTES // 1024} kB."})
    if signature is None:
        return kept
    if faults := dict(misfits(mock, signature)):
        raise _invalid(faults)
    if not any(not example.arguments for example in mock.examples):
        for number in range(TRIED):
            try:
                made_up(mock, signature, {"": number})
            except UnmetSchemaError as error:
                message = f"{error.why} Give an example without arguments, which answers every call."
                raise DomainError("mock_schema_unmet", message, fields={"examples": message}) from None
    return kept


def reply(
    mock: Mock,
    signature: Signature,
    given: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None = None,
    is_declined: bool = False,
    nth: Callable[[Situation], int] = lambda _: 1,
) -> Reply:
    """What the mock answers. `state` is that of the call which this one goes on from, and `is_declined` says
    that its question was declined. `nth` is as of a `Moment`."""
    sent = call_arguments.given(signature, given)
    before = (state or {}).get(STATE, {})
    passed, asked = dict(before.get("passed", {})), str(before.get("asked", ""))
    moment = Moment(signature, sent, passed, declined=asked if is_declined else "", nth=nth)
    situation, outcome, seconds = situations.met(mock.situations, moment)
    if situation is not None and outcome is not None:
        if outcome.asks:
            name = situation.name
            going_on = {"passed": {**passed, name: passed.get(name, 0) + 1}, "asked": name}
            outcome = replace(outcome, resume={STATE: going_on})
        return _said(outcome, f"The situation “{situation.label}” is on.", seconds)
    fitting = [example for example in mock.examples if example.fits(sent)]
    if fitting:
        # Who says more about the arguments means this call more.
        example = max(fitting, key=lambda each: len(each.arguments))
        number = mock.examples.index(example) + 1
        return _said(outcomes.ok(example.outputs, signature), f"Example {number} fits the inputs.", seconds)
    try:
        outputs = made_up(mock, signature, sent)
    except UnmetSchemaError as error:
        message = f"The mock has no answer: {error.why} Give it an example."
        return _said(outcomes.failed("refused", "MOCK_SCHEMA_UNMET", message), error.why, seconds)
    how = f"The answer was made up from the output schema by seed {mock.seed}."
    if not outputs and not promises(signature):
        how = "The tool promises no outputs, so none were made up. Give it an example."
    return _said(outcomes.ok(outputs, signature), how, seconds)


def made_up(mock: Mock, signature: Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs that fit the output schema: the same ones for the same seed and arguments. Raises
    UnmetSchemaError."""
    if not promises(signature):
        return {}
    sown = hashlib.sha256(canonical([mock.seed, dict(given)])).digest()
    whole = next((output.name for output in signature.outputs if output.is_whole), None)
    schema = output_schema(signature)
    if whole is None and not isinstance(schema.get("type"), str):
        # Outputs go by names, also where the schema leaves open of which type they are.
        schema = schema | {"type": "object"}
    value = samples.generate(schema, int.from_bytes(sown[:8], "big"))
    if whole is not None:
        return {whole: value}
    if not isinstance(value, dict):
        raise UnmetSchemaError("The output schema asks for something else than an object.")
    return value


def promises(signature: Signature) -> bool:
    return bool(signature.outputs) or signature.outputs_rest is not None


def output_schema(signature: Signature) -> Any:
    return json_schema.write(signature.outputs, signature.outputs_rest)


def faults_in_outputs(signature: Signature, outputs: Mapping[str, Any]) -> list[str]:
    """Why outputs are not those that the signature promises, in sentences; it may promise none."""
    if not promises(signature):
        return []
    whole = next((output.name for output in signature.outputs if output.is_whole), None)
    if whole is not None and set(outputs) != {whole}:
        return [f"The outputs are one value, which goes by “{whole}”."]
    if validation.is_too_large(dict(outputs)):
        return ["The outputs are too large or too deeply nested."]
    value = dict(outputs) if whole is None else outputs[whole]
    found = validation.faults(validation.checked(output_schema(signature)), value)
    return [f"{error_messages.place(fault.path) or 'What is given'} {fault.why}." for fault in found]


def _said(outcome: Outcome, why: str, seconds: float) -> Reply:
    note = Note("MOCK", f"A mock answered, and nothing was sent. {why}")
    return Reply(replace(outcome, notes=[*outcome.notes, note]), why, seconds)


def _invalid(faults: Mapping[str, str]) -> DomainError:
    return DomainError("invalid_mock", "The mock cannot be kept as it is.", fields=dict(faults))


def misfits(mock: Mock, signature: Signature) -> Iterator[tuple[str, str]]:
    """What it says that the tool does not know or promise, by place. No answer is made up for it."""
    inputs = {parameter.name: parameter for parameter in signature.inputs}
    for number, example in enumerate(mock.examples):
        for name, value in example.arguments.items():
            why = call_arguments.UNKNOWN
            if name in inputs:
                why = call_arguments.value_problem(inputs[name], value, signature.schema_rest or {})
            if why:
                yield f"examples.{number}.arguments.{name}", f"“{name}” {why}."
        if faults := faults_in_outputs(signature, example.outputs):
            yield f"examples.{number}.outputs", " ".join(faults[:3])
    for number, each in enumerate(mock.situations):
        named = [*each.when, *(each.parameter_errors if isinstance(each, situations.InvalidInput) else ())]
        for name in named:
            if name not in inputs:
                yield f"situations.{number}", f"“{name}” {call_arguments.UNKNOWN}."
