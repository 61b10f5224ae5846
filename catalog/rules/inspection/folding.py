"""Fold a text to its words, without punctuation, markup and separators. Pure.

Rules on wording read this form: without markup and entities, with single spaces, and with letters joined that
are spaced out or written as digits. Rules on markup read the text itself.
"""

import html
import re

# Separates the texts of one tool when they are read together. No rule on wording matches across it. It is a
# control character, so no readable text contains it.
BOUNDARY = "\x02"

_COMMENT = re.compile(r"<!--[^\x02]{0,500}?-->")
_WITHIN = (
    "abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u|var|wbr"
)
_AROUND = "a|blockquote|br|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"
_INLINE_TAG = re.compile(rf"</?(?:{_WITHIN})\b[^<>\x02]{{0,200}}>", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{_AROUND})\b[^<>\x02]{{0,200}}>", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\[\]\x02]{1,200})\]\([^()\x02]{0,300}\)")
_SIGNS = ("*", "`", "~", '"', "\u201c", "\u201d", "\u00ab", "\u00bb")
_UNDERLINE = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
_UNDERLINES = ("__", " _", "_ ", "\n_", "_\n", "_.", "_,", "_!", "_:")
_LINE_MARK = re.compile(r"(?m)^[ \t]*(?:#{1,6}|>+|[-+\u2022])[ \t]+")
_APOSTROPHES = str.maketrans("\u2018\u2019\u02bc\u00b4", "''''")
# Single letters with a character between them, which is repeated between words.
_SPACED = re.compile(r"(?<!\w)(?:\w([ .\-_/|])\1{0,3}){4,}\w(?!\w)")
_LEETSPEAK = re.compile(r"[a-z][013457@$]{1,3}[a-z]")
# Words that are joined by other characters than spaces, as in a name.
_CHAINED = re.compile(r"(?<!\w)[a-z]{2,20}(?:[._-]+[a-z]{2,20}){3,12}(?!\w)")
_CHAINS = str.maketrans("._-", "   ")
_DIGITS = str.maketrans("013457@$", "oieastas")


def fold_text(text: str) -> str:
    """Fold a text that `letters.legible` has returned. The result is in lower case."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _BLOCK_TAG.sub(" ", _INLINE_TAG.sub("", _COMMENT.sub("", text)))
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "\n" in text:
        text = _LINE_MARK.sub("", text)
    for sign in _SIGNS:
        text = text.replace(sign, "")
    if any(underline in text for underline in _UNDERLINES) or text[:1] == "_" or text[-1:] == "_":
        text = _UNDERLINE.sub("", text)
    if not text.isascii():
        text = text.translate(_APOSTROPHES)
    text = " ".join(_SPACED.sub(_join_letters, text.lower()).split())
    others = [chained.translate(_CHAINS) for chained in _CHAINED.findall(text)]
    if _LEETSPEAK.search(text):
        others.append(text.translate(_DIGITS))
    return f" {BOUNDARY} ".join([text, *others])


def _join_letters(spaced: re.Match[str]) -> str:
    words = re.split(rf"{re.escape(spaced[1])}{{2,}}", spaced[0])
    return " ".join(word.replace(spaced[1], "") for word in words)
