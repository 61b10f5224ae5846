"""What a person may type where we keep words."""

from core.errors import DomainError


def checked(text: str, *, field: str, limit: int) -> str:
    """`text` without the white space around it. Raises DomainError for what the database cannot keep."""
    text = text.strip()
    if why := why_not(text, limit):
        raise DomainError("invalid", f"The {field} cannot be kept: {why}", fields={field: why})
    return text


def why_not(text: str, limit: int) -> str:
    """A sentence, empty when the text can be kept."""
    if "\0" in text:
        return "It holds a NUL character."
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "It holds half of a character."
    if len(text) > limit:
        return f"It has {len(text)} characters; {limit} is the most."
    return ""
