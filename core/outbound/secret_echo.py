"""Find a secret, or a part of one, in the data of a vendor, in any encoding. Pure.

The data and the secret are compared in a normal form without the escapes of JSON, YAML, URLs, forms and HTML.
So neither the order of two escapes, nor the case of their letters, nor a secret that looks like an escape
makes a difference.
"""

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import unquote_to_bytes

MIN_SECRET_LENGTH = 8  # a shorter secret may occur in a reply by chance
# Data with so many characters of a secret in a row counts as containing the secret.
MIN_PART_LENGTH = 12
STRUCK_OUT = "•••"
_URLSAFE = str.maketrans("+/", "-_")
_ROUNDS = 3  # escapes inside escapes
_ASCII_ESCAPE = re.compile(rb"\\(?:u00|x|U000000)([2-7][0-9a-fA-F])")
_ANY_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))")
_PERCENT = re.compile(rb"%(?:25)*([0-9a-fA-F]{2})")
_ENTITY = re.compile(rb"&(?:amp;)*(#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});|[A-Za-z][A-Za-z0-9]{1,30};)")
_ESCAPED_MARK = re.compile(rb"\\(?:([\"'\\/])|u([0-9a-fA-F]{4}))")
_CUT_ESCAPE = re.compile(rb"(?:\\+[uxU]?[0-9a-fA-F]{0,7}|%[0-9a-fA-F]{0,4}|&[#A-Za-z0-9;]{0,8})\Z")
_MAX_ESCAPE_LENGTH = 12
# Control characters become the letter of their escape, "+" becomes a blank, and backslashes are dropped.
_LETTERS = bytes.maketrans(b"\n\t\r\b\f+", b"ntrbf ")
# A stretch of MIN_PART_LENGTH bytes contains a block that begins at a multiple of the stride.
_BLOCK, _STRIDE = 8, 4
_SIGNED_TOKEN = re.compile(r"(eyJ[\w-]+)\.[\w-]+\.[\w-]*")


def is_too_short(secret: str) -> bool:
    """Return whether the secret is so short that it may occur in a reply by chance."""
    return len(normal(secret.encode())) < MIN_SECRET_LENGTH


class PartFinder:
    """Finds texts that share at least MIN_PART_LENGTH bytes in a row with a secret.

    A shared part contains a block of the text that begins at a multiple of the stride. Only these blocks are
    looked up, so the time grows with the text, not with the number or the length of the secrets.
    """

    def __init__(self) -> None:
        self._secrets: dict[bytes, None] = {}
        self._blocks: set[int] = set()
        self._parts: set[bytes] = set()

    def add(self, secret: bytes) -> None:
        if len(secret) < MIN_PART_LENGTH or secret in self._secrets:
            return
        self._secrets[secret] = None
        self._parts.clear()
        for begin in range(_BLOCK):
            self._blocks.update(_view_blocks(secret, begin))

    def is_in(self, text: bytes) -> bool:
        size = MIN_PART_LENGTH
        for begin in range(0, _BLOCK, _STRIDE):
            blocks = _view_blocks(text, begin)
            if self._blocks.isdisjoint(blocks):
                continue
            if not self._parts:
                self._parts.update(
                    secret[start : start + size]
                    for secret in self._secrets
                    for start in range(len(secret) - size + 1)
                )
            hits = (begin + index * _BLOCK for index, block in enumerate(blocks) if block in self._blocks)
            if any(
                text[start : start + size] in self._parts
                for hit in hits
                for start in range(max(0, hit + _BLOCK - size), hit + 1)
            ):
                return True
        return False


def _view_blocks(text: bytes, begin: int) -> "memoryview[int]":
    # Blocks are numbers, because a set finds them several times as fast as slices.
    count = max(0, len(text) - begin) // _BLOCK
    return memoryview(text)[begin : begin + count * _BLOCK].cast("Q")


