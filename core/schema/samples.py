"""Generate values that fit a JSON Schema. The same seed gives the same value. Pure.

A generated value is validated by the schema before it is returned. If no value is found, UnmetSchemaError
names the rule that prevented it.
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
from core.schema.validation import CompiledSchema
from core.schema.work import TooMuchWorkError, Work

# The first tries choose optional parts at random; the last ones leave out every optional part.
MAX_TRIES = 40
LAST_TRIES = 10
# Below this depth only required parts are generated, which ends a schema that refers to itself.
MAX_DEPTH = 6
MAX_ITEMS = 3
USUAL_FULLNESS = 0.7
MAX_NODES = 5_000
MAX_WORK = 20_000  # of all tries for one value
JUDGEMENTS_A_UNIT = 200  # of the validator
MAX_TEXT = 20_000  # characters that a text has to have
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
# Keywords that apply to one type alone.
_KEYWORDS_OF = (
    ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
    ("array", ("items", "prefixItems", "minItems", "contains", "uniqueItems")),
    ("string", ("pattern", "minLength", "maxLength", "format")),
    ("number", ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")),
)
NOUNS = ("harbour", "lantern", "meadow", "copper", "willow", "orchard", "signal", "cedar", "ember", "quarry")
NAMES = ("Ada Moreau", "Tomas Lind", "Mina Okafor", "Jonas Weber", "Priya Nair", "Elena Rossi")
CITIES = ("Lisbon", "Oslo", "Nairobi", "Osaka", "Toronto", "Valencia")
# Usual values of a member with such a word in its name. The first entry that fits is used.
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
# Keywords that have no influence on a value here, so a malformed one is ignored.
_HARMLESS = ANNOTATIONS | {"format", "nullable", "uniqueItems", "contentEncoding", "contentMediaType"}
_LEFT_TO_THE_JUDGE = ("unevaluatedProperties", "unevaluatedItems", "not", "$defs", "definitions")
_BAD_REFERENCE = "A reference of the schema points to itself or to nothing."
START = datetime(2026, 1, 1, tzinfo=UTC)


class UnmetSchemaError(Exception):
    """No value was found that fits. why: a sentence. is_limited: the limit of work was reached."""

    def __init__(self, why: str, *, is_limited: bool = False) -> None:
        super().__init__(why)
        self.why, self.is_limited = why, is_limited


def generate(schema: Any, seed: int, *, fullness: float = USUAL_FULLNESS) -> Any:
    """Return a value that fits `schema`, the same one for the same `seed`. Raises UnmetSchemaError.

    fullness: the probability of each optional member; with 0.0 every part is as small as the schema allows.
    """
    return Generator(schema, Work(MAX_WORK)).generate(validation.checked(schema), seed, fullness)


class Generator:
    """Generates values that fit one schema.

    work: shared by all tries of all values.
    """

    def __init__(self, schema: Any, work: Work) -> None:
        self.schema, self.work = schema, work
        self.references = References(schema, dialect_of(schema))

    def generate(self, ready: CompiledSchema, seed: int, fullness: float) -> Any:
        """Return the value of `generate`. Raises UnmetSchemaError.

        ready: the compiled schema, which takes too much memory to be kept here.
        """
        reason, is_limited = "", False
        for attempt in range(MAX_TRIES):
            # A schema that takes much work is tried with few optional parts before the limit is reached.
            is_last = attempt >= MAX_TRIES - LAST_TRIES or self.work.done > self.work.limit // 2
            try:
                chance = Random(f"{seed}/{attempt}")  # noqa: S311 - makes examples up, protects nothing
                maker = _Maker(self.references, chance, self.work, 0.0 if is_last else fullness)
                value = maker.value(self.schema, 0, "")
                self.work.count(validation.count_judgements(ready, value) // JUDGEMENTS_A_UNIT)
                faults = validation.faults(ready, value)
            except TooMuchWorkError:
                reason, is_limited = reason or "It takes too long to generate.", True
                break
            except _NoValueError as error:
                reason = reason or str(error)
                continue
            except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
                # A vendor may write a text in place of a number, or a schema that contains itself.
                reason = reason or "A rule of the schema is not one of JSON Schema, or refers to itself."
                continue
            if not faults:
                return value
            place = ".".join(map(str, faults[0].path)) or "The value"
            reason = f"{place} {faults[0].why}."
        why = f"No answer could be generated that fits the output schema. {reason}".strip()
        raise UnmetSchemaError(why, is_limited=is_limited)


class _NoValueError(Exception):
    """No value fits here, or none was found."""


class _Maker:
    def __init__(self, references: References, chance: Random, work: Work, fullness: float) -> None:
        self.references, self.chance, self.work, self.fullness = references, chance, work, fullness
        self.nodes = 0

    def value(self, schema: Any, depth: int, name: str) -> Any:
        if depth > MAX_DEPTH * 4:
            raise _NoValueError("It is nested too deeply.")
        level = self.settled(schema, depth)
        if "const" in level:
            return level["const"]
        if "enum" in level:
            if not level["enum"]:
                raise _NoValueError("A list of allowed values is empty.")
            return self.chance.choice(level["enum"])
        if self.fullness:
            # Those of the right type. The whole value is validated later.
            stated = [*level.get("examples", ()), *(level[n] for n in ("default", "example") if n in level)]
            examples = [value for value in stated if types.type_of(value) in types.types_of(level)]
            if examples and self.chance.random() < 0.2:
                return self.chance.choice(examples)
        make = {
            "string": self.text,
            "integer": self.number,
            "number": self.number,
            "object": self.object,
            "array": self.array,
        }.get(kind := self.kind(level, depth))
        if make is None:
            return self.chance.random() < 0.5 if kind == "boolean" else None
        return make({**level, "type": kind}, depth, name)

    def settled(self, schema: Any, depth: int, trail: frozenset[int] = frozenset()) -> Schema:
        """Return the rules of `schema` as one level: references followed, and one of several forms chosen.

        trail: the outer schemas for the same value, by their id().
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
        keywords, malformed = normalize_level(schema, self.references.dialect)
        if rules := [keyword for keyword in malformed if keyword not in _HARMLESS]:
            raise _NoValueError(f"Its rule “{rules[0]}” is not one of JSON Schema.")
        # The finished value is validated by these rules.
        for keyword in _LEFT_TO_THE_JUDGE:
            keywords.pop(keyword, None)
        referred = [keyword for keyword in subschemas.REFERENCES if keywords.pop(keyword, None) is not None]
        parts = [self.target(keyword, schema) for keyword in referred] + keywords.pop("allOf", [])
        parts += [
            self.form(keywords.pop(keyword), depth) for keyword in ("anyOf", "oneOf") if keyword in keywords
        ]
        parts += self.condition(keywords)
        dependent = keywords.pop("dependentSchemas", {})
        level = self.join([keywords, *(self.settled(part, depth, trail) for part in parts)])
        required = _required_names(level)
        for name, rule in dependent.items():
            if name in required:
                level = self.join([level, self.settled(rule, depth, trail)])
                required = _required_names(level)
        return level

    def join(self, levels: list[Schema]) -> Schema:
        """Return one level with the rules of all, without rules that no keyword can state."""
        if len(levels) == 1:
            return levels[0]
        # The keywords of each level, and their members, are compared.
        for level in levels:
            members = sum(len(value) for value in level.values() if isinstance(value, dict | list))
            self.work.count(len(level) + members)
        joined = merge.join(levels).schema
        if joined.get("not") == {}:
            raise _NoValueError("Two rules of the schema ask for different types or values.")
        return joined

    def target(self, keyword: str, schema: Schema) -> Any:
        try:
            return self.references.target(keyword, schema)[1]
        except UnresolvedReferenceError as error:
            raise _NoValueError(_BAD_REFERENCE) from error

    def form(self, forms: Sequence[Any], depth: int) -> Any:
        if depth < MAX_DEPTH and self.fullness:
            return self.chance.choice(forms)
        # A form without members, if there is one, because it ends soonest.
        flat = [
            form
            for form in forms
            if isinstance(form, Mapping) and not any(True for _ in subschemas.references(form))
        ]
        return (flat or list(forms))[self.chance.randrange(len(flat or forms))]

    def condition(self, keywords: Schema) -> list[Any]:
        """Return the schemas that apply if the condition holds, or those that apply otherwise."""
        condition, then, other = (
            keywords.pop("if", None),
            keywords.pop("then", True),
            keywords.pop("else", True),
        )
        if condition is None:
            return []
        return [condition, then] if self.chance.random() < 0.5 else [other]

    def kind(self, level: Mapping[str, Any], depth: int) -> str:
        kinds = types.type_words(level)
        if not kinds:
            # Without a type most rules apply only to one type, and a value of another type fits.
            if not self.fullness:
                return self.chance.choice(TYPES)
            return next(
                (kind for kind, words in _KEYWORDS_OF if any(word in level for word in words)), "string"
            )
        if "null" in kinds and len(kinds) > 1:
            if depth >= MAX_DEPTH or self.chance.random() < 0.1:
                return "null"
            kinds.remove("null")
        return str(self.chance.choice(kinds))

    def number(self, level: Mapping[str, Any], depth: int, name: str) -> int | float:
        is_whole, step = level["type"] == "integer", level.get("multipleOf")
        unit = Fraction(str(step)) if step else Fraction(1) if is_whole else Fraction(1, 100)
        if is_whole:
            unit *= unit.denominator
        low, high = types.lower_bound(level), types.upper_bound(level)
        # The least and the greatest number that fit, in units; without a bound some hundreds.
        lowest = (
            None
            if low is None
            else math.floor(_exact_value(low) / unit) + 1
            if low.is_exclusive
            else math.ceil(_exact_value(low) / unit)
        )
        highest = (
            None
            if high is None
            else math.ceil(_exact_value(high) / unit) - 1
            if high.is_exclusive
            else math.floor(_exact_value(high) / unit)
        )
        if lowest is None:
            lowest = 0 if highest is None else highest - 100
        if highest is None:
            highest = lowest + (100 if is_whole or step else 10_000)
        if lowest <= highest:
            number = self.chance.randint(lowest, highest) * unit
        elif not is_whole and not step and low and high and low.value <= high.value:
            number = (_exact_value(low) + _exact_value(high)) / 2  # closer together than the unit
        else:
            raise _NoValueError("No number lies between its bounds.")
        return int(number) if is_whole else float(number)

    def text(self, level: Mapping[str, Any], depth: int, name: str) -> str:
        min_length = int(level.get("minLength") or 0)
        max_length = level.get("maxLength")
        if max_length is not None and max_length < min_length:
            raise _NoValueError("A text would have to be longer than it may be.")
        if min_length > MAX_TEXT:
            raise _NoValueError(f"A text would have to be longer than {MAX_TEXT:,} characters.")
        self.work.count(min_length // 100)
        if isinstance(pattern := level.get("pattern"), str):
            try:
                return sample_texts.text(pattern, self.chance, self.work.count, min_length, max_length)
            except sample_texts.UnwritablePatternError:
                raise _NoValueError(f"No text can be generated for the pattern “{pattern[:80]}”.") from None
        text = self.of_format(str(level.get("format", "")), min_length, max_length) or self.text_for_name(
            name
        )
        if max_length is not None:
            text = text[: int(max_length)]
        if (missing := min_length - len(text)) > 0:
            # No word is shorter than five letters.
            text = " ".join([*([text] if text else []), *self.chance.choices(NOUNS, k=missing // 5 + 1)])
        return text[: int(max_length)] if max_length is not None else text

    def text_for_name(self, name: str) -> str:
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

    def of_format(self, name: str, min_length: int, max_length: int | None) -> str:
        moment = START + timedelta(seconds=self.chance.randrange(366 * 86_400))
        # Some vendors state by the length which of these they mean.
        times = [f"{moment:%Y-%m-%dT%H:%M:%S}{end}" for end in ("Z", ".000Z", "+00:00", ".000+00:00")]
        of_length = [time for time in times if min_length <= len(time) <= (max_length or math.inf)]
        numbers = [str(self.chance.randint(1, 254)) for _ in range(3)]
        noun = self.chance.choice(NOUNS)
        text_by_format = {
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
        return text_by_format.get(name, "")

    def array(self, level: Mapping[str, Any], depth: int, name: str) -> list[Any]:
        heads, items = level.get("prefixItems", []), level.get("items", True)
        min_items = int(level.get("minItems") or 0)
        contains = level.get("contains")
        at_least = int(level.get("minContains", 1)) if contains is not None else 0
        usual = 0 if depth >= MAX_DEPTH or not self.fullness else self.chance.randint(1, MAX_ITEMS)
        max_items = level.get("maxItems")
        count = max(min_items, at_least, min(usual, MAX_ITEMS))
        if items is False:
            count = min(max(count, min_items), len(heads))
        if max_items is not None:
            count = min(count, int(max_items))
        if count < min_items or count > MAX_NODES:
            raise _NoValueError(
                "An array needs more items than it may have, or more than Pegboard generates."
            )
        entries: list[Any] = []
        for index in range(count):
            rule = heads[index] if index < len(heads) else items
            if index >= count - at_least:
                rule = {"allOf": [rule, contains]}
            entries.append(
                self.differing(rule, depth, name, entries, is_unique=bool(level.get("uniqueItems")))
            )
        return entries

    def differing(self, rule: Any, depth: int, name: str, others: Sequence[Any], *, is_unique: bool) -> Any:
        singular = name[:-1] if name.endswith("s") else name
        for _ in range(20):
            value = self.value(rule, depth + 1, singular)
            if not is_unique or value not in others:
                return value
        raise _NoValueError("Too few different values fit an array whose items have to differ.")

    def object(self, level: Mapping[str, Any], depth: int, name: str) -> dict[str, Any]:
        properties = level.get("properties") or {}
        required = _required_names(level)
        names = dict.fromkeys(required)
        for name, rule in properties.items():
            # Outputs at the top are always generated if possible, because the next call of an agent may
            # need them.
            likely = 1.0 if depth == 0 and self.fullness else self.fullness
            is_wanted = depth < MAX_DEPTH and self.chance.random() < likely
            if is_wanted and rule is not False:
                names.setdefault(name)
        self.fill_up(level, names, depth)
        members: dict[str, Any] = {}
        # In the order of the schema, as a person would write them.
        for name in [*(p for p in properties if p in names), *(c for c in names if c not in properties)]:
            try:
                members[name] = self.value(_rule_for(level, name), depth + 1, name)
            except _NoValueError:
                if name in required:
                    raise
        return members

    def fill_up(self, level: Mapping[str, Any], names: dict[str, None], depth: int) -> None:
        for name in list(names):
            names.update(dict.fromkeys(level.get("dependentRequired", {}).get(name, ())))
        optional_names = [name for name, rule in (level.get("properties") or {}).items() if rule is not False]
        min_properties = int(level.get("minProperties") or 0)
        for name in optional_names:
            if len(names) < min_properties:
                names.setdefault(name)
        tries = 0
        while len(names) < min_properties and tries < 200:
            tries += 1
            if (by := level.get("patternProperties")) and level.get("additionalProperties") is False:
                names.setdefault(sample_texts.text(next(iter(by)), self.chance, self.work.count))
            elif (rule := level.get("propertyNames")) is not None:
                name_schema = {"type": "string", "minLength": tries, "allOf": [rule]}
                names.setdefault(str(self.value(name_schema, depth + 1, "")))
            else:
                names.setdefault(f"{self.chance.choice(NOUNS)}_{len(names)}")
        max_properties = level.get("maxProperties")
        required = _required_names(level)
        for name in list(reversed(names)):
            if max_properties is not None and len(names) > max_properties and name not in required:
                del names[name]


def _rule_for(level: Mapping[str, Any], name: str) -> Any:
    if name in level.get("properties", {}):
        return level["properties"][name]
    for pattern, rule in level.get("patternProperties", {}).items():
        if regular_expressions.matches(pattern, name):
            return rule
    rule = level.get("additionalProperties", True)
    return {"type": "string"} if rule is True else rule


def _required_names(level: Mapping[str, Any]) -> dict[str, None]:
    """Return the required names, of which there may be thousands, for quick look-ups."""
    return dict.fromkeys(name for name in level.get("required") or () if isinstance(name, str))


def _exact_value(bound: types.Bound) -> Fraction:
    return Fraction(str(bound.value))
