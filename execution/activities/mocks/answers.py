"""The configuration of a mock, which is checked when it is saved, and its reply to a call. Pure."""

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
from core.translatable import Wording, join_sentences
from core.translatable import mark as _
from execution.activities.mocks import situations
from execution.activities.mocks.situations import AnySituation, Moment, Situation
from protocols import parameters as json_schema
from protocols.call_outcome import Outcome
from protocols.calls import arguments as call_arguments
from protocols.calls import outcomes
from protocols.list_pages import Note
from protocols.signature import Signature

MAX_SEED = 2**53 - 1  # what every reader of JSON takes as a whole number
MAX_EXAMPLES = 100
MAX_SITUATIONS = 50
MAX_CONFIG_BYTES = 256 * 1024
# The member of the state that a stopped call passes to the one that continues it.
STATE = "mock"
# The number of replies that are generated as a test when a mock is saved.
TRIED = 3
_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


class ExampleAnswer(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An example that answers calls with these arguments, which may have others as well."""

    arguments: dict[str, Any] = {}
    outputs: dict[str, Any]

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        return all(name in arguments and arguments[name] == value for name, value in self.arguments.items())


class Mock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 0
    examples: Annotated[tuple[ExampleAnswer, ...], Meta(max_length=MAX_EXAMPLES)] = ()
    situations: Annotated[tuple[AnySituation, ...], Meta(max_length=MAX_SITUATIONS)] = ()


@dataclass(frozen=True)
class MockReply:
    """The reply of a mock after so many `seconds`. `because` is its reason, for people."""

    outcome: Outcome
    because: str
    seconds: float = 0.0


def read_mock(config: Mapping[str, Any]) -> Mock:
    """Parse a stored configuration. Raises DomainError if it is invalid."""
    try:
        mock = msgspec.convert(dict(config), Mock)
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        message, path = (place[1], place[2]) if place else (str(error), "")
        raise _invalid_error(
            {re.sub(r"\[(\d+)\]", r".\1", path) or "config": message.replace("`", "") + "."}
        ) from None
    numbered = enumerate(mock.situations)
    if faults := {
        f"situations.{n}.{name}": reason
        for n, situation in numbered
        for name, reason in situation.faults().items()
    }:
        raise _invalid_error(faults)
    return mock


def check(config: Mapping[str, Any], signature: Signature | None) -> dict[str, Any]:
    """Return the configuration in the form that is stored, checked by the signature of the mocked tool.
    Raises DomainError."""
    mock = read_mock(config)
    # With lists where JSON has them, so that it equals what is read again.
    stored: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(mock))
    if len(canonical(stored)) > MAX_CONFIG_BYTES:
        message = Wording(_("A mock may have up to {size} kB."), {"size": MAX_CONFIG_BYTES // 1024})
        raise _invalid_error({"config": message})
    if signature is None:
        return stored
    if faults := dict(misfits(mock, signature)):
        raise _invalid_error(faults)
    if not any(not example.arguments for example in mock.examples):
        for number in range(TRIED):
            try:
                made_up(mock, signature, {"": number})
            except UnmetSchemaError as error:
                advice = Wording(_("Add an example without arguments, which answers every call."))
                message = join_sentences((error.why, advice))
                raise DomainError("mock_schema_unmet", message, fields={"examples": message}) from None
    return stored


def reply(
    mock: Mock,
    signature: Signature,
    arguments: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None = None,
    is_declined: bool = False,
    nth: Callable[[Situation], int] = lambda _situation: 1,
) -> MockReply:
    """Return the reply of the mock.

    state: of the call that this one continues. is_declined: the question of that call was declined. nth: as
    in `Moment`.
    """
    call_inputs = call_arguments.arguments_to_send(signature, arguments)
    before = (state or {}).get(STATE, {})
    passed, question = dict(before.get("passed", {})), str(before.get("asked", ""))
    moment = Moment(signature, call_inputs, passed, declined=question if is_declined else "", nth=nth)
    situation, outcome, seconds = situations.find_answer(mock.situations, moment)
    if situation is not None and outcome is not None:
        if outcome.asks:
            name = situation.name
            going_on = {"passed": {**passed, name: passed.get(name, 0) + 1}, "asked": name}
            outcome = replace(outcome, resume={STATE: going_on})
        reason = Wording(_("The situation “{situation}” is on."), {"situation": Wording(situation.label)})
        return _mock_reply(outcome, reason, seconds)
    fitting = [example for example in mock.examples if example.fits(call_inputs)]
    if fitting:
        # The example with the most arguments fits best.
        example = max(fitting, key=lambda example: len(example.arguments))
        number = mock.examples.index(example) + 1
        reason = Wording(_("Example {number} matches the inputs."), {"number": number})
        return _mock_reply(outcomes.ok(example.outputs, signature), reason, seconds)
    try:
        outputs = made_up(mock, signature, call_inputs)
    except UnmetSchemaError as error:
        message = f"The mock has no answer: {error.why} Add an example."
        return _mock_reply(outcomes.failed("refused", "MOCK_SCHEMA_UNMET", message), error.why, seconds)
    template = _("The answer was generated from the output schema with the seed {seed}.")
    if not outputs and not promises(signature):
        template = _("The tool declares no outputs, so none were generated. Add an example.")
    return _mock_reply(outcomes.ok(outputs, signature), Wording(template, {"seed": mock.seed}), seconds)


def made_up(mock: Mock, signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs that fit the output schema, the same for the same seed and arguments. Raises
    UnmetSchemaError."""
    if not promises(signature):
        return {}
    sown = hashlib.sha256(canonical([mock.seed, dict(arguments)])).digest()
    single_output = next((output.name for output in signature.outputs if output.is_whole), None)
    schema = output_schema(signature)
    if single_output is None and not isinstance(schema.get("type"), str):
        # Outputs have names, even if the schema does not state that it is of an object.
        schema = schema | {"type": "object"}
    value = samples.generate(schema, int.from_bytes(sown[:8], "big"))
    if single_output is not None:
        return {single_output: value}
    if not isinstance(value, dict):
        raise UnmetSchemaError("The output schema does not describe an object.")
    return value


def promises(signature: Signature) -> bool:
    return bool(signature.outputs) or signature.outputs_rest is not None


def output_schema(signature: Signature) -> Any:
    return json_schema.write_schema(signature.outputs, signature.outputs_rest)


def faults_in_outputs(signature: Signature, outputs: Mapping[str, Any]) -> list[str]:
    """Return as sentences why the outputs do not fit the signature; it may declare none."""
    if not promises(signature):
        return []
    single_output = next((output.name for output in signature.outputs if output.is_whole), None)
    if single_output is not None and set(outputs) != {single_output}:
        template = _("The outputs are one value, which is called “{name}”.")
        return [Wording(template, {"name": single_output})]
    if validation.is_too_large(dict(outputs)):
        return [Wording(_("The outputs are too large or too deeply nested."))]
    value = dict(outputs) if single_output is None else outputs[single_output]
    faults = validation.faults(validation.checked(output_schema(signature)), value)
    return [f"{error_messages.place(fault.path) or 'What is given'} {fault.why}." for fault in faults]


def _mock_reply(outcome: Outcome, reason: str, seconds: float) -> MockReply:
    note = Note("MOCK", f"A mock answered, and nothing was sent. {reason}")
    return MockReply(replace(outcome, notes=[*outcome.notes, note]), reason, seconds)


def _invalid_error(faults: Mapping[str, str]) -> DomainError:
    return DomainError("invalid_mock", Wording(_("The mock cannot be saved as it is.")), fields=dict(faults))


def misfits(mock: Mock, signature: Signature) -> Iterator[tuple[str, str]]:
    """Yield each contradiction to the signature, with its path. A mock invents no answer for it."""
    inputs = {parameter.name: parameter for parameter in signature.inputs}
    for number, example in enumerate(mock.examples):
        for name, value in example.arguments.items():
            reason = call_arguments.UNKNOWN
            if name in inputs:
                reason = call_arguments.value_problem(inputs[name], value, signature.schema_rest or {})
            if reason:
                message = Wording(_("“{name}” {reason}."), {"name": name, "reason": reason})
                yield f"examples.{number}.arguments.{name}", message
        if faults := faults_in_outputs(signature, example.outputs):
            yield f"examples.{number}.outputs", join_sentences(faults[:3])
    for number, situation in enumerate(mock.situations):
        names = [
            *situation.when,
            *(situation.parameter_errors if isinstance(situation, situations.InvalidInput) else ()),
        ]
        for name in names:
            if name not in inputs:
                values = {"name": name, "reason": call_arguments.UNKNOWN}
                yield f"situations.{number}", Wording(_("“{name}” {reason}."), values)
