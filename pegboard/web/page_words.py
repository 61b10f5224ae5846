"""Django's `i18n` tags, with a `{% translate %}` that looks up a constant text once in a process."""

from django.template import Context, Library
from django.template.base import Parser, Token
from django.templatetags import i18n
from django.templatetags.i18n import TranslateNode
from django.utils.translation import get_language

register = Library()
register.tags.update(i18n.register.tags)
register.filters.update(i18n.register.filters)


class ConstantTextNode(TranslateNode):
    """A node that looks its constant text up once in each language, because a page has up to 200 of them.

    text_by_language: filled as pages are rendered; `TranslateNode` returns the text as HTML.
    """

    def __init__(self, node: TranslateNode) -> None:
        vars(self).update(vars(node))
        self.text_by_language: dict[str | None, str] = {}

    def render(self, context: Context) -> str:
        language = get_language()
        text = self.text_by_language.get(language)
        if text is None:
            text = self.text_by_language[language] = super().render(context)
        return text


@register.tag("trans")
@register.tag("translate")
def translate(parser: Parser, token: Token) -> TranslateNode:
    """Read the tag like Django. The text is constant without filters, variables and `as`."""
    node = i18n.do_translate(parser, token)
    expressions = (node.filter_expression, node.message_context)
    is_constant = not node.asvar and not any(
        expression and (expression.filters or getattr(expression.var, "lookups", None))
        for expression in expressions
    )
    return ConstantTextNode(node) if is_constant else node
