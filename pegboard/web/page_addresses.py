"""Django's `{% url %}`, which builds each address once in a process."""

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.template import Context, Library
from django.template.base import Parser, Token
from django.template.defaulttags import URLNode, url
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.html import conditional_escape

register = Library()


class AddressNode(URLNode):
    """A page of an agent has three addresses for each of its tools, and their patterns never change."""

    def render(self, context: Context) -> Any:
        arguments = [argument.resolve(context) for argument in self.args]
        name = self.view_name.resolve(context)
        is_plain = ":" not in name and all(isinstance(value, str | int) for value in arguments)
        if self.asvar or self.kwargs or not is_plain:
            return super().render(context)
        urlconf = get_urlconf() or settings.ROOT_URLCONF
        address = _address(name, tuple(map(str, arguments)), get_script_prefix(), urlconf)
        return conditional_escape(address) if context.autoescape else address


@lru_cache(maxsize=5_000)
def _address(name: str, arguments: tuple[str, ...], prefix: str, urlconf: str) -> str:
    """Return the address. All that it depends on is an argument."""
    return reverse(name, urlconf, arguments)


@register.tag("url")
def address(parser: Parser, token: Token) -> URLNode:
    node = url(parser, token)
    return AddressNode(node.view_name, node.args, node.kwargs, node.asvar)
