"""The icon that a page shows: raster before drawings, then the theme, then the size."""

import pytest

from protocols.mcp.icons import MAX_ICON_LENGTH, best_icon

PNG, SVG, DATA = "https://a.test/a.png", "https://a.test/a.svg", "data:image/png;base64,AAAA"


@pytest.mark.parametrize(
    ("icons", "best"),
    [
        (None, ""),
        ({}, ""),
        ("text", ""),
        ([], ""),
        ([None, 1, {}, {"src": 1}, {"src": ""}], ""),
        ([{"src": "https://a.test/" + "a" * MAX_ICON_LENGTH}, {"src": PNG}], PNG),
        ([{"src": "first"}, {"src": "second"}], "first"),
        ([{"src": SVG}], SVG),
        ([{"src": SVG}, {"src": PNG}], PNG),
        (
            [{"src": "https://a.test/a", "mimeType": "image/svg+xml"}, {"src": "https://a.test/b"}],
            "https://a.test/b",
        ),
        (
            [{"src": "https://a.test/a"}, {"src": "https://a.test/b", "mimeType": "image/webp"}],
            "https://a.test/b",
        ),
        ([{"src": "data:image/svg+xml;base64,AAAA", "mimeType": "image/png"}, {"src": DATA}], DATA),
        ([{"src": PNG, "theme": "dark"}, {"src": DATA, "theme": "light"}], DATA),
        ([{"src": PNG, "theme": "light"}, {"src": DATA}], DATA),
        ([{"src": PNG, "theme": ["light"]}, {"src": DATA, "theme": "light"}], DATA),
        ([{"src": PNG, "sizes": ["512x512"]}, {"src": DATA, "sizes": ["16x16", "128x128"]}], DATA),
        ([{"src": PNG, "sizes": ["16x16"]}, {"src": DATA, "sizes": ["48x48"]}], DATA),
        ([{"src": PNG, "sizes": ["16x16"]}, {"src": DATA}], DATA),
        ([{"src": PNG, "sizes": "32x32 96X96"}, {"src": DATA, "sizes": ["1024x1024"]}], PNG),
        ([{"src": PNG, "sizes": [None, 5, "0x0", "wide"]}, {"src": DATA, "sizes": ["96x96"]}], DATA),
        ([{"src": SVG, "sizes": ["any"]}, {"src": PNG, "sizes": ["16x16"], "theme": "dark"}], PNG),
    ],
)
def test_the_best_icon(icons, best):
    assert best_icon(icons) == best
