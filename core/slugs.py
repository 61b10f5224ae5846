"""Slugs: the short names by which vendors, teams and agents stand in addresses. One rule for all of them."""

import re

from django.utils.text import slugify

from core.errors import invalid

MAX_LENGTH = 60
PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?"


def from_name(name: str) -> str:
    """A slug that resembles the name; "" for a name without any Latin letter or digit."""
    return slugify(name).replace("_", "-")[:MAX_LENGTH].strip("-")


def checked(slug: str) -> str:
    """Without spaces around it. Raises DomainError `invalid` for what is no slug."""
    slug = slug.strip()
    if not re.fullmatch(PATTERN, slug):
        raise invalid(slug=f"Use small letters, digits and hyphens, up to {MAX_LENGTH} characters.")
    return slug
