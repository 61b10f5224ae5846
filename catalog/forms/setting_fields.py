"""Form fields for the settings that a protocol declares."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.vendors.setting_values import MAX_DOCUMENT_BYTES
from protocols.base import Setting


class LinesField(forms.CharField):
    """A list of texts, entered one per line."""

    widget = forms.Textarea(attrs={"rows": 1, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def run_validators(self, value: Any) -> None:
        """Do nothing: the operation validates lengths."""


class DocumentWidget(forms.MultiWidget):
    """An upload and a text area. The page never shows a stored document again."""

    def __init__(self) -> None:
        pasted = {
            "rows": 1,
            "spellcheck": "false",
            "placeholder": gettext_lazy("Or paste it here"),
            "aria-label": gettext_lazy("Text"),
        }
        super().__init__(
            {
                "file": forms.FileInput(attrs={"aria-label": gettext_lazy("A file")}),
                "text": forms.Textarea(attrs=pasted),
            }
        )

    def decompress(self, value: Any) -> list[Any]:
        return [None, ""]


class DocumentField(forms.MultiValueField):
    def __init__(self, **kwargs: Any) -> None:
        fields = (forms.FileField(required=False), forms.CharField(required=False, strip=False))
        super().__init__(fields, widget=DocumentWidget(), require_all_fields=False, **kwargs)

    def compress(self, data_list: list[Any]) -> str:
        file, text = data_list or (None, "")
        if not file:
            return text or ""
        if file.size > MAX_DOCUMENT_BYTES:
            raise forms.ValidationError(
                _("The file is larger than {maximum} MB.").format(maximum=MAX_DOCUMENT_BYTES // 1024**2)
            )
        try:
            return str(file.read().decode("utf-8-sig"))
        except UnicodeDecodeError as exc:
            raise forms.ValidationError(_("The file is not a text in UTF-8.")) from exc


def setting_field(setting: Setting) -> forms.Field:
    facts: dict[str, Any] = {
        "label": _(setting.label),
        "help_text": _(setting.help),
        "initial": setting.default,
    }
    match setting.kind:
        case "integer":
            return forms.IntegerField(
                min_value=setting.minimum, max_value=setting.maximum, required=setting.required, **facts
            )
        case "boolean":
            return forms.BooleanField(required=False, **facts)
        case "choice":
            return forms.ChoiceField(
                choices=[(value, _(words)) for value, words in setting.choices],
                required=setting.required,
                **facts,
            )
        case "lines":
            return LinesField(required=setting.required, **facts)
        case "document":
            return DocumentField(required=False, **facts)
        case _:
            return forms.CharField(required=setting.required, max_length=500, **facts)
