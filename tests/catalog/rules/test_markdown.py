import time

import pytest

from catalog.rules.markdown import strip_markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [the docs](https://a.example/x) **now**", "See the docs now"),
        ("## Usage\n- one\n* two", "Usage\none\ntwo"),
        ("![logo](https://a.example/l.png) Sends `mail`", "logo Sends mail"),
        ("Call *once*, not ~~twice~~", "Call once, not twice"),
        ("2 * 3 * 4 and snake_case_name and __init__", "2 * 3 * 4 and snake_case_name and __init__"),
        ("a < b and c > d, list[int](x y)", "a < b and c > d, list[int](x y)"),
        ("<b>Bold</b> <script>x</script>", " Bold  <script>x</script>"),
        ("```json\n{}\n```", "\n{}\n"),
        ("Plain.", "Plain."),
    ],
)
def test_marks_are_removed_and_other_text_is_not(text, expected):
    assert strip_markdown(text) == expected


def test_a_hostile_text_costs_little():
    for text in ("[" * 20_000, "*" * 20_000, "`" * 20_000, "<a " * 10_000, "| - " * 10_000):
        strip_markdown(text[:1_200])


@pytest.mark.parametrize("start", ["", "|", "--", "--|"])
def test_a_long_line_of_spaces_is_read_once(start):
    text = start + " " * 100_000 + "x"
    began = time.process_time()
    assert strip_markdown(f"*\n{text}") == f"*\n{text}"
    assert time.process_time() - began < 1.0
