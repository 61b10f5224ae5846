"""Checks of free text that a user enters."""

from core.errors import DomainError


def validated_text(text: str, *, field: str, limit: int) -> str:
    """Return the stripped text. Raises DomainError if the database cannot store it."""
    text = text.strip()
    if reason := why_not(text, limit):
        raise DomainError("invalid", f"The {field} cannot be kept: {reason}", fields={field: reason})
    return text


def why_not(text: str, limit: int) -> str:
    """Return why the text cannot be stored, "" if it can."""
    if "\0" in text:
        return "It holds a NUL character."
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "It holds half of a character."
    if len(text) > limit:
        return f"It has {len(text)} characters; {limit} is the most."
    return ""
