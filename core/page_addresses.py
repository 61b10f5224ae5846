"""Addresses of pages, which are built once in a process: an agent's page has a hundred of them."""

from functools import lru_cache

from django.conf import settings
from django.urls import get_script_prefix, reverse


def address_of(name: str, *arguments: str | int) -> str:
    """Return what Django's `reverse` returns. Raises NoReverseMatch."""
    return _build_address(name, tuple(map(str, arguments)), get_script_prefix(), settings.ROOT_URLCONF)


@lru_cache(maxsize=5_000)
def _build_address(name: str, arguments: tuple[str, ...], prefix: str, urlconf: str) -> str:
    """Build an address. It depends on nothing but the arguments, so it can be cached."""
    return reverse(name, urlconf, arguments)
