"""Regular expressions of a schema, as the validator understands them."""

from functools import lru_cache

import jsonschema_rs

OPTIONS = jsonschema_rs.RegexOptions(size_limit=500_000, dfa_size_limit=1_000_000)
MAX_PATTERN_LENGTH = 2_000
# Of a pattern for names, which merging schemas compiles in any number.
_NAME_OPTIONS = jsonschema_rs.RegexOptions(size_limit=100_000, dfa_size_limit=100_000)


@lru_cache(maxsize=512)
def _name_validator(pattern: str) -> jsonschema_rs.Draft202012Validator | None:
    return _build_validator(pattern, _NAME_OPTIONS)


def _build_validator(
    pattern: str, options: jsonschema_rs.RegexOptions
) -> jsonschema_rs.Draft202012Validator | None:
    if len(pattern) > MAX_PATTERN_LENGTH:
        return None
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        return None


def is_usable(pattern: str) -> bool:
    """Return whether the pattern compiles, within a bound on the memory that it takes. Matching is linear."""
    return _build_validator(pattern, OPTIONS) is not None


def matches(pattern: str, text: str) -> bool | None:
    """Return whether the pattern is found in the name of a member; None for one that does not compile."""
    validator = _name_validator(pattern)
    return None if validator is None else validator.is_valid(text)
