"""Numbers in an address, as a user may have typed them."""

MAX_DIGITS = 18  # any number of so many digits fits a bigint


def number(text: str) -> int:
    """0, which is no row's id and no version's ordinal, for everything that is not a number."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0


def numbers(texts: list[str]) -> list[int]:
    return [parsed for text in texts if (parsed := number(text))]
