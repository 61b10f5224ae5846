"""Forms as text for users who may read them only: `{% editable why %}…{% endeditable %}`."""

from html.parser import HTMLParser

from django import template
from django.template import Context
from django.template.base import FilterExpression, NodeList, Parser, Token
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

register = template.Library()

_KEPT_OF_FORM = ("class", "id", "aria-labelledby", "aria-label")
_LEFT_OUT = {"button", "datalist"}
# Hints for filling a field in.
_LEFT_OUT_CLASSES = {"hint", "optional", "needs-js"}
_VOID = {"area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_TYPES_LEFT_OUT = {"hidden", "submit", "button", "file", "password"}


@register.tag
def editable(parser: Parser, token: Token) -> "EditableNode":
    """Render a form as it is, or as text for a user who may not send it.

    `{% editable why %}`: `why` is the reason against it, "" if there is none.
    """
    _name, reason = token.split_contents()
    nodes = parser.parse(("endeditable",))
    parser.delete_first_token()
    return EditableNode(parser.compile_filter(reason), nodes)


class EditableNode(template.Node):
    def __init__(self, reason: FilterExpression, nodes: NodeList) -> None:
        self.reason, self.nodelist = reason, nodes

    def render(self, context: Context) -> SafeString:
        content = self.nodelist.render(context)
        return as_text(content) if self.reason.resolve(context) else content


def as_text(content: str) -> SafeString:
    """Return the HTML of a form with each field replaced by its value, without buttons and hints."""
    reader = _FieldReader()
    reader.feed(content)
    reader.close()
    return mark_safe("".join(reader.parts))  # noqa: S308 - tags and texts of our own templates, as rendered


class _FieldReader(HTMLParser):
    """Reads a rendered form without its controls. parts: the HTML so far. left_out: the tags that are open
    inside of one that is left out.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self.left_out: list[str] = []
        self.options: list[str] | None = None
        self.is_chosen = False
        self.text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self.left_out or tag in _LEFT_OUT or _LEFT_OUT_CLASSES & {*values.get("class", "").split()}:
            if tag not in _VOID:
                self.left_out.append(tag)
        elif self.options is not None and tag != "option":
            return  # a group of options
        elif tag == "input":
            self.parts.append(_value_of_input(values))
        elif tag == "select":
            self.options = []
        elif tag == "option":
            self.is_chosen, self.text = "selected" in values, []
        elif tag == "textarea":
            self.text = []
        elif tag == "form":
            attributes = "".join(
                f' {name}="{conditional_escape(values[name])}"' for name in _KEPT_OF_FORM if name in values
            )
            self.parts.append(f"<div{attributes}>")
        elif tag == "label":
            self.parts.append(f'<span class="strong {conditional_escape(values.get("class", ""))}">')
        else:
            self.parts.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "input":
            self.handle_starttag(tag, attrs)
        elif not self.left_out:
            self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if self.left_out:
            if tag == self.left_out[-1]:
                self.left_out.pop()
        elif tag == "select":
            self._write(", ".join(self.options or []))
            self.options = None
        elif tag == "option":
            if self.is_chosen and self.options is not None:
                self.options.append("".join(self.text or []))
            self.text = None
        elif tag == "textarea":
            self._write("".join(self.text or []).strip("\r\n"))
            self.text = None
        elif self.options is None:
            replaced = {"form": "div", "label": "span"}.get(tag, tag)
            self.parts.append(f"</{replaced}>")

    def handle_data(self, data: str) -> None:
        if not self.left_out:
            (self.parts if self.text is None else self.text).append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _write(self, value: str) -> None:
        self.parts.append(f'<div class="vendor-text">{value}</div>' if value.strip() else _nothing())


def _nothing() -> str:
    return f'<p class="faint">{_("None")}</p>'


def _value_of_input(values: dict[str, str]) -> str:
    kind = values.get("type", "text")
    if kind in _TYPES_LEFT_OUT:
        return ""
    if kind == "radio":
        badge = f'<span class="label is-accent">{_("chosen")}</span> '
        return badge if "checked" in values else ""
    if kind == "checkbox":
        return f'<span class="label">{_("yes") if "checked" in values else _("no")}</span> '
    value = conditional_escape(values.get("value", ""))
    return f'<div class="vendor-text">{value}</div>' if value else _nothing()
