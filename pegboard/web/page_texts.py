"""Django's `i18n` tags, which translate the constant text of `{% translate "…" %}` once per language."""

from typing import Any

from django.template import Context, Library, Node
from django.template.base import Parser, Token, Variable
from django.templatetags import i18n
from django.utils.translation import get_language

register = Library()
register.tags.update(i18n.register.tags)
register.filters.update(i18n.register.filters)


class ConstantText(Node):
    """A text without variables: a page has a hundred of them, and Django resolves each like a variable."""

    child_nodelists = ()

    def __init__(self, node: i18n.TranslateNode) -> None:
        self.variable, node.asvar = node.asvar, None
        self.node = node
        self.text_by_language: dict[str | None, str] = {}

    def render(self, context: Context) -> Any:
        language = get_language()
        text = self.text_by_language.get(language)
        if text is None:
            text = self.text_by_language[language] = self.node.render(context)
        if not self.variable:
            return text
        context[self.variable] = text
        return ""


@register.tag("translate")
def translate(parser: Parser, token: Token) -> Node:
    node = i18n.do_translate(parser, token)
    text, context = node.filter_expression, node.message_context
    expressions = [text, context] if context else [text]
    return ConstantText(node) if all(map(_is_constant, expressions)) else node


def _is_constant(expression: Any) -> bool:
    variable = expression.var
    is_literal = variable.literal is not None if isinstance(variable, Variable) else True
    return is_literal and not expression.filters
