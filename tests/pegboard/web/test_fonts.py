"""The fonts of the pages: subsets of what the packages contain, served by this product alone."""

import io
import re
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from fontTools.ttLib import TTFont

from pegboard.web import fonts

MOST_BYTES = 120 * 1024
# Characters of German, Polish, Turkish and Vietnamese, and the signs that pages draw.
LETTERS = "äöüßÄÖÜẞéèłąşğıệ€£₹“”„…→↑≥\N{MINUS SIGN}"


def font_bytes(name: str) -> bytes:
    return Path(finders.find(f"fonts/{name}")).read_bytes()


def test_both_fonts_together_are_small():
    assert 0 < sum(len(font_bytes(name)) for name in fonts.FONTS) <= MOST_BYTES


@pytest.mark.parametrize("name", fonts.FONTS)
def test_a_font_has_the_letters_of_latin_languages_and_all_weights(name):
    subset = TTFont(io.BytesIO(font_bytes(name)))

    assert {letter for letter in LETTERS if ord(letter) not in subset.getBestCmap()} == set()
    assert [axis.axisTag for axis in subset["fvar"].axes] == ["wght"]


def test_pages_and_style_sheets_name_only_fonts_that_are_served(client, db):
    style = (settings.BASE_DIR / "static" / "css" / "variables.css").read_text()
    font_names = set(re.findall(r"fonts/([\w.]+)", style))

    assert font_names == set(fonts.FONTS)
    for name in font_names:
        with closing(client.get(f"/static/fonts/{name}")) as reply:
            assert (reply.status_code, reply["Content-Type"]) == (200, "font/woff2")


def test_the_licence_of_the_fonts_is_served_beside_them(client, db):
    with closing(client.get(f"/static/fonts/{fonts.LICENCE}")) as reply:
        assert b"SIL Open Font License" in b"".join(reply.streaming_content)


def test_a_second_process_finds_what_the_first_has_made(tmp_path, settings):
    settings.BASE_DIR = tmp_path

    directory = fonts.find_subsets()

    assert fonts.find_subsets() == directory
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
