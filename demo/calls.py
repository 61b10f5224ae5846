"""One call of a tool: check the arguments against the version called, run it, name the outputs."""

from collections.abc import Mapping, Sequence
from datetime import date, time

from demo.signatures import DemoTool, Edition, ParameterText

# The protocol's largest int if a tool states none.
DEFAULT_MAX_INT = 65535

PYTHON_TYPES = {"int": (int, "a whole number"), "boolean": (bool, "true or false")}


class InvalidArgumentsError(Exception):
    """The request does not fit the tool. `fields` are the reasons by the parameter's name on the wire."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in fields.items()))
        self.fields = dict(fields)


class UnusableValueError(Exception):
    """A value of the right type that the tool cannot use, such as a date that does not exist."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key
        self.why = why


class CannotDoError(Exception):
    """A valid request that the vendor refuses: no such prescription, the room is taken.

    `hint` helps to write a better request, in protocols that have hints.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def call(
    tool: DemoTool, edition: Edition, backend: object, arguments: Sequence[tuple[str, object]]
) -> dict[str, object]:
    """Return the outputs by wire name, only those that this edition declares."""
    try:
        outputs = tool.run(backend, **validate_arguments(edition, arguments))
    except UnusableValueError as exc:
        name = next(p.name for p in edition.inputs if p.key == exc.key)
        raise InvalidArgumentsError({name: exc.why}) from exc
    return {p.name: outputs[p.key] for p in edition.outputs if p.key in outputs}


def validate_arguments(edition: Edition, named_values: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return the arguments by key. One error reports all wrong arguments."""
    parameters = {p.name: p for p in edition.inputs}
    missing = {p.name: "is required" for p in edition.inputs if p.required}
    wrong: dict[str, str] = {}
    arguments: dict[str, object] = {}
    for name, value in named_values:
        missing.pop(name, None)
        parameter = parameters.get(name)
        if parameter is None:
            wrong[name] = "is not an input of this tool"
        elif parameter.key in arguments:
            wrong[name] = "is given twice"
        elif reason := _complaint(parameter, value):
            wrong[name] = reason
        else:
            arguments[parameter.key] = value
    if missing or wrong:
        raise InvalidArgumentsError(missing | wrong)
    return arguments


def _complaint(parameter: ParameterText, value: object) -> str:
    """Return the fault of a value, "" if there is none."""
    expected, type_name = PYTHON_TYPES.get(parameter.type, (str, "text"))
    # A bool is an int to isinstance(), so that True would pass for a number of days.
    if type(value) is not expected:
        return f"must be {type_name}"
    if isinstance(value, str):
        names = [c.name for c in parameter.choices]
        if names and value not in names:
            return f"must be one of {', '.join(names)}"
        if parameter.max_length is not None and len(value) > parameter.max_length:
            return f"must be at most {parameter.max_length} characters"
        return "must not be empty" if parameter.required and not value.strip() else ""
    if parameter.type == "int" and isinstance(value, int):
        high = DEFAULT_MAX_INT if parameter.high is None else parameter.high
        if parameter.low is not None and value < parameter.low:
            return f"must be at least {parameter.low}"
        return f"must be at most {high}" if value > high else ""
    return ""


def day(value: str, key: str) -> date:
    try:
        parsed_date = date.fromisoformat(value)
    except ValueError as exc:
        raise UnusableValueError(key, "must be a date such as 2027-03-09") from exc
    # Far from both ends of the calendar, so that a few days may be added or taken away.
    if not 1900 <= parsed_date.year <= 2199:
        raise UnusableValueError(key, "must be a date from 1900 to 2199")
    return parsed_date


def clock(value: str, key: str) -> time:
    try:
        return time.fromisoformat(value)
    except ValueError as exc:
        raise UnusableValueError(key, "must be a time such as 14:30") from exc
