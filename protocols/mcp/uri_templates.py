"""URI templates (RFC 6570) of resources: which addresses fit one. Pure.

A template is matched part by part and not by a regular expression, so that nothing makes it slow.
"""

import re
from dataclasses import dataclass

MAX_URI_LENGTH = 2048
_VARIABLE = r"[A-Za-z0-9_.%]+(?::[0-9]{1,4}|\*)?"
_EXPRESSION = re.compile(rf"\{{([+#./;?&]?)({_VARIABLE}(?:,{_VARIABLE})*)\}}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%,=")
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")
# By operator: the characters that the values of an expression may have in an address (RFC 6570, 3.2).
_VALUE_CHARACTERS = {
    "": _UNRESERVED,
    "+": _UNRESERVED | _RESERVED,
    "#": _UNRESERVED | _RESERVED,
    ".": _UNRESERVED,
    "/": _UNRESERVED | {"/"},
    ";": _UNRESERVED | {";"},
    "?": _UNRESERVED | {"&"},
    "&": _UNRESERVED | {"&"},
}
# An expression with one of these operators begins with it in the address, unless it stands for nothing.
_BEGINNING_WITH_OPERATOR = frozenset("#./;?&")


@dataclass(frozen=True, slots=True)
class _Expression:
    operator: str


def is_template(text: str) -> bool:
    """Return whether every brace of the text belongs to an expression, and there is one at least."""
    rest, count = _EXPRESSION.subn("", text)
    return count > 0 and "{" not in rest and "}" not in rest


def variables(template: str) -> list[str]:
    """Return the names of the variables, in the order of the template."""
    return [
        variable.rstrip("*").partition(":")[0]
        for expression in _EXPRESSION.finditer(template)
        for variable in expression[2].split(",")
    ]


def fits(template: str, uri: str) -> bool:
    """Return whether the template can stand for the address, which may have any values for the variables.

    A value of an expression without an operator has at least one character and stays within one segment.
    """
    if len(uri) > MAX_URI_LENGTH:
        return False
    # The places in the address that the parts so far can end at.
    ends = {0}
    for part in _parts(template):
        if isinstance(part, _Expression):
            ends = _ends_of_expression(part.operator, uri, ends)
        else:
            ends = {end + len(part) for end in ends if uri.startswith(part, end)}
        if not ends:
            return False
    return len(uri) in ends


def _parts(template: str) -> list[str | _Expression]:
    parts: list[str | _Expression] = []
    end = 0
    for found in _EXPRESSION.finditer(template):
        if literal := template[end : found.start()]:
            parts.append(literal)
        parts.append(_Expression(found[1]))
        end = found.end()
    return [*parts, template[end:]] if end < len(template) else parts


def _ends_of_expression(operator: str, uri: str, starts: set[int]) -> set[int]:
    allowed = _VALUE_CHARACTERS[operator]
    ends: set[int] = set() if operator in ("", "+") else set(starts)
    is_inside = False
    for place, character in enumerate(uri):
        if place in starts and (operator not in _BEGINNING_WITH_OPERATOR or character == operator):
            is_inside = True
        elif is_inside and character not in allowed:
            is_inside = False
        # The operator itself is no value, so what begins with it is taken in either way.
        if is_inside and (character in allowed or (place in starts and character == operator)):
            ends.add(place + 1)
        else:
            is_inside = False
    return ends
