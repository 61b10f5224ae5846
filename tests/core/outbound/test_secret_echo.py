"""A secret, or a part of it, is found in a vendor's reply, even if it is cut off."""

import html
import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.secret_echo import MIN_PART_LENGTH, PartFinder, SecretScanner, is_too_short

SECRET = "s3cret/of-ours"


@pytest.mark.parametrize("secret", ["eight888", "ei&ght88"])
def test_a_secret_of_eight_characters_is_looked_for_and_a_shorter_one_is_not(secret):
    assert SecretScanner([secret]).holds(f"You sent {secret}.".encode())
    assert not SecretScanner([secret[1:]]).holds(f"You sent {secret}.".encode())
    assert (is_too_short(secret), is_too_short(secret[1:])) == (False, True)


@pytest.mark.parametrize(
    "tail", ["s3cr", "s3cret/of-our", r"s3cret\/of", r"s3cret\u00", "s3cret%2", "s3cret&#x2"]
)
def test_a_text_that_was_cut_inside_a_secret_is_noticed(tail):
    assert SecretScanner([SECRET]).begins_at_the_end_of(f"You sent {tail}", 4)


@pytest.mark.parametrize("text", ["", "You sent s3c", "You sent s3cret, which", "You sent nothing"])
def test_a_text_that_ends_otherwise_is_not(text):
    assert not SecretScanner([SECRET]).begins_at_the_end_of(text, 4)
    assert not SecretScanner().begins_at_the_end_of(f"{text} s3cret", 4)


def test_escapes_are_read_in_whatever_order_they_were_put_around_each_other():
    nested = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    nested = "".join(f"&#{ord(letter)};" for letter in nested)
    nested = "".join(f"%{ord(letter):02x}" for letter in nested)
    assert SecretScanner([SECRET]).holds(f"You sent {nested}.".encode())


LETTERS = st.characters(min_codepoint=0x21, max_codepoint=0x17F, exclude_categories=["C"])
SPELLINGS = {
    "plain": lambda part: part,
    "in lower case": str.lower,
    "reversed": lambda part: part[::-1],
    "in an address": lambda part: quote(part, safe=""),
    "in JSON": lambda part: json.dumps(part)[1:-1],
    "in HTML": html.escape,
    "in hex": lambda part: part.encode().hex(),
    **{
        f"in base64 after {before}": lambda part, before=before: b64encode(
            bytes(before) + part.encode() + bytes(3)
        ).decode()
        for before in range(3)
    },
    "in base64url": lambda part: urlsafe_b64encode(b"a" + part.encode() + b"b").decode(),
}


@st.composite
def secrets_and_parts(draw) -> tuple[str, str]:
    secret = draw(st.text(LETTERS, min_size=MIN_PART_LENGTH, max_size=80))
    begin = draw(st.integers(0, len(secret) - MIN_PART_LENGTH))
    return secret, secret[begin : draw(st.integers(begin + MIN_PART_LENGTH, len(secret)))]


@given(secrets_and_parts(), st.sampled_from(sorted(SPELLINGS)), st.text("xyz ", max_size=70))
def test_a_part_of_a_secret_is_found_wherever_it_stands_and_however_it_is_written(pair, spelling, before):
    secret, part = pair
    scanner, text = SecretScanner([secret]), f"{before} {SPELLINGS[spelling](part)} after"
    assert scanner.holds(text.encode()), spelling
    text_left = scanner.struck_out(text)
    assert not SecretScanner([secret]).holds(text_left.encode())
    assert not any(
        part[offset : offset + MIN_PART_LENGTH] in text_left
        for offset in range(len(part) - MIN_PART_LENGTH + 1)
    )


ODD_PARTS = [
    *("0000000000'\\", "00000\\000000", "\\'\"\\'\"\\'\"\\'\"", "00000''00000"),
    *(
        "0\\x200\\x2000",
        "\\x41\\x42\\x4\N{LATIN SMALL LETTER E WITH ACUTE}",
        "%41%42%43%44",
        "&#65;&#66;67",
        "&lt;&gt;&lt;",
    ),
]


@pytest.mark.parametrize("part", ODD_PARTS)
@pytest.mark.parametrize("spelling", ["plain", "in JSON", "in HTML", "in an address"])
def test_a_part_of_twelve_characters_is_found_although_some_of_them_are_marks(part, spelling):
    assert len(part) == MIN_PART_LENGTH
    scanner = SecretScanner([f"before-{part}-after"])
    assert scanner.holds(f"It says {SPELLINGS[spelling](part)} there.".encode())


PIECES = st.tuples(st.integers(0, 40), st.integers(0, 20))


@given(st.text("ab\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=40), st.lists(PIECES, max_size=8))
def test_a_part_is_found_exactly_where_so_many_bytes_in_a_row_are_shared(secret, pieces):
    raw = secret.encode()
    text = b"-".join(raw[begin : begin + size] for begin, size in pieces)
    parts = PartFinder()
    parts.add(raw)
    windows = [raw[offset : offset + MIN_PART_LENGTH] for offset in range(len(raw) - MIN_PART_LENGTH + 1)]
    assert parts.is_in(text) == any(window in text for window in windows)


def test_eleven_characters_in_a_row_may_stand_by_chance():
    secret = "Kn4ry-0123456789-of-ours"
    assert not SecretScanner([secret]).holds(secret[:11].encode() + b" and " + secret[-11:].encode())
    assert SecretScanner([secret]).holds(secret[3:15].encode())


def test_another_token_of_the_same_issuer_is_no_part_of_ours():
    head = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9"
    own_token = f"{head}.eyJzdWIiOiJwZWdib2FyZCJ9.c2lnbmF0dXJlLW9mLW91cnM"
    scanner = SecretScanner([own_token])
    assert not scanner.holds(f"{head}.eyJ1c2VyIjoiYWRhIn0.b3RoZXItb2YtYWRh".encode())
    assert scanner.holds(own_token.encode())
    assert scanner.holds(own_token.split(".")[1].encode())
