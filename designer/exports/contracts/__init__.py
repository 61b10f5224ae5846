"""The rules of each target as data: one TOML file for each format, with the source and date of every rule.

`designer/exports/judge.py` finds the rules that a schema breaks; `rewriting.py` writes a schema that breaks
none of them, where that is possible.
"""

import datetime
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).parent

# The subjects of rules. docs/exports.md explains each.
Refusal = Literal[
    "keyword_at_top",
    "reference",
    "reference_to_nothing",
    "endless_reference",
    "required_recursion",
    "keywords_beside_reference",
    "array_without_items",
    "undeclared_required",
    "regular_expression",
    "invalid_schema",
    "property_name_at_top",
    "reserved_name",
    "tool_name",
    "description_length",
    "tool_count",
    "outside_subset",
]
# rewritten: the export has an equivalent. left_out: the export lacks that part, and a warning names it.
# blocks: the format cannot carry the tool. warns: some users of the format refuse it.
Effect = Literal["rewritten", "left_out", "blocks", "warns"]
RegexDialect = Literal["ecma", "python", "linear", "re2"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule about what a target refuses.

    keywords: those that are refused. pattern: every name has to match it. prefix: no name may begin with it.
    dialects: a regular expression has to compile in each of them. limit: the largest accepted number.
    """

    refuses: Refusal
    effect: Effect
    source: str
    date: datetime.date
    keywords: frozenset[str] = frozenset()
    pattern: str = ""
    prefix: str = ""
    dialects: tuple[RegexDialect, ...] = ()
    limit: int | None = None


class Subset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of JSON Schema that a target accepts, and the limits of a schema's size.

    keywords: the accepted ones by type. formats: the accepted values of `format`. An enum of more values than
    `long_enum_values` may have `long_enum_characters` in all of its texts.
    """

    keywords: dict[str, tuple[str, ...]]
    formats: frozenset[str]
    properties: int
    levels: int
    characters: int
    enum_values: int
    long_enum_values: int
    long_enum_characters: int


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rules of one target. `subset` is set if it accepts only a part of JSON Schema."""

    target: str
    rules: tuple[Rule, ...] = ()
    subset: Subset | None = None

    def rule(self, refuses: Refusal) -> Rule | None:
        return next((rule for rule in self.rules if rule.refuses == refuses), None)

    def keywords_at_top(self) -> frozenset[str]:
        rule = self.rule("keyword_at_top")
        return rule.keywords if rule else frozenset()

    def limit_of(self, refuses: Refusal) -> int | None:
        rule = self.rule(refuses)
        return rule.limit if rule else None

    @property
    def refuses_references(self) -> bool:
        return self.rule("reference") is not None


# A target that takes the whole of JSON Schema.
WHOLE = Contract(target="JSON Schema")


def load(format_name: str) -> Contract:
    """Read the contract of a format. Raises msgspec.ValidationError if the file is invalid."""
    text = (FOLDER / f"{format_name}.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Contract)
