"""Values that fit a JSON Schema, made up by a seed: the same seed, the same value. Pure.

What is made up is judged by the schema before it is given out. Where a schema cannot be met, or not by what
is tried here, UnmetSchemaError says which of its rules stood in the way.
"""

import math
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any
from uuid import UUID

from core.schema import merge, regular_expressions, sample_texts, subschemas, types, validation
from core.schema.dialects import ANNOTATIONS, Schema, dialect_of, normalize_level
from core.schema.references import References, UnresolvedReferenceError

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
# Keywords that decide nothing about a value here, so that a bad one does not stand in the way.
_HARMLESS = ANNOTATIONS | {"format", "nullable", "uniqueItems", "contentEncoding", "contentMediaType"}
_LEFT_TO_THE_JUDGE = ("unevaluatedProperties", "unevaluatedItems", "not", "$defs", "definitions")
_BAD_REFERENCE = "A reference of the schema leads to itself, or leads nowhere."
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
    references = References(schema, dialect_of(schema))
    why, work = "", Work()
    for attempt in range(MAX_TRIES):
        # A schema that takes much work is not tried to the end, but tried with little before that.
        is_last = attempt >= MAX_TRIES - LAST_TRIES or work.done > MAX_WORK // 2
        chance = Random(f"{seed}/{attempt}")  # noqa: S311 - makes examples up, protects nothing
        maker = _Maker(references, chance, work, fullness=0.0 if is_last else fullness)
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
    def __init__(self, references: References, chance: Random, work: Work, fullness: float) -> None:
        self.references, self.chance, self.work, self.fullness = references, chance, work, fullness
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

    def settled(self, schema: Any, depth: int, trail: frozenset[int] = frozenset()) -> Schema:
        """Return the rules of `schema` as one level: references followed, and one of several forms chosen.

        trail: the schemas around this one that judge the same value, by their id().
        """
        self.nodes += 1
        self.work.count()
        if self.nodes > MAX_NODES:
            raise _NoValueError("It is too large.")
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            raise _NoValueError("A rule of the schema allows no value.")
        if id(schema) in trail:
            raise _NoValueError(_BAD_REFERENCE)
        trail |= {id(schema)}
        own, malformed = normalize_level(schema, self.references.dialect)
        if rules := [keyword for keyword in malformed if keyword not in _HARMLESS]:
            raise _NoValueError(f"Its rule “{rules[0]}” is not one of JSON Schema.")
        # What these leave open is judged at the end, with all other rules.
        for keyword in _LEFT_TO_THE_JUDGE:
            own.pop(keyword, None)
        referred = [keyword for keyword in subschemas.REFERENCES if own.pop(keyword, None) is not None]
        parts = [self.target(keyword, schema) for keyword in referred] + own.pop("allOf", [])
        parts += [self.form(own.pop(keyword), depth) for keyword in ("anyOf", "oneOf") if keyword in own]
        parts += self.condition(own)
        dependent = own.pop("dependentSchemas", {})
        said = _join([own, *(self.settled(part, depth, trail) for part in parts)])
        for name, rule in dependent.items():
            if name in said.get("required", ()):
                said = _join([said, self.settled(rule, depth, trail)])
        return said

    def target(self, keyword: str, schema: Schema) -> Any:
        try:
            return self.references.target(keyword, schema)[1]
        except UnresolvedReferenceError as error:
            raise _NoValueError(_BAD_REFERENCE) from error

    def form(self, forms: Sequence[Any], depth: int) -> Any:
        if depth < MAX_DEPTH and self.fullness:
            return self.chance.choice(forms)
        # The one that ends soonest: a value without members, if there is one.
        flat = [each for each in forms if isinstance(each, Mapping) and not _refers(each)]
        return (flat or list(forms))[self.chance.randrange(len(flat or forms))]

    def condition(self, own: Schema) -> list[Any]:
        """Return the schemas that hold where a condition does, or where it does not."""
        condition, then, other = own.pop("if", None), own.pop("then", True), own.pop("else", True)
        if condition is None:
            return []
        return [condition, then] if self.chance.random() < 0.5 else [other]

    def kind(self, said: Mapping[str, Any], depth: int) -> str:
        kinds = types.type_words(said)
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
        low, high = types.lower_bound(said), types.upper_bound(said)
        # How many units the least and the greatest number are that fit; without a bound some hundreds.
        few = (
            None
            if low is None
            else math.floor(_exact(low) / unit) + 1
            if low.is_exclusive
            else math.ceil(_exact(low) / unit)
        )
        most = (
            None
            if high is None
            else math.ceil(_exact(high) / unit) - 1
            if high.is_exclusive
            else math.floor(_exact(high) / unit)
        )
        if few is None:
            few = 0 if most is None else most - 100
        if most is None:
            most = few + (100 if is_whole or step else 10_000)
        if few <= most:
            number = self.chance.randint(few, most) * unit
        elif not is_whole and not step and low and high and low.value <= high.value:
            number = (_exact(low) + _exact(high)) / 2  # closer together than the unit
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
        heads, items = said.get("prefixItems", []), said.get("items", True)
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
        for each in list(chosen):
            chosen.update(dict.fromkeys(said.get("dependentRequired", {}).get(each, ())))
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
    if name in said.get("properties", {}):
        return said["properties"][name]
    for pattern, rule in said.get("patternProperties", {}).items():
        if regular_expressions.matches(pattern, name):
            return rule
    rule = said.get("additionalProperties", True)
    return {"type": "string"} if rule is True else rule


def _shown(said: Mapping[str, Any]) -> list[Any]:
    """Values that the schema itself shows, if they are of the right type; its other rules judge the whole."""
    shown = [*said.get("examples", ()), *(said[name] for name in ("default", "example") if name in said)]
    return [value for value in shown if types.type_of(value) in types.types_of(said)]


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


def _exact(bound: types.Bound) -> Fraction:
    return Fraction(str(bound.value))


def _join(levels: list[Schema]) -> Schema:
    """Return one level that holds where all hold, without what no keyword can express."""
    if len(levels) == 1:
        return levels[0]
    joined = merge.join(levels).schema
    if joined.get("not") == {}:
        raise _NoValueError("Two rules of the schema ask for different types or values.")
    return joined
