import pytest

from core import slugs
from core.errors import DomainError


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Weather Desk", "weather-desk"),
        ("  Köln_Süd  ", "koln-sud"),
        ("_a_", "a"),
        ("天气", ""),
        ("-", ""),
        (f"{'a' * 59}-b", "a" * 59),
    ],
)
def test_a_name_becomes_a_slug_or_nothing(name, slug):
    assert slugs.from_name(name) == slug
    assert not slug or slugs.parse_slug(slug) == slug


def test_spaces_around_a_slug_are_taken_off():
    assert slugs.parse_slug(" a-1 ") == "a-1"


@pytest.mark.parametrize("slug", ["", "-a", "a-", "A", "a_b", "a b", "ä", "a" * 61, "a\nb"])
def test_what_is_no_slug_is_refused(slug):
    with pytest.raises(DomainError) as refused:
        slugs.parse_slug(slug)
    assert refused.value.fields == {"slug": "Use small letters, digits and hyphens, up to 60 characters."}
