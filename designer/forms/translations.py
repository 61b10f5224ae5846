"""Forms for translations: of one tool, from a file, and by a model."""

from collections.abc import Iterator, Sequence
from typing import Any

from django import forms
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Tool, Vendor
from catalog.translations import languages, stored
from catalog.translations.exchange import MAX_FILE_BYTES
from catalog.translations.files import FileFormat
from catalog.translations.stored import TranslatedText
from catalog.translations.tool_texts import MAX_TRANSLATION
from core.errors import DomainError
from designer.models import TranslationRun
from designer.rehearsals import judges
from people.audit import edit_conflicts
from people.audit.edit_conflicts import LateEditError
from people.forms import OperationForm, form_field
from people.models import User

LANGUAGE_CHOICES = [(entry.code, entry.own_name) for entry in languages.LANGUAGES]


class TranslationsForm(OperationForm):
    """Two fields for each text: its translation, and the confirmation of a model's translation.

    Each text is compared and replaced by itself: two people may translate the same tool. Texts that the
    person did not change are not saved.
    """

    def __init__(self, *args: Any, texts: Sequence[TranslatedText], language: str) -> None:
        super().__init__(*args)
        self.texts, self.language = texts, language
        self.states: dict[str, str] = {}
        for text in texts:
            digest = text.text.digest
            state = edit_conflicts.etag(stored.translation_facts(text.translation))
            self.states[digest] = self.data.get(f"state-{digest}", state) if self.is_bound else state
            self.fields[digest] = forms.CharField(
                label=text.text.label,
                required=False,
                max_length=MAX_TRANSLATION,
                initial=text.translation.text if text.translation else "",
                widget=forms.Textarea(
                    attrs={"rows": min(8, 2 + len(text.text.source) // 90), "lang": language, "dir": "auto"}
                ),
            )

    @property
    def status(self) -> int:
        return 409 if self.late else 200

    def rows(self) -> Iterator[tuple[TranslatedText, forms.BoundField, str]]:
        """Yield each text with its field and the state that is edited."""
        for text in self.texts:
            yield text, self[text.text.digest], self.states[text.text.digest]

    def save(self, *, actor: User, tool: Tool) -> bool:
        """Store the changed translations, all or none. Return whether everything was valid."""
        with transaction.atomic():
            for text in self.texts:
                digest = text.text.digest
                edited = self.cleaned_data[digest].replace("\r\n", "\n")
                state = self.states[digest]
                is_unchanged = edit_conflicts.etag({"text": edited}) == state
                if is_unchanged and f"confirm-{digest}" not in self.data:
                    continue
                translation = {"language": self.language, "digest": digest, "expected": state}
                try:
                    stored.find_text(tool, digest)
                    if edited:
                        stored.write_translation(actor=actor, text=edited, **translation)
                    else:
                        stored.remove_translation(actor=actor, **translation)
                except LateEditError as error:
                    self.late = error
                    self.states[digest] = error.state
                    message = _("{user} saved “{text}” meanwhile. Save again to replace it.").format(
                        user=error.who, text=error.differences[0].theirs
                    )
                    self.add_error(digest, message)
                except DomainError as error:
                    self.add_error(digest, next(iter(error.fields.values()), error.message))
            if self.errors:
                transaction.set_rollback(True)
        return not self.errors


def vendor_choices() -> list[tuple[str, str]]:
    rows = Vendor.objects.filter(removed_at=None).order_by("name").values_list("slug", "name")
    return [(slug, name) for slug, name in rows]


class LanguageForm(OperationForm):
    language = forms.ChoiceField(choices=LANGUAGE_CHOICES, initial="de")


class TranslationExportForm(LanguageForm):
    vendor = forms.ChoiceField(required=False)
    type = forms.ChoiceField(label=gettext_lazy("Format"), choices=FileFormat.choices)
    only_missing = forms.BooleanField(required=False, label=gettext_lazy("Only texts without a translation"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["vendor"].choices = [("", _("All vendors")), *vendor_choices()]  # type: ignore[attr-defined]


class TranslationImportForm(LanguageForm):
    file = forms.FileField(
        label=gettext_lazy("CSV or XLIFF file"),
        widget=forms.ClearableFileInput(attrs={"accept": ".csv,.xlf,.xliff"}),
    )

    def content(self) -> tuple[bytes, FileFormat]:
        """Return the body, cut after the limit, and the format by the name of the file."""
        upload = self.cleaned_data["file"]
        body: bytes = upload.read(MAX_FILE_BYTES + 1)
        is_xliff = str(upload.name).lower().endswith((".xlf", ".xliff", ".xml"))
        return body, FileFormat.XLIFF if is_xliff else FileFormat.CSV


class TranslationRunForm(LanguageForm):
    vendor = form_field(
        TranslationRun._meta.get_field("vendor"),
        queryset=Vendor.objects.filter(removed_at=None).order_by("name"),
        to_field_name="slug",
        empty_label=None,
    )
    judge = form_field(TranslationRun._meta.get_field("judge"), queryset=judges.live(), empty_label=None)
