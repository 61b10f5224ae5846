"""Letters that look like others, for names that people confuse. Pure.

The table is Pegboard's own. It contains letters that look like Latin ones in common typefaces. NFKC covers
full width, mathematical and other compatibility forms.
"""
# ruff: noqa: RUF001 - letters that can be mistaken for others are what this file is about

import re
import unicodedata

from core.invisible_characters import HIDDEN

# Pairs of a letter and the Latin letter that it looks like.
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
# Characters that look alike within ASCII. Only the capital I, because a small i has a dot.
_ALIKE_IN_ASCII = str.maketrans({"0": "o", "1": "l", "I": "l", "|": "l"})
_SEPARATORS = re.compile(r"[\s_.:/-]+")
_ODD = "".join(map(chr, LOOKS_LIKE))
MIXED = re.compile(f"[A-Za-z][{_ODD}]|[{_ODD}][A-Za-z]")


def clean_text(text: str) -> str:
    """Return the text without hidden characters and in compatibility form."""
    return unicodedata.normalize("NFKC", HIDDEN.sub(lambda run: " " if run[0].isspace() else "", text))


def latin(text: str) -> str:
    """Replace look-alikes by the Latin letters that they look like."""
    return text.translate(LOOKS_LIKE)


def legible(text: str) -> str:
    """Return the text as a model is likely to read it, without marks above or below letters."""
    apart = unicodedata.normalize("NFD", latin(clean_text(text)))
    return apart if apart.isascii() else "".join([c for c in apart if unicodedata.category(c)[0] != "M"])


def spelling(name: str) -> str:
    """Return a normal form of a name. Names with the same form differ only in style."""
    return _SEPARATORS.sub("_", name.casefold()).strip("_")


def skeleton(name: str) -> str:
    """Return a normal form of a name. Names with the same form look the same or almost the same."""
    plain = latin(clean_text(name)).translate(_ALIKE_IN_ASCII)
    return spelling(plain).replace("rn", "m").replace("vv", "w")
