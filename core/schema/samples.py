"""Values that fit a JSON Schema, made up by a seed: the same seed, the same value. Pure.

What is made up is judged by the schema before it is given out. Where a schema cannot be met, or not by what
is tried here, UnmetSchemaError says which of its rules stood in the way.
"""

import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import reduce
from random import Random
from typing import Any
from uuid import UUID

from core.schema import pointers, sample_texts, subschemas, validation

# The first tries fill in what is optional as chance has it; the last ones leave out what can be left out.
MAX_TRIES = 40
LAST_TRIES = 10
# Below this depth only what is required is made, which ends a schema that refers to itself.
MAX_DEPTH = 6
MAX_ITEMS = 3
USUAL_FULLNESS = 0.7
MAX_NODES = 5_000
# Of all tries together: parts of a schema, steps of a pattern, and a hundred characters of a text count one.
MAX_WORK = 40_000
MAX_TEXT = 20_000  # characters that a text has to have
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
NOUNS = ("harbour", "lantern", "meadow", "copper", "willow", "orchard", "signal", "cedar", "ember", "quarry")
NAMES = ("Ada Moreau", "Tomas Lind", "Mina Okafor", "Jonas Weber", "Priya Nair", "Elena Rossi")
CITIES = ("Lisbon", "Oslo", "Nairobi", "Osaka", "Toronto", "Valencia")
# What a member with such a word in its name usually holds; the first that fits.
BY_NAME: tuple[tuple[tuple[str, ...], Sequence[str]], ...] = (
    (("email", "mail"), ("ada.moreau@example.com", "tomas.lind@example.org")),
    (("url", "uri", "link", "href"), ("https://example.com/harbour", "https://example.org/lantern")),
    (("city", "town", "place", "location", "destination", "origin"), CITIES),
    (("country",), ("PT", "NO", "KE", "JP", "CA")),
    (("currency",), ("EUR", "NOK", "USD", "JPY")),
    (("phone", "mobile"), ("+351 555 0100", "+47 555 0142")),
    (("name", "author", "owner", "person", "customer", "member"), NAMES),
    (("date", "day"), ("2026-03-14", "2026-11-02")),
    (("time", "_at", "when"), ("2026-03-14T09:30:00Z", "2026-11-02T16:05:00Z")),
    (("language", "locale"), ("en", "pt", "nb")),
)
# The types of JSON Schema by those of values that were read from JSON.
TYPES_OF: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    dict: ("object",),
    list: ("array",),
    type(None): ("null",),
}
START = datetime(2026, 1, 1, tzinfo=UTC)


