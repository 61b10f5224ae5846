"""Slugs: the short names of vendors, teams and agents in URLs."""

import re
from collections.abc import Container
from itertools import chain, count

from django.utils.text import slugify

from core.errors import invalid

MAX_LENGTH = 60
PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?"


def from_name(name: str) -> str:
    """Return a slug that resembles the name, or "" for a name without a Latin letter or digit."""
    return slugify(name).replace("_", "-")[:MAX_LENGTH].strip("-")


def stem_of(slug: str) -> str:
    """Return the beginning of a slug that leaves room for a hyphen and a number."""
    return slug[: MAX_LENGTH - 5].strip("-")


def unused_slug(slug: str, used_slugs: Container[str]) -> str:
    """Return the slug, or its stem with the lowest number from 2 on with which it is not used yet."""
    numbered = (f"{stem_of(slug)}-{number}" for number in count(2))
    return next(candidate for candidate in chain([slug], numbered) if candidate not in used_slugs)


def parse_slug(text: str) -> str:
    """Return the slug without surrounding spaces. Raises DomainError `invalid` if it is not a slug."""
    slug = text.strip()
    if not re.fullmatch(PATTERN, slug):
        raise invalid(slug=f"Use small letters, digits and hyphens, up to {MAX_LENGTH} characters.")
    return slug
