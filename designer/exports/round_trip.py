"""Check with generated values that a format accepts the arguments that the vendor accepts. Pure.

Arguments that fit the exported schema are mapped to the vendor's names and validated against the vendor's
schema, and arguments that fit the vendor's schema are mapped into the format. The same tool always gives the
same values. If no value can be generated, nothing is proved.
"""

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from core.content_cache import ContentCache, digest
from core.schema import bounds, read_document, samples, validation
from core.schema.samples import UnmetSchemaError
from core.schema.validation import CompiledSchema
from core.schema.work import TooMuchWorkError, Work
from designer.exports import nulls
from designer.exports.wire import UnfitError, Wire, arguments_for_the_vendor, whole_input
from designer.signatures.effective import Effective, EffectiveInput, HiddenInput
from protocols import parameters

Tries = tuple[tuple[int, float], ...]
# Units of work for the values of one schema.
MAX_WORK = 4_000
# Each as (seed, how full). Of an object with optional members, one value has most of them and one has none.
USUAL_TRIES = ((1, samples.USUAL_FULLNESS), (2, 0.0))
# Before a tool is left out, more values are tried, which take other branches.
MORE_TRIES = tuple((seed, samples.USUAL_FULLNESS if seed % 2 else 0.0) for seed in range(3, 11))

ALL_TRIES = (*USUAL_TRIES, *MORE_TRIES)


class RoundTrip(msgspec.Struct, frozen=True):
    """The outcome for one tool in one format.

    has_common: some arguments fit both schemas; None where too few could be made up.
    refused: why the vendor refuses arguments that the export accepts, "" where it refused none.
    is_expressible: the export accepts arguments that fit the vendor's schema; None where there were none.
    is_limited: the limit of work was reached, so not all values were tried.
    """

    has_common: bool | None = None
    refused: str = ""
    is_expressible: bool | None = None
    is_limited: bool = False


class SampleSeries:
    """The values of one schema for USUAL_TRIES and MORE_TRIES, each generated when it is first read.

    All values share one limit of work, and their order is fixed, so they are the same for every reader.
    is_too_large: the parts of the schema alone exceed the limit.
    """

    def __init__(self, schema: Any) -> None:
        self._lock = Lock()
        # One tuple for each try: (value,), or () if no value was found. None after the limit was reached.
        self._results: list[tuple[Any, ...] | None] = []
        self._work = Work(MAX_WORK)
        self._generator: samples.Generator | None = None
        try:
            self._work.count(bounds.count_parts(schema))
            self._generator = samples.Generator(schema, self._work)
            self.is_too_large = False
        except TooMuchWorkError:
            self.is_too_large = True

    def is_limited(self, tries: Tries) -> bool:
        """Return whether the limit was reached in these tries, which have been read."""
        return any(
            result is None and attempt in tries
            for attempt, result in zip(ALL_TRIES, self._results, strict=False)
        )

    def read(self, tries: Tries, ready: CompiledSchema) -> Iterator[Any]:
        """Yield the generated values in the order of `tries`, until one cannot be generated.

        ready: the compiled schema.
        """
        for attempt in tries:
            number = ALL_TRIES.index(attempt)
            with self._lock:
                while len(self._results) <= number:
                    self._results.append(self._generate_value(ready, *ALL_TRIES[len(self._results)]))
            if not (result := self._results[number]):
                # Another try would take as long and fail as well.
                return
            yield result[0]

    def _generate_value(self, ready: CompiledSchema, seed: int, fullness: float) -> tuple[Any, ...] | None:
        try:
            if self._generator is None:
                return None
            return (self._generator.generate(ready, seed, fullness),)
        except UnmetSchemaError as error:
            if not error.is_limited:
                return ()
            self._generator = None
            return None


class Exported(NamedTuple):
    """The schema that a model reads, and the mapping of its names."""

    schema: dict[str, Any]
    names: Wire


