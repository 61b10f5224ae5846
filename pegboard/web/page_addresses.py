"""Django's `{% url %}`, which builds each address once in a process."""

from typing import Any

from django.template import Context, Library
from django.template.base import Parser, Token
from django.template.defaulttags import URLNode, url
from django.utils.html import conditional_escape

from core.page_addresses import address_of

register = Library()


class AddressNode(URLNode):
    """The tag `url` with cached addresses, because a page of an agent has three for each of its tools."""

    def render(self, context: Context) -> Any:
        arguments = [argument.resolve(context) for argument in self.args]
        name = self.view_name.resolve(context)
        is_plain = ":" not in name and all(isinstance(value, str | int) for value in arguments)
        if self.asvar or self.kwargs or not is_plain:
            return super().render(context)
        address = address_of(name, *arguments)
        return conditional_escape(address) if context.autoescape else address


@register.tag("url")
def address(parser: Parser, token: Token) -> URLNode:
    node = url(parser, token)
    return AddressNode(node.view_name, node.args, node.kwargs, node.asvar)
