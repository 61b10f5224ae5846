"""The dialects in which a regular expression compiles. Pure.

ecma: ECMA-262, the dialect of JSON Schema (core, 6.4). python: the module `re`. re2: without look-around and
references back, as in RE2 and in every engine of linear time.
"""

import re
import warnings
from functools import lru_cache
from typing import Literal

import jsonschema_rs

Dialect = Literal["ecma", "python", "re2"]
# To compile a longer one takes too much time and memory; no dialect is claimed for it.
MAX_PATTERN = 10_000  # characters
_ENGINES: dict[Dialect, jsonschema_rs.FancyRegexOptions | jsonschema_rs.RegexOptions] = {
    "ecma": jsonschema_rs.FancyRegexOptions(),
    "re2": jsonschema_rs.RegexOptions(),
}


@lru_cache(maxsize=2_000)
def compiles(pattern: str, dialect: Dialect) -> bool:
    if len(pattern) > MAX_PATTERN:
        return False
    if dialect == "python":
        with warnings.catch_warnings():
            # `re` warns of what may mean something else in a later version.
            warnings.simplefilter("ignore")
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError):
                return False
        return True
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=_ENGINES[dialect])
    except jsonschema_rs.ValidationError:
        return False
    return True