class SecretScanner:
    """Searches data for secrets and parts of them."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self.forms: list[str] = []
        self._secrets: set[str] = set()
        self._normal: dict[bytes, None] = {}
        self._pattern = _ASCII_ESCAPE
        self._parts = PartFinder()
        self._looks_escaped = False
        self.add(secrets)

    def add(self, secrets: Sequence[str]) -> None:
        for secret in secrets:
            if len(secret) < MIN_SECRET_LENGTH or secret in self._secrets:
                continue
            self._secrets.add(secret)
            # A secret may come back plain, in base64 of a longer text, in hex, or reversed.
            raw = secret.encode()
            self._looks_escaped |= len(normal(raw)) < len(raw)
            forms = list(
                dict.fromkeys([secret, raw.hex(), raw.hex().upper(), secret[::-1], *_base64_cores(raw)])
            )
            if not secret.isascii():
                self._pattern = _ANY_ESCAPE
                # The bytes of a header are read as Latin-1.
                forms += [form.encode().decode("latin-1") for form in forms]
                self._normal[secret.encode("latin-1", "replace")] = None
            self.forms += [form for form in forms if form not in self.forms]
            # All tokens of an issuer have the same first part, the header, and a vendor may return one
            # as a result.
            match = _SIGNED_TOKEN.fullmatch(secret)
            self._add_parts(secret[match.end(1) :] if match else secret)
        normal_forms = (normal(form.encode(), self._pattern) for form in self.forms)
        self._normal |= dict.fromkeys(form for form in normal_forms if len(form) >= MIN_SECRET_LENGTH)

    def _add_parts(self, secret: str) -> None:
        raw = secret.encode()
        texts = [secret, secret.lower(), secret[::-1], raw.hex(), raw.hex().upper(), *_base64_cores(raw)]
        for text in texts:
            encoded = text.encode()
            for form in {encoded, encoded.decode("latin-1").encode(), text.encode("latin-1", "replace")}:
                self._parts.add(form)
                self._parts.add(normal(form, self._pattern))

    def holds(self, text: bytes) -> bool:
        """Return True if `text` contains a secret, or `MIN_PART_LENGTH` characters of one in a row."""
        if not self.forms:
            return False
        if any(form.encode() in text for form in self.forms):
            return True
        unescaped = _unescape(text, self._pattern)
        normal_text = _drop_marks(unescaped)
        if any(form in normal_text for form in self._normal) or self._parts.is_in(normal_text):
            return True
        # A part may begin or end inside an apparent escape.
        if any(mark in text for mark in (b"%", b"&", b"\\")) and self._parts.is_in(text):
            return True
        if not self._looks_escaped:
            return False
        # The normal form of a part that looks like escapes may be too short to be found.
        texts = (text, unescaped, _ESCAPED_MARK.sub(_decode_mark, unescaped), *_read_layers(text))
        return any(map(self._parts.is_in, texts))

    def struck_out(self, text: str) -> str:
        """Return the text with plain secrets replaced, or only STRUCK_OUT if it contains another form or a
        part."""
        for form in self.forms:
            text = text.replace(form, STRUCK_OUT)
        return STRUCK_OUT if self.holds(text.encode(errors="replace")) else text

    def begins_at_the_end_of(self, text: str, at_least: int) -> bool:
        """Return whether `text` ends with a prefix of a secret of at least so many characters."""
        if not self.forms:
            return False
        tail = text[-_MAX_ESCAPE_LENGTH * self.max_length :].encode(errors="replace")
        tails = [normal(text_end, self._pattern) for text_end in (tail, _CUT_ESCAPE.sub(b"", tail))]
        beginnings = (form[:size] for form in self._normal for size in range(at_least, len(form)))
        return any(text_end.endswith(beginning) for beginning in beginnings for text_end in tails)

    @property
    def max_length(self) -> int:
        return max((len(form.encode()) for form in self.forms), default=0)


def normal(text: bytes, pattern: re.Pattern[bytes] = _ANY_ESCAPE) -> bytes:
    """Return the normal form of a text, only for comparison with other normal forms."""
    return _drop_marks(_unescape(text, pattern))


def _drop_marks(text: bytes) -> bytes:
    return text.translate(_LETTERS, delete=b"\\").replace(b"''", b"'")


def _unescape(text: bytes, pattern: re.Pattern[bytes] = _ANY_ESCAPE) -> bytes:
    """Return the text with its escapes, entities and percent codes replaced by their characters."""
    for _ in range(_ROUNDS):
        before = text
        if b"\\" in text:
            text = pattern.sub(_decode_escape, text)
        if b"&" in text:
            text = _ENTITY.sub(
                lambda name: html.unescape(f"&{name[1].decode()}").encode(errors="replace"), text
            )
        if b"%" in text:
            text = _PERCENT.sub(lambda match: bytes([int(match[1], 16)]), text)
        if text == before:
            break
    return text


def _decode_escape(match: re.Match[bytes]) -> bytes:
    # Surrogates are not joined to pairs; no secret contains one.
    code = int(next(filter(None, match.groups())), 16)
    return chr(code).encode(errors="replace") if code <= 0x10FFFF else b""


def _read_layers(text: bytes) -> Iterator[bytes]:
    """Yield the text without one, two and three layers of the escapes of JSON, of addresses and of HTML."""
    for read_layer in (partial(_ESCAPED_MARK.sub, _decode_mark), unquote_to_bytes, _read_html_layer):
        layer = text
        for _ in range(_ROUNDS):
            layer = read_layer(layer)
            yield layer


def _decode_mark(match: re.Match[bytes]) -> bytes:
    return match[1] or chr(int(match[2], 16)).encode(errors="replace")


def _read_html_layer(text: bytes) -> bytes:
    return html.unescape(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _base64_cores(raw: bytes) -> Iterator[str]:
    """Yield the base64 of `raw` at each offset in a text, without the characters that depend on
    neighbours."""
    for before in range(3):
        after = -(before + len(raw)) % 3
        encoded = b64encode(bytes(before) + raw + bytes(after))
        core = encoded[(0, 2, 3)[before] : len(encoded) - (0, 2, 3)[after]].decode()
        yield core
        yield core.translate(_URLSAFE)
