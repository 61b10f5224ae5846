"""Names that a model may be shown, and the way back to the vendor's own.

Tool names and property keys are limited to what every export target accepts. A vendor's name is
data and may be anything, so each illegal one gets an alias: always the same one for the same
names, never two that differ by case only.
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
# Long enough that two names of one agent do not get the same one, short enough to be read.
_TAIL = 8


def is_legal(name: str) -> bool:
    return _TOOL.fullmatch(name) is not None


def is_property(name: str) -> bool:
    return _PROPERTY.fullmatch(name) is not None


def derive(vendor_name: str) -> str:
    """A legal tool name as close to the vendor's as it gets."""
    return vendor_name if is_legal(vendor_name) else _squeezed(vendor_name, r"[^A-Za-z0-9_-]+", "tool")


def propose(wanted: str, taken: Iterable[str], *, vendor: str) -> str:
    """A legal name that a person can read, unlike all of `taken` whatever the case: `wanted` itself, else
    with the first word of the vendor's slug before it, with the whole slug, or with a number behind it.
    """
    known = {name.lower() for name in taken}
    name = derive(wanted)
    whole = vendor.replace("-", "_")
    leads = [lead for lead in (whole.split("_")[0], whole) if not name.lower().startswith(f"{lead}_")]
    for candidate in [name, *(derive(f"{lead}_{name}") for lead in leads)]:
        if candidate.lower() not in known:
            return candidate
    numbered = (f"{name[: MAX_LENGTH - 1 - len(str(number))]}_{number}" for number in count(2))
    return next(candidate for candidate in numbered if candidate.lower() not in known)


def aliases(names: Iterable[str]) -> dict[str, str]:
    """Property keys by parameter name, one to one. Depends on the set of names and not on their order."""
    given = list(names)
    # Nearly always; this runs for every tool that is read.
    if all(map(_PROPERTY.fullmatch, given)) and len(set(map(str.lower, given))) == len(given):
        return {name: name for name in given}
    # Sorted, so that a vendor that lists the same parameters the other way round changes nothing.
    wanted = {
        name: name if is_property(name) else _squeezed(name, r"[^A-Za-z0-9_]+", "parameter")
        for name in sorted(given)
    }
    claims = Counter(key.lower() for key in wanted.values())
    taken: set[str] = set()
    keys: dict[str, str] = {}
    # A key without a tail is the name itself, or claimed by it alone.
    for name, key in wanted.items():
        if claims[key.lower()] == 1 or (key == name and key.lower() not in taken):
            keys[name] = key
            taken.add(key.lower())
    # Names that claim the same key ("Due date", "due-date") all get a tail.
    for name, key in wanted.items():
        if name not in keys:
            keys[name] = _free(key, name, taken | {key.lower()})
            taken.add(keys[name].lower())
    return {name: keys[name] for name in given}


def _squeezed(name: str, illegal: str, fallback: str) -> str:
    squeezed = re.sub(illegal, "_", _spell_in_ascii(name)).strip("_") or fallback
    if not squeezed[0].isalpha():
        squeezed = f"_{squeezed}"
    return squeezed[:MAX_LENGTH]


def _spell_in_ascii(name: str) -> str:
    """Spell letters and digits of any script in ASCII: “获取天气” becomes “HuoQuTianQi”. Other signs stay."""
    plain = unicodedata.normalize("NFKD", name)
    if not plain.isascii():
        # Composed again, because the parts of a Korean syllable are no letters on their own.
        composed = unicodedata.normalize("NFKC", name)
        plain = "".join(anyascii(c) if unicodedata.category(c)[0] in "LMN" else c for c in composed)
    return plain


def _free(wanted: str, name: str, taken: set[str]) -> str:
    if wanted.lower() not in taken:
        return wanted
    tails = (hashlib.sha256(f"{name}\0{salt}".encode()).hexdigest()[:_TAIL] for salt in count())
    candidates = (f"{wanted[: MAX_LENGTH - 1 - _TAIL]}_{tail}" for tail in tails)
    return next(candidate for candidate in candidates if candidate.lower() not in taken)
