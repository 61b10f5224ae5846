"""Letters that look like others: names that a person takes for one another. Pure.

The table is our own and holds what looks like a Latin letter in the common typefaces; NFKC takes care
of full width, mathematical and other compatibility forms before it is asked.
"""
# ruff: noqa: RUF001 - letters that can be mistaken for others are what this file is about

import re
import unicodedata

from core.invisible_characters import HIDDEN

# Pairs of a letter and the Latin one it looks like.
_CYRILLIC = (
    "аa еe ѐe ёe һh іi їi јj ԛq ѕs ԝw оo рp сc уy хx ѵv ԁd ӏl гr кk ьb ԍg ґr "
    "АA ВB ЕE ЅS ІI ЈJ КK МM НH ОO РP СC ТT УY ХX ԜW ԚQ ҮY ӀI ЁE ЇI ЬB"
)
_GREEK = "αa γy εe ζz ηn ιi κk νv οo ρp τt υu χx ωw ϲc ϳj ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX Ϲc"
_OTHERS = (
    "ոn սu օo հh ցg զq յj կk տt ՏS ՕO ԼL "
    "ᎪA ᏴB ᏟC ᎬE ᏀG ᎻH ᎫJ ᏦK ᏞL ᎷM ᏢP ᎡR ᏚS ᎢT ᏙV ᎳW ᏃZ "
    "ɑa ɡg ɩi ɪi ʟl ɴn ʀr ʏy ᴀa ᴄc ᴅd ᴇe ᴊj ᴋk ᴍm ᴏo ᴘp ᴛt ᴜu ᴠv ᴡw ᴢz ꜱs ǀl ∣l ⅼl ꓲI ꓳO"
)
LOOKS_LIKE = {
    ord(pair[0]): pair[1] for pair in f"{_CYRILLIC} {_GREEK} {_OTHERS}".split() if pair[1].isascii()
}
# These look alike among plain letters and digits; the capital only, because a small i has a dot.
_ALIKE_IN_ASCII = str.maketrans({"0": "o", "1": "l", "I": "l", "|": "l"})
_SEPARATORS = re.compile(r"[\s_.:/-]+")
_ODD = "".join(map(chr, LOOKS_LIKE))
MIXED = re.compile(f"[A-Za-z][{_ODD}]|[{_ODD}][A-Za-z]")


def cleaned(text: str) -> str:
    """Without hidden characters and in compatibility form: what a model makes of it."""
    return unicodedata.normalize("NFKC", HIDDEN.sub(_visible_space, text))


def _visible_space(run: re.Match[str]) -> str:
    return " " if run.group().isspace() else ""


def latin(text: str) -> str:
    """The text in the Latin letters that it looks like."""
    return text.translate(LOOKS_LIKE)


def legible(text: str) -> str:
    """What a model makes of it, as nearly as rules can read it: without any mark over or under a letter."""
    apart = unicodedata.normalize("NFD", latin(cleaned(text)))
    return apart if apart.isascii() else "".join([c for c in apart if unicodedata.category(c)[0] != "M"])


def spelling(name: str) -> str:
    """Names that are equal here are the same name, written in another style."""
    return _SEPARATORS.sub("_", name.casefold()).strip("_")


def skeleton(name: str) -> str:
    """Names that are equal here look the same to a person, or nearly so."""
    plain = latin(cleaned(name)).translate(_ALIKE_IN_ASCII)
    return spelling(plain).replace("rn", "m").replace("vv", "w")
