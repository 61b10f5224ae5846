"""Markdown of vendors as plain text, for lists. Pure.

Only marks are removed and nothing is interpreted, so a text that merely looks like markdown stays readable.
"""

import re

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*$", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]\n]{0,500})\]\([^()\s]{0,2000}(?:\s+\"[^\"\n]{0,500}\")?\)")
_LINK = re.compile(r"\[([^\]\n]{1,500})\]\([^()\s]{0,2000}(?:\s+\"[^\"\n]{0,500}\")?\)")
_REFERENCE = re.compile(r"\[([^\]\n]{1,500})\]\[[^\]\n]{0,200}\]")
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$", re.MULTILINE)
_TABLE_RULE = re.compile(
    r"^[ \t]*(?:\|[ \t]*)?:?-{2,}:?[ \t]*\|(?:[ \t]*:?-{2,}:?[ \t]*\|)*[ \t]*(?::?-+:?[ \t]*)?$", re.MULTILINE
)
_STRONG = re.compile(r"(\*\*\*|\*\*|~~)(?=\S)([^\n]{1,500}?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,500}?)(?<=[^\s*])\*(?![\w*])")
_CODE = re.compile(r"(`+)([^`\n]{1,500}?)\1")
_TAG = re.compile(
    r"</?(?:a|b|br|code|em|h[1-6]|i|li|ol|p|pre|strong|sub|sup|u|ul)(?:\s[^<>\n]{0,200})?/?>", re.I
)


def strip_markdown(text: str) -> str:
    """Return the text without the marks of markdown, and without tags of formatting."""
    if not any(mark in text for mark in "*`[#<>_~|-+"):
        return text
    for pattern, replacement in (
        (_FENCE, ""),
        (_RULE, ""),
        (_TABLE_RULE, ""),
        (_IMAGE, r"\1"),
        (_LINK, r"\1"),
        (_REFERENCE, r"\1"),
        (_LINE_MARK, ""),
        (_CODE, r"\2"),
        (_STRONG, r"\2"),
        (_EMPHASIS, r"\1"),
        (_TAG, " "),
    ):
        text = pattern.sub(replacement, text)
    return text
