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
# An expression with one of these operators begins with it in the address, unless its values are empty.
_BEGINNING_WITH_OPERATOR = frozenset("#./;?&")


@dataclass(frozen=True, slots=True)
class _Expression:
    operator: str

    def ends(self, uri: str, starts: set[int]) -> set[int]:
        """Return the positions in the address where the expression can end, for these where it can start."""
        allowed = _VALUE_CHARACTERS[self.operator]
        ends: set[int] = set() if self.operator in ("", "+") else set(starts)
        is_inside = False
        for place, character in enumerate(uri):
            if place in starts and (
                self.operator not in _BEGINNING_WITH_OPERATOR or character == self.operator
            ):
                is_inside = True
            elif is_inside and character not in allowed:
                is_inside = False
            # The operator itself is not a value, so it is accepted at the start in either case.
            if is_inside and (character in allowed or (place in starts and character == self.operator)):
                ends.add(place + 1)
            else:
                is_inside = False
        return ends


def is_template(text: str) -> bool:
    """Return whether every brace of the text belongs to an expression, and there is one at least."""
    text_outside, count = _EXPRESSION.subn("", text)
    return count > 0 and "{" not in text_outside and "}" not in text_outside


def variables(template: str) -> list[str]:
    """Return the names of the variables, in the order of the template."""
    return [
        variable.rstrip("*").partition(":")[0]
        for expression in _EXPRESSION.finditer(template)
        for variable in expression[2].split(",")
    ]


def fits(template: str, uri: str) -> bool:
    """Return whether the template matches the address with some values for its variables.

    A value of an expression without an operator has at least one character and stays within one segment.
    """
    if len(uri) > MAX_URI_LENGTH:
        return False
    # The positions in the address where the parts so far can end.
    ends = {0}
    parts: list[str | _Expression] = []
    end = 0
    for match in _EXPRESSION.finditer(template):
        if literal := template[end : match.start()]:
            parts.append(literal)
        parts.append(_Expression(match[1]))
        end = match.end()
    for part in [*parts, template[end:]] if end < len(template) else parts:
        if isinstance(part, _Expression):
            ends = part.ends(uri, ends)
        else:
            ends = {end + len(part) for end in ends if uri.startswith(part, end)}
        if not ends:
            return False
    return len(uri) in ends
