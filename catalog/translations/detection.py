"""The language of a vendor's texts. Pure, and without a guess where there is little text."""

import re

import pycld2

from core.invisible_characters import HIDDEN

# Fewer letters, such as those of a name, are not enough; one of an unspaced script counts as several.
MIN_LETTERS, LETTERS_OF_UNSPACED = 40, 4
MIN_PERCENT = 75
MAX_LENGTH = 4_000
# Code and addresses are English in every language.
_NO_PROSE = re.compile(r"`[^`]*`|https?://\S+|\S*[_/{}<>=]\S*|\b[A-Z0-9]+\b")
_LETTER = re.compile(r"[^\W\d_]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_OTHER_CODES = {"iw": "he", "no": "nb", "zh-Hant": "zh", "nn": "nb", "jw": "jv"}


def detect_language(text: str) -> str:
    """Return the BCP 47 code of the language, "" if it is not known."""
    prose = HIDDEN.sub(" ", _NO_PROSE.sub(" ", text[:MAX_LENGTH]))
    letters = len(_LETTER.findall(prose)) + (LETTERS_OF_UNSPACED - 1) * len(_UNSPACED.findall(prose))
    if letters < MIN_LETTERS:
        return ""
    try:
        is_reliable, _, details = pycld2.detect(prose, isPlainText=True)
    except (pycld2.error, UnicodeEncodeError):
        return ""
    _, code, percent, _ = details[0]
    if not is_reliable or code == "un" or percent < MIN_PERCENT:
        return ""
    return str(_OTHER_CODES.get(code, code))
