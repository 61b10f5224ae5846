"""Names for models, derived from the vendor's names.

Tool names and property keys are limited to what every export target accepts. A vendor's name may be any text,
so each illegal one gets an alias: always the same for the same names, and never two that differ only by case.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import count

from anyascii import anyascii

MAX_LENGTH = 64
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# Long enough that two names of one agent hardly get the same tail, short enough to read.
_TAIL = 8


def is_legal(name: str) -> bool:
    return _TOOL.fullmatch(name) is not None


def is_property(name: str) -> bool:
    return _PROPERTY.fullmatch(name) is not None


def derive(vendor_name: str) -> str:
    """Return a legal tool name that is as close to the vendor's as possible."""
    return vendor_name if is_legal(vendor_name) else _squeeze_name(vendor_name, r"[^A-Za-z0-9_-]+", "tool")


def propose(wanted_name: str, used_names: Iterable[str], *, vendor: str) -> str:
    """Return a readable legal name that differs from all `used_names` when case is ignored.

    The name is `wanted_name` itself, or it with the first word of the vendor slug as prefix, with the whole
    slug as prefix, or with a number as suffix.
    """
    used = {name.lower() for name in used_names}
    name = derive(wanted_name)
    vendor_prefix = vendor.replace("-", "_")
    prefixes = [
        prefix
        for prefix in (vendor_prefix.split("_")[0], vendor_prefix)
        if not name.lower().startswith(f"{prefix}_")
    ]
    for candidate in [name, *(derive(f"{prefix}_{name}") for prefix in prefixes)]:
        if candidate.lower() not in used:
            return candidate
    numbered = (f"{name[: MAX_LENGTH - 1 - len(str(number))]}_{number}" for number in count(2))
    return next(candidate for candidate in numbered if candidate.lower() not in used)


def aliases(names: Iterable[str]) -> dict[str, str]:
    """Return property keys by parameter name, one to one. They depend on the set of names, not on their
    order.
    """
    name_list = list(names)
    # The usual case; this runs for every tool that is read.
    if all(map(_PROPERTY.fullmatch, name_list)) and len(set(map(str.lower, name_list))) == len(name_list):
        return {name: name for name in name_list}
    # Sorted, so that the order of a vendor's parameters changes nothing.
    proposals = {
        name: name if is_property(name) else _squeeze_name(name, r"[^A-Za-z0-9_]+", "parameter")
        for name in sorted(name_list)
    }
    claims = Counter(key.lower() for key in proposals.values())
    used: set[str] = set()
    keys: dict[str, str] = {}
    # A key without a tail is the name itself, or no other name claims it.
    for name, key in proposals.items():
        if claims[key.lower()] == 1 or (key == name and key.lower() not in used):
            keys[name] = key
            used.add(key.lower())
    # Names that claim the same key ("Due date", "due-date") all get a tail.
    for name, key in proposals.items():
        if name not in keys:
            keys[name] = _choose_free_name(key, name, used | {key.lower()})
            used.add(keys[name].lower())
    return {name: keys[name] for name in name_list}


def _squeeze_name(name: str, illegal: str, fallback: str) -> str:
    plain = unicodedata.normalize("NFKD", name)
    if not plain.isascii():
        # Composed again, because the parts of a Korean syllable are not letters by themselves.
        composed = unicodedata.normalize("NFKC", name)
        plain = "".join(anyascii(c) if unicodedata.category(c)[0] in "LMN" else c for c in composed)
    squeezed = re.sub(illegal, "_", plain).strip("_") or fallback
    if not squeezed[0].isalpha():
        squeezed = f"_{squeezed}"
    return squeezed[:MAX_LENGTH]


def _choose_free_name(wanted_name: str, name: str, used_names: set[str]) -> str:
    if wanted_name.lower() not in used_names:
        return wanted_name
    tails = (hashlib.sha256(f"{name}\0{salt}".encode()).hexdigest()[:_TAIL] for salt in count())
    candidates = (f"{wanted_name[: MAX_LENGTH - 1 - _TAIL]}_{tail}" for tail in tails)
    return next(candidate for candidate in candidates if candidate.lower() not in used_names)
