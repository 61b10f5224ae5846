"""The causes of findings, which group their codes in lists and filters. Pure.

The codes are those of the rules in `inspection/`, of `promises.py`, of the second look, of refused calls and
of the policy. The causes are in the order in which lists show them.
"""

from collections.abc import Collection

OTHER = "other"
# The codes of each cause.
CAUSES: dict[str, frozenset[str]] = {
    "cloaking": frozenset({"CLOAKING"}),
    "hidden": frozenset(
        {
            *("TAG_CHARACTERS", "BIDI_CONTROL", "DIRECTION_MARK", "ZERO_WIDTH", "SOFT_HYPHEN", "FILLER"),
            *("VARIATION_SELECTOR", "VARIATION_SELECTORS", "TERMINAL_ESCAPE", "ERASING_CONTROL"),
            *("CONTROL_CHARACTER", "PRIVATE_USE", "SURROGATE", "NONCHARACTER", "UNASSIGNED"),
            *(
                "LINE_SEPARATOR",
                "UNUSUAL_SPACE",
                "COMBINING_MARK",
                "HTML_COMMENT",
                "HIDDEN_STYLE",
                "PADDING",
            ),
        }
    ),
    "orders": frozenset(
        {
            *("CONCEAL", "OVERRIDE", "PSEUDO_TAG", "SHADOW", "SECRET_FILES", "CONTEXT_LEAK", "ROLE"),
            *("TOOL_ORDER", "COERCE", "PREFER", "STEERING", "FALSE_TURN", "FRAME", "ADDRESSED", "HIJACK"),
            *("DESPITE", "UNASKED", "SHELL_COMMAND", "CREDENTIAL_LEAK", "EXFILTRATION"),
        }
    ),
    "names": frozenset({"COLLISION", "SAME_TOOLS", "LOOK_ALIKE", "NEAR_MISS", "OTHER_TOOL", "MIXED_SCRIPT"}),
    "markup": frozenset(
        {
            *("ACTIVE_MARKUP", "COLLECTOR", "ENCODED", "REMOTE_IMAGE", "TEMPLATED_LINK", "RAW_ADDRESS"),
            *("TERMINAL_TEXT", "FOREIGN_LINK"),
        }
    ),
    "drift": frozenset({"DRIFT"}),
    "promises": frozenset({"VERSION_BACK", "SAME_NAME", "NEW_TOOL_ID", "NEW_PARAMETER_ID"}),
    "refuses": frozenset({"REFUSES_VALID"}),
    "changes": frozenset({"BREAKING", "CHANGED"}),
    "held": frozenset({"HELD"}),
    "shape": frozenset(
        {
            *("REMOTE_SCHEMA", "PROSE_NAME", "CONTEXT_PARAMETER", "CLAIM", "FREE_TEXT", "LARGE_SCHEMA"),
            *("LONG_DESCRIPTION", "LONG_NAME", "ODD_NAME", "NO_DESCRIPTION", "INPUTS_UNDESCRIBED"),
            *("SLOW_PATTERN", "ENDLESS_SCHEMA", "SAME_INPUT_NAME"),
        }
    ),
    OTHER: frozenset(),
}
_BY_CODE = {code: cause for cause, codes in CAUSES.items() for code in codes}
KNOWN_CODES = frozenset(_BY_CODE)


def cause_of(code: str) -> str:
    return _BY_CODE.get(code, OTHER)


def codes_of(cause: str) -> Collection[str]:
    """Return the codes of a cause. `OTHER` has none: it contains everything that is not in `KNOWN_CODES`."""
    return CAUSES[cause]