class UnmetSchemaError(Exception):
    """No value was found that fits. `why` is a sentence for a person."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def generate(schema: Any, seed: int, *, fullness: float = USUAL_FULLNESS) -> Any:
    """Return a value that fits `schema`, the same one for the same `seed`. Raises UnmetSchemaError.

    fullness: how likely an optional member is there; with 0.0 every part is as small as the schema allows.
    """
    ready = validation.checked(schema)
    why, work = "", Work()
    for attempt in range(MAX_TRIES):
        # A schema that takes much work is not tried to the end, but tried with little before that.
        is_last = attempt >= MAX_TRIES - LAST_TRIES or work.done > MAX_WORK // 2
        chance = Random(f"{seed}/{attempt}")  # noqa: S311 - makes examples up, protects nothing
        maker = _Maker(schema, chance, work, fullness=0.0 if is_last else fullness)
        try:
            value = maker.value(schema, 0, "")
            faults = validation.faults(ready, value)
        except _TooMuchError as error:
            why = why or str(error)
            break
        except _NoValueError as error:
            why = why or str(error)
            continue
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
            # A vendor may write a text where a number belongs, or a schema that contains itself.
            why = why or "A rule of the schema is not one of JSON Schema, or leads to itself."
            continue
        if not faults:
            return value
        place = ".".join(map(str, faults[0].path)) or "The value"
        why = f"{place} {faults[0].why}."
    raise UnmetSchemaError(f"No answer could be made up that fits the output schema. {why}".strip())


class _NoValueError(Exception):
    """Nothing fits here, or nothing was found."""


class _TooMuchError(Exception):
    """All that may be tried has been tried."""


class Work:
    """What has been done for one value, over all tries."""

    def __init__(self) -> None:
        self.done = 0

    def count(self, much: int = 1) -> None:
        self.done += much
        if self.done > MAX_WORK:
            raise _TooMuchError("It takes too much to make up.")


class _Maker:
    def __init__(self, root: Any, chance: Random, work: Work, fullness: float) -> None:
        self.root, self.chance, self.work, self.fullness = root, chance, work, fullness
        self.nodes = 0

    def value(self, schema: Any, depth: int, name: str) -> Any:
        if depth > MAX_DEPTH * 4:
            raise _NoValueError("It is nested too deeply.")
        said = self.settled(schema, depth)
        if "const" in said:
            return said["const"]
        if "enum" in said:
            if not said["enum"]:
                raise _NoValueError("A list of allowed values is empty.")
            return self.chance.choice(said["enum"])
        if self.fullness and (shown := _shown(said)) and self.chance.random() < 0.2:
            return self.chance.choice(shown)
        make = {
            "string": self.text,
            "integer": self.number,
            "number": self.number,
            "object": self.object,
            "array": self.array,
        }.get(kind := self.kind(said, depth))
        if make is None:
            return self.chance.random() < 0.5 if kind == "boolean" else None
        return make({**said, "type": kind}, depth, name)

    def settled(self, schema: Any, depth: int) -> dict[str, Any]:
        """The rules of `schema` in one object: references followed, and one of several forms chosen."""
        self.nodes += 1
        self.work.count()
        if self.nodes > MAX_NODES:
            raise _NoValueError("It is too large.")
        if schema is True:
            return {}
        if not isinstance(schema, Mapping):
            raise _NoValueError("A rule of the schema allows no value.")
        said = self.followed(dict(schema))
        for part in said.pop("allOf", None) or ():
            said = _both(said, self.settled(part, depth))
        for keyword in ("anyOf", "oneOf"):
            if forms := said.pop(keyword, None):
                said = _both(said, self.settled(self.form(forms, depth), depth))
        if "if" in said:
            said = self.conditioned(said, depth)
        dependent = said.pop("dependentSchemas", None) or {}
        for name, rule in dependent.items():
            if name in (said.get("required") or ()):
                said = _both(said, self.settled(rule, depth))
        return said

    def followed(self, said: dict[str, Any]) -> dict[str, Any]:
        seen = 0
        while reference := said.pop("$ref", None) or said.pop("$dynamicRef", None):
            seen += 1
            try:
                found = pointers.resolve_reference(self.root, str(reference))
            except LookupError:
                found = False
            if seen > 20 or found is False:
                raise _NoValueError("A reference of the schema leads nowhere.")
            said = _both(said, {} if found is True else dict(found))
        return said

    def form(self, forms: Sequence[Any], depth: int) -> Any:
        if depth < MAX_DEPTH and self.fullness:
            return self.chance.choice(forms)
        # The one that ends soonest: a value without members, if there is one.
        flat = [each for each in forms if isinstance(each, Mapping) and not _refers(each)]
        return (flat or list(forms))[self.chance.randrange(len(flat or forms))]

    def conditioned(self, said: dict[str, Any], depth: int) -> dict[str, Any]:
        condition, then, other = said.pop("if"), said.pop("then", True), said.pop("else", True)
        if self.chance.random() < 0.5:
            return _both(_both(said, self.settled(condition, depth)), self.settled(then, depth))
        return _both(said, self.settled(other, depth))

    def kind(self, said: Mapping[str, Any], depth: int) -> str:
        types = said.get("type")
        kinds = [types] if isinstance(types, str) else list(types or ())
        if not kinds:
            # Without a type most rules judge only one kind of value, and another kind fits.
            return _likely(said) if self.fullness else self.chance.choice(TYPES)
        if "null" in kinds and len(kinds) > 1:
            if depth >= MAX_DEPTH or self.chance.random() < 0.1:
                return "null"
            kinds.remove("null")
        return str(self.chance.choice(kinds))

    def number(self, said: Mapping[str, Any], depth: int, name: str) -> int | float:
        is_whole, step = said["type"] == "integer", said.get("multipleOf")
        unit = Fraction(str(step)) if step else Fraction(1) if is_whole else Fraction(1, 100)
        if is_whole:
            unit *= unit.denominator
        low, high = _bounds(said)
        # How many units the least and the greatest number are that fit; without a bound some hundreds.
        few = (
            None
            if low is None
            else math.floor(low.at / unit) + 1
            if low.is_open
            else math.ceil(low.at / unit)
        )
        most = (
            None
            if high is None
            else math.ceil(high.at / unit) - 1
            if high.is_open
            else math.floor(high.at / unit)
        )
        if few is None:
            few = 0 if most is None else most - 100
        if most is None:
            most = few + (100 if is_whole or step else 10_000)
        if few <= most:
            number = self.chance.randint(few, most) * unit
        elif not is_whole and not step and low and high and low.at <= high.at:
            number = (low.at + high.at) / 2  # closer together than the unit
        else:
            raise _NoValueError("No number lies between its bounds.")
        return int(number) if is_whole else float(number)

    def text(self, said: Mapping[str, Any], depth: int, name: str) -> str:
        shortest = int(said.get("minLength") or 0)
        longest = said.get("maxLength")
        if longest is not None and longest < shortest:
            raise _NoValueError("A text would have to be longer than it may be.")
        if shortest > MAX_TEXT:
            raise _NoValueError(f"A text would have to be longer than {MAX_TEXT:,} characters.")
        self.work.count(shortest // 100)
        if isinstance(pattern := said.get("pattern"), str):
            try:
                return sample_texts.text(pattern, self.chance, self.work.count, shortest, longest)
            except sample_texts.UnwritablePatternError:
                raise _NoValueError(f"No text can be made up for the pattern “{pattern[:80]}”.") from None
        made = self.of_format(str(said.get("format", "")), shortest, longest) or self.named(name)
        if longest is not None:
            made = made[: int(longest)]
        if (missing := shortest - len(made)) > 0:
            # No word is shorter than five letters.
            made = " ".join([*([made] if made else []), *self.chance.choices(NOUNS, k=missing // 5 + 1)])
        return made[: int(longest)] if longest is not None else made

    def named(self, name: str) -> str:
        words = name.lower()
        for signs, texts in BY_NAME:
            if any(sign in words for sign in signs):
                return self.chance.choice(texts)
        if words.endswith(("id", "key", "code", "number", "no")):
            return (
                "".join(self.chance.choices(string.ascii_uppercase, k=2))
                + f"-{self.chance.randint(100, 99999)}"
            )
        return " ".join(self.chance.sample(NOUNS, 2)).capitalize()

    def of_format(self, name: str, shortest: int, longest: int | None) -> str:
        moment = START + timedelta(seconds=self.chance.randrange(366 * 86_400))
        # Some vendors say by the length which of these it is.
        times = [f"{moment:%Y-%m-%dT%H:%M:%S}{end}" for end in ("Z", ".000Z", "+00:00", ".000+00:00")]
        of_length = [each for each in times if shortest <= len(each) <= (longest or math.inf)]
        numbers = [str(self.chance.randint(1, 254)) for _ in range(3)]
        noun = self.chance.choice(NOUNS)
        made = {
            "date-time": [*of_length, *times][0],
            "date": moment.strftime("%Y-%m-%d"),
            "time": moment.strftime("%H:%M:%SZ"),
            "duration": f"PT{self.chance.randint(1, 59)}M",
            "email": f"{noun}@example.com",
            "idn-email": f"{noun}@example.com",
            "hostname": f"{noun}.example.com",
            "idn-hostname": f"{noun}.example.com",
            "ipv4": ".".join(["10", *numbers]),
            "ipv6": "2001:db8::" + ":".join(numbers[:2]),
            "uri": f"https://example.com/{noun}",
            "url": f"https://example.com/{noun}",
            "iri": f"https://example.com/{noun}",
            "uri-reference": f"/{noun}",
            "iri-reference": f"/{noun}",
            "uri-template": f"/{noun}/{{id}}",
            "json-pointer": f"/{noun}",
            "relative-json-pointer": f"0/{noun}",
            "regex": f"^{noun}$",
            "uuid": str(UUID(int=self.chance.getrandbits(128), version=4)),
            "byte": "aGFyYm91cg==",
        }
        return made.get(name, "")

    def array(self, said: Mapping[str, Any], depth: int, name: str) -> list[Any]:
        heads, items = _heads_and_items(said)
        least = int(said.get("minItems") or 0)
        wanted = said.get("contains")
        at_least = int(said.get("minContains", 1)) if wanted is not None else 0
        usual = 0 if depth >= MAX_DEPTH or not self.fullness else self.chance.randint(1, MAX_ITEMS)
        most = said.get("maxItems")
        count = max(least, at_least, min(usual, MAX_ITEMS))
        if items is False:
            count = min(max(count, least), len(heads))
        if most is not None:
            count = min(count, int(most))
        if count < least or count > MAX_NODES:
            raise _NoValueError("An array would have to hold more than it may, or more than is made up.")
        made: list[Any] = []
        for index in range(count):
            rule = heads[index] if index < len(heads) else items
            if index >= count - at_least:
                rule = {"allOf": [rule, wanted]}
            made.append(self.differing(rule, depth, name, made, is_unique=bool(said.get("uniqueItems"))))
        return made

    def differing(self, rule: Any, depth: int, name: str, others: Sequence[Any], *, is_unique: bool) -> Any:
        singular = name[:-1] if name.endswith("s") else name
        for _ in range(20):
            value = self.value(rule, depth + 1, singular)
            if not is_unique or value not in others:
                return value
        raise _NoValueError("Too few different values fit an array whose items have to differ.")

    def object(self, said: Mapping[str, Any], depth: int, name: str) -> dict[str, Any]:
        properties = said.get("properties") or {}
        required = [each for each in said.get("required") or () if isinstance(each, str)]
        chosen = dict.fromkeys(required)
        for each, rule in properties.items():
            # What a tool promises at the top comes back if it can: the next call of an agent may need it.
            likely = 1.0 if depth == 0 and self.fullness else self.fullness
            is_wanted = depth < MAX_DEPTH and self.chance.random() < likely
            if is_wanted and rule is not False:
                chosen.setdefault(each)
        self.fill_up(said, chosen, depth)
        made: dict[str, Any] = {}
        # In the order of the schema, as a person would write them.
        for each in [*(p for p in properties if p in chosen), *(c for c in chosen if c not in properties)]:
            try:
                made[each] = self.value(_rule_for(said, each), depth + 1, each)
            except _NoValueError:
                if each in required:
                    raise
        return made

    def fill_up(self, said: Mapping[str, Any], chosen: dict[str, None], depth: int) -> None:
        depends = {**(said.get("dependentRequired") or {}), **(said.get("dependencies") or {})}
        for each in list(chosen):
            if isinstance(also := depends.get(each), list):
                chosen.update(dict.fromkeys(also))
        names = [each for each, rule in (said.get("properties") or {}).items() if rule is not False]
        least = int(said.get("minProperties") or 0)
        for each in names:
            if len(chosen) < least:
                chosen.setdefault(each)
        tries = 0
        while len(chosen) < least and tries < 200:
            tries += 1
            if (by := said.get("patternProperties")) and said.get("additionalProperties") is False:
                chosen.setdefault(sample_texts.text(next(iter(by)), self.chance, self.work.count))
            elif (rule := said.get("propertyNames")) is not None:
                named = {"type": "string", "minLength": tries, "allOf": [rule]}
                chosen.setdefault(str(self.value(named, depth + 1, "")))
            else:
                chosen.setdefault(f"{self.chance.choice(NOUNS)}_{len(chosen)}")
        most = said.get("maxProperties")
        required = said.get("required") or ()
        for each in list(reversed(chosen)):
            if most is not None and len(chosen) > most and each not in required:
                del chosen[each]


def _rule_for(said: Mapping[str, Any], name: str) -> Any:
    if name in (said.get("properties") or {}):
        return said["properties"][name]
    for pattern, rule in (said.get("patternProperties") or {}).items():
        if not validation.faults(validation.checked({"pattern": pattern}), name):
            return rule
    rule = said.get("additionalProperties", True)
    return {"type": "string"} if rule is True else rule


def _shown(said: Mapping[str, Any]) -> list[Any]:
    """Values that the schema itself shows, if they are of the right type; its other rules judge the whole."""
    several = said.get("examples")
    shown = several if isinstance(several, list) else []
    shown = [*shown, *(said[name] for name in ("default", "example") if name in said)]
    types = said.get("type")
    kinds = (types,) if isinstance(types, str) else types
    return [each for each in shown if not kinds or set(kinds) & {*TYPES_OF.get(type(each), ())}]


def _refers(schema: Mapping[str, Any]) -> bool:
    return any(True for _ in subschemas.references(schema))


def _likely(said: Mapping[str, Any]) -> str:
    by_keyword = (
        ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
        ("array", ("items", "prefixItems", "minItems", "contains", "uniqueItems")),
        ("string", ("pattern", "minLength", "maxLength", "format")),
        ("number", ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")),
    )
    return next((kind for kind, words in by_keyword if any(word in said for word in words)), "string")


def _heads_and_items(said: Mapping[str, Any]) -> tuple[list[Any], Any]:
    if isinstance(items := said.get("items"), list):  # before draft 2020-12
        return items, said.get("additionalItems", True)
    return list(said.get("prefixItems") or ()), True if items is None else items


@dataclass(frozen=True)
class _Bound:
    at: Fraction
    is_open: bool


def _bounds(said: Mapping[str, Any]) -> tuple[_Bound | None, _Bound | None]:
    """The least and the greatest number that fit, as far as they are bounded."""

    def bound(keyword: str, exclusive: str, nearest: Any) -> _Bound | None:
        given, beyond = said.get(keyword), said.get(exclusive)
        # Draft 4 says by true or false whether the bound itself is left out.
        bounds = [] if given is None else [_Bound(Fraction(str(given)), beyond is True)]
        if isinstance(beyond, int | float) and not isinstance(beyond, bool):
            bounds.append(_Bound(Fraction(str(beyond)), is_open=True))
        return nearest(bounds, key=lambda each: each.at) if bounds else None

    return bound("minimum", "exclusiveMinimum", max), bound("maximum", "exclusiveMaximum", min)


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """One set of rules that holds where both hold, as far as that can be written in one."""
    return reduce(_with, other.items(), dict(one))


def _with(said: dict[str, Any], rule: tuple[str, Any]) -> dict[str, Any]:
    keyword, value = rule
    if keyword not in said:
        return {**said, keyword: value}
    held = said[keyword]
    if keyword in _JOINED:
        return {**said, keyword: _JOINED[keyword](held, value)}
    if keyword in ("anyOf", "oneOf", "not", "if"):
        return {**said, "allOf": [*(said.get("allOf") or ()), {keyword: value}]}
    return {**said, keyword: value}


def _types(held: Any, value: Any) -> Any:
    kinds, others = ([each] if isinstance(each, str) else list(each) for each in (held, value))
    common = [each for each in kinds if each in others]
    common += ["integer"] if not common and {"integer", "number"} <= {*kinds, *others} else []
    if not common:
        raise _NoValueError("Two rules of the schema ask for different types.")
    return common[0] if len(common) == 1 else common


def _heads(held: list[Any], value: list[Any]) -> list[Any]:
    shared = [_all_of(one, other) for one, other in zip(held, value, strict=False)]
    longer = held if len(held) > len(value) else value
    return shared + longer[len(shared) :]


def _members(held: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **held,
        **{name: _all_of(held[name], rule) if name in held else rule for name, rule in value.items()},
    }


def _all_of(held: Any, value: Any) -> dict[str, Any]:
    return {"allOf": [held, value]}


def _union(held: Sequence[Any], value: Sequence[Any]) -> list[Any]:
    return [*held, *(each for each in value if each not in held)]


def _common(held: Sequence[Any], value: Sequence[Any]) -> list[Any]:
    return [each for each in held if each in value]


# What holds of a keyword where two schemas both give it.
_JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _common,
    "required": _union,
    "allOf": _union,
    "properties": _members,
    "prefixItems": _heads,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("items", "contains", "propertyNames", "additionalProperties"), _all_of),
}
