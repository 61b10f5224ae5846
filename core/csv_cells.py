"""Cells of CSV files that spreadsheets take for text."""

# A spreadsheet takes a cell that begins with one of these for a formula (OWASP, CSV injection).
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def guard_cell(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def unguard_cell(text: str) -> str:
    """Return the text that `guard_cell` was given."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA_STARTS) else text
