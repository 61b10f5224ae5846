"""Rules on markup, links and encoded text: text that a page would hide or load, and unreadable text."""

import base64
import binascii
import re

from catalog.rules.inspection.alarms import AlarmMatch, text_rule
from core.translatable import mark

COMMENT = re.compile(r"<!--(?:[^-]|-(?!->)){0,300}(?:-->)?")
STYLE = re.compile(
    r"\bdisplay ?: ?none\b|\bvisibility ?: ?hidden\b|\bfont-size ?: ?0(?:px|pt|em|%)?(?![\d.])"
    r"|style ?= ?[\"'][^\"'<>]{0,200}?"
    r"(?:color ?: ?(?:white|#fff(?:fff)?\b|transparent)|opacity ?: ?0(?![\d.]))"
)
ACTIVE = re.compile(
    r"<(?:script|iframe|object|embed|applet|meta http-equiv)\b|\bjavascript:|\bdata:text/html|\bvbscript:"
    r"|<[a-z]{1,12}\b[^<>]{0,100}?\bon[a-z]{3,16} ?="
)
IMAGE = re.compile(
    r"!\[[^\]\n]{0,200}\]\( ?(?:https?:)?//[^\s)]{0,120}"
    r"|<img\b[^<>]{0,200}?\bsrc ?= ?[\"']?(?:https?:)?//[^\s\"'>]{0,120}"
)
COLLECTOR = re.compile(
    r"(?:webhook\.site|requestbin\.\w|pipedream\.net|ngrok\.(?:io|app|dev)|ngrok-free\.(?:app|dev)|interact\.sh"
    r"|oast\.(?:fun|live|me|online|pro|site)|burpcollaborator\.net|beeceptor\.com|requestcatcher\.com"
    r"|hookbin\.com|discord(?:app)?\.com/api/webhooks|hooks\.slack\.com/services|api\.telegram\.org/bot"
    r"|pastebin\.com|paste\.ee|transfer\.sh|dnslog\.cn)"
)
TEMPLATED = re.compile(
    r"https?://[^\s?#\"'<>]{1,200}\?[^\s\"'<>]{0,200}?(?:\{|\$\{|<[a-z]|%7b)[^\s\"'<>]{0,80}"
)
RAW_ADDRESS = re.compile(
    r"https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\d{8,10}|0x[0-9a-f]{8}|\[[0-9a-f:.]{2,45}\])(?![\w.-])"
)
HARMLESS_ADDRESS = re.compile(r"//(?:127\.|0\.0\.0\.0|\[::1\]|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.)")
HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2}){40,}")
TERMINAL = re.compile(r"\\(?:x1b|u001b|033|e)\[")
# Names and paths have no digits, or one case only.
RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])")
# A run of 48 characters fills a block of 24. Finding such a block is faster than finding where a run begins.
ALIGNED = re.compile(r"(?s)(?:.{24})*?[A-Za-z0-9+/_-]{24}")
BLOB = re.compile(r"(?:[A-Za-z0-9+/]{48,}|[A-Za-z0-9_-]{48,})={0,2}")
LONG_RUN = re.compile(r"[A-Za-z0-9+/_-]{48,}={0,2}")
MAX_BLOB_LENGTH = 20_000


@text_rule("HTML_COMMENT", "high", "hides text in a comment that no page would show", "<!--")
def comment(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(COMMENT, text)


@text_rule(
    *("HIDDEN_STYLE", "high", "styles text so that it cannot be seen"),
    *("display:", "display :", "visibility:", "visibility :", "font-size", "style=", "style ="),
)
def hidden_style(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(STYLE, text)


@text_rule(
    *("ACTIVE_MARKUP", "high", "contains markup that would run code in a page"),
    *("<", "script:", "data:text/html"),
)
def active(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(ACTIVE, text)


@text_rule("REMOTE_IMAGE", "medium", "contains a picture that a page would load from elsewhere", "![", "<img")
def image(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(IMAGE, text)


@text_rule(
    *("COLLECTOR", "high", "links to a service that collects what it receives"),
    *(
        "webhook.site",
        "requestbin",
        "pipedream.net",
        "ngrok",
        "interact.sh",
        "oast.",
        "burpcollab",
        "beeceptor",
    ),
    *(
        "requestcatcher",
        "hookbin",
        "/api/webhooks",
        "hooks.slack",
        "telegram.org/bot",
        "pastebin.com",
        "paste.ee",
        "transfer.sh",
    ),
    "dnslog",
)
def collector(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(COLLECTOR, text)


@text_rule("TEMPLATED_LINK", "medium", "contains a link into which a value would be inserted", "http")
def find_template(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(TEMPLATED, text)


@text_rule("RAW_ADDRESS", "medium", "links to a bare network address", "http")
def raw_address(text: str) -> AlarmMatch | None:
    for match in RAW_ADDRESS.finditer(text):
        if not HARMLESS_ADDRESS.search(match.group()):
            return AlarmMatch(match.start(), match.end())
    return None


@text_rule("TERMINAL_TEXT", "medium", "contains a command to a terminal", "x1b[", "u001b[", "033[", "\\e[")
def terminal(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(TERMINAL, text)


@text_rule("ENCODED", "low", "contains a long encoded text", keeps_case=True)
def find_encoded_text(text: str) -> AlarmMatch | None:
    """Return a high alarm if the decoded text is readable. Long paths and keys look encoded: they are low."""
    if not ALIGNED.match(text):
        return None
    low_hit = None
    # Within a long run, the parts in one alphabet.
    for match in (blob for run in LONG_RUN.finditer(text) for blob in BLOB.finditer(text, *run.span())):
        if decoded := _decode_blob(match.group()):
            return AlarmMatch(
                match.start(), match.end(), "high", mark(f"hides a text in an encoded one, “{decoded[:80]}”,")
            )
        if low_hit is None and RANDOM.match(match.group()):
            low_hit = AlarmMatch(match.start(), match.end())
    return low_hit


def _decode_blob(blob: str) -> str:
    """Return the text that a blob encodes, or "" if it is mostly unreadable."""
    try:
        if HEX.fullmatch(blob):
            data = bytes.fromhex(blob.removeprefix("0x"))
        else:
            digits = blob.rstrip("=")[:MAX_BLOB_LENGTH]
            data = base64.b64decode(
                digits + "=" * (-len(digits) % 4), altchars=b"-_" if {*"-_"} & {*digits} else None
            )
        text = data.decode()
    except (binascii.Error, ValueError):
        return ""
    readable = sum([character.isprintable() or character in "\n\t" for character in text])
    # Text of only letters and digits, without a space, is noise that happens to decode.
    return text if readable > 0.9 * len(text) and (" " in text or not text.isalnum()) else ""
