"""Slugs: the short names of vendors, teams and agents in URLs."""

import re

from django.utils.text import slugify

from core.errors import invalid

MAX_LENGTH = 60
PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?"


def from_name(name: str) -> str:
    """Return a slug that resembles the name, or "" for a name without a Latin letter or digit."""
    return slugify(name).replace("_", "-")[:MAX_LENGTH].strip("-")


def parse_slug(text: str) -> str:
    """Return the slug without surrounding spaces. Raises DomainError `invalid` if it is not a slug."""
    slug = text.strip()
    if not re.fullmatch(PATTERN, slug):
        raise invalid(slug=f"Use small letters, digits and hyphens, up to {MAX_LENGTH} characters.")
    return slug
