"""The bounds of the styles and scripts that a browser loads, and that pages use all of them."""

import re
from pathlib import Path

from django.conf import settings

from catalog.credentials import kinds

MOST_BYTES = 90_000
STATIC = settings.BASE_DIR / "static"
PACKAGES = ("catalog", "core", "designer", "people", "pegboard", "serving")


def text_of(*patterns: str) -> str:
    return "\n".join(path.read_text() for pattern in patterns for path in settings.BASE_DIR.glob(pattern))


def test_style_sheets_and_scripts_together_stay_small():
    files: list[Path] = [path for folder in ("css", "js") for path in (STATIC / folder).iterdir()]

    assert len(files) > 10
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


def test_every_class_of_the_style_sheets_is_used():
    style = re.sub(r"/\*.*?\*/", "", text_of("static/css/*.css"), flags=re.DOTALL)
    pages = text_of("templates/**/*.html", "static/js/*.js", *(f"{package}/**/*.py" for package in PACKAGES))
    words = set(re.findall(r"[a-z][\w-]*", pages))

    def is_used(name: str) -> bool:
        # A template may write the last part: `is-{{ tone }}`.
        stem, _, last = name.rpartition("-")
        return name in words or (f"{stem}-{{" in pages and (last.isdigit() or last in words))

    assert [name for name in sorted(set(re.findall(r"\.([a-z][\w-]*)", style))) if not is_used(name)] == []


def test_style_sheet_shows_the_details_of_each_kind_of_credential():
    style = text_of("static/css/controls.css")

    assert [number for number, _ in enumerate(kinds.ALL, 1) if f".when-kind-{number}" not in style] == []
