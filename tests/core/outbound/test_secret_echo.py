"""A secret of ours is found in what a vendor sends, cut off as it may be."""

import pytest

from core.outbound.secret_echo import SecretScanner, is_too_short

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
    told = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    told = "".join(f"&#{ord(letter)};" for letter in told)
    told = "".join(f"%{ord(letter):02x}" for letter in told)
    assert SecretScanner([SECRET]).holds(f"You sent {told}.".encode())
