"""Django's `i18n` tags, which look up each text of a template once in a process."""

from django.template import Context, Library
from django.template.base import Parser, Token, render_value_in_context
from django.templatetags import i18n
from django.templatetags.i18n import BlockTranslateNode, TranslateNode
from django.utils.translation import get_language, gettext

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


class BlockNode(BlockTranslateNode):
    """A node that puts its text together once, and looks it up once in each language."""

    def __init__(self, node: BlockTranslateNode) -> None:
        vars(self).update(vars(node))
        self.text, self.names = self.render_token_list(self.singular)
        self.text_by_language: dict[str | None, str] = {}

    def render(self, context: Context, nested: bool = False) -> str:
        language = get_language()
        text = self.text_by_language.get(language)
        if text is None:
            text = self.text_by_language[language] = gettext(self.text)
        values = {}
        for name in self.names:
            if name in self.extra_context:
                value = self.extra_context[name].resolve(context)
            elif name in context:
                value = context[name]
            else:
                return super().render(context, nested)
            values[name] = render_value_in_context(value, context)
        try:
            return text % values
        except (KeyError, ValueError):  # a translation with other names
            return super().render(context, nested)


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


@register.tag("blocktrans")
@register.tag("blocktranslate")
def block_translate(parser: Parser, token: Token) -> BlockTranslateNode:
    """Read the tag like Django."""
    node = i18n.do_block_translate(parser, token)
    is_plain = not (node.plural or node.counter or node.message_context or node.asvar)
    return BlockNode(node) if is_plain else node
