"""The bounds of the styles and scripts that a browser loads."""

from django.conf import settings

MOST_BYTES = 90_000


def test_style_sheets_and_scripts_together_stay_small():
    files = [path for folder in ("css", "js") for path in (settings.BASE_DIR / "static" / folder).iterdir()]

    assert len(files) > 10
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