def check(tool: Effective, exported: Exported, *, is_quick: bool = True) -> RoundTrip:
    """Compare what one format accepts with what the vendor accepts.

    is_quick: stop at the first arguments that fit both schemas.
    """
    vendor_schema = write_vendor_schema(tool)
    export_series, vendor_series = _read_series(exported.schema), _read_series(vendor_schema)
    if export_series.is_too_large or vendor_series.is_too_large:
        return RoundTrip(is_limited=True)
    vendor_check, export_check = validation.checked(vendor_schema), validation.checked(exported.schema)
    refusals: list[str] = []
    expressible: list[bool] = []
    for tries in (USUAL_TRIES, MORE_TRIES):
        for value in export_series.read(tries, export_check):
            refusals.append(_find_refusal(tool, exported.names, vendor_check, value))
            if is_quick and not refusals[-1]:
                return RoundTrip(has_common=True)
        for value in vendor_series.read(tries, vendor_check):
            arguments = _write_model_arguments(tool, exported, vendor_check, value)
            if arguments is not None:
                expressible.append(not validation.faults(export_check, arguments))
        is_limited = export_series.is_limited(tries) or vendor_series.is_limited(tries)
        if "" in refusals or any(expressible) or is_limited:
            break
    has_common = "" in refusals or any(expressible)
    return RoundTrip(
        # If no arguments that fit the vendor's schema could be generated, refused ones prove nothing about
        # others.
        has_common=has_common if has_common or (refusals and expressible and not is_limited) else None,
        refused=next(filter(None, refusals), ""),
        is_expressible=all(expressible) if expressible else None,
        is_limited=is_limited,
    )


# Each format reads values of the vendor's schema, and some formats write equal schemas. The size bounds the
# memory of the largest values.
_series: ContentCache[SampleSeries] = ContentCache(size=8)


def _read_series(schema: Any) -> SampleSeries:
    return _series.get(digest(schema), lambda: SampleSeries(schema))


def write_vendor_schema(tool: Effective) -> Any:
    """Return the vendor's schema of all inputs, the hidden ones too."""
    single_input = whole_input(tool)
    if single_input is not None:
        return parameters.write_parameter(single_input.parameter)
    all_inputs: list[EffectiveInput | HiddenInput] = [*tool.inputs, *tool.hidden]
    return parameters.write_schema([declared.parameter for declared in all_inputs], tool.schema_rest)


def presets_of(tool: Effective) -> Mapping[str, Any]:
    """Return the presets of all inputs by the vendor's names."""
    all_inputs: list[EffectiveInput | HiddenInput] = [*tool.inputs, *tool.hidden]
    return {
        declared.parameter.name: declared.preset for declared in all_inputs if declared.preset is not UNSET
    }


def _find_refusal(tool: Effective, names: Wire, vendor_check: CompiledSchema, value: Any) -> str:
    """Return why the vendor refuses what a model has written, "" where it does not."""
    if not isinstance(value, dict):
        return "What is given must be an object"
    try:
        arguments = arguments_for_the_vendor(tool, [names], value)
    except UnfitError as error:
        return str(error)
    single_input = whole_input(tool)
    sent_value = (
        {**presets_of(tool), **arguments}
        if single_input is None
        else arguments.get(single_input.parameter.name)
    )
    faults = validation.faults(vendor_check, sent_value)
    if not faults:
        return ""
    path = ".".join(map(str, faults[0].path))
    return f"“{path}” {faults[0].why}" if path else f"It {faults[0].why}"


def _write_model_arguments(
    tool: Effective, exported: Exported, vendor_check: CompiledSchema, value: Any
) -> dict[str, Any] | None:
    """Convert `value`, which fits the vendor's schema, to the arguments that a model writes in the format.

    None if no model can write them, because a hidden input differs from its preset.
    """
    names = exported.names
    if whole_input(tool) is not None:
        wrapped = {names.whole: value} if names.whole else value
        return wrapped if isinstance(wrapped, dict) else None
    if not isinstance(value, dict):
        return None
    hidden_names = {hidden.parameter.name for hidden in tool.hidden}
    visible = {name: member for name, member in value.items() if name not in hidden_names}
    presets = {name: preset for name, preset in presets_of(tool).items() if name in hidden_names}
    if validation.faults(vendor_check, {**presets, **visible}):
        return None
    alias_by_name = {vendor_name: alias for alias, vendor_name in names.inputs.items()}
    arguments: dict[str, Any] = {alias_by_name.get(name, name): member for name, member in visible.items()}
    if names.whole:
        arguments = {names.whole: arguments}
    if not names.null_is_absent:
        return arguments
    completed: dict[str, Any] = nulls.with_absent(read_document(exported.schema), arguments)
    return completed
