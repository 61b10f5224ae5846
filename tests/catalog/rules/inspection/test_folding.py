"""The input of the wording rules: the words, without separators and decorations."""

import pytest

from catalog.rules.inspection.folding import BOUNDARY, fold_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ig<b></b>nore <span class='x'>it</span>", "ignore it"),
        ("above<br>Ignore<p>it</p>", "above ignore it"),
        ("Ig<!-- a remark -->nore", "ignore"),
        ("Ig&lt;b&gt;nore", "ignore"),
        ("&#73;gnore", "ignore"),
        ("see [the page](http://x.example/) ![all](x)", "see the page all"),
        ("one\n> two\n- three\n## four\n\u2022 five", "one two three four five"),
        ('**Ig**`nore` ~~all~~ "rules" \u201cx\u201d', "ignore all rules x"),
        ("_Ignore_ __all__", "ignore all"),
        ("don\u2019t", "don't"),
        ("a \t\n\n  b", "a b"),
        ("I g n o r e   a l l", "ignore all"),
        ("i-g-n-o-r-e", "ignore"),
        # Other spellings are compared as well.
        ("ignore_all_the_rules", f"ignore_all_the_rules {BOUNDARY} ignore all the rules"),
        ("1gn0re all", f"1gn0re all {BOUNDARY} ignore all"),
    ],
)
def test_words_are_read_without_what_is_between_and_around_them(text, expected):
    assert fold_text(text) == expected


@pytest.mark.parametrize("text", ["snake_case stays", "x = 3 > 2", "3 - 2 = 1", "a_b c", "mp3 of 2024"])
def test_plain_words_are_read_as_they_are(text):
    assert fold_text(text) == text
