from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from catalog.search import word_groups
from people.forms import OperationForm


class WordGroupForm(OperationForm):
    words = forms.CharField(
        max_length=word_groups.MAX_WORDS * (word_groups.MAX_WORD_LENGTH + 2),
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_("Separated by commas: PTO, vacation, time off."),
    )

    def clean_words(self) -> list[str]:
        """Return the words of the text, one for each comma or line."""
        text: str = self.cleaned_data["words"]
        return text.replace("\n", ",").split(",")

    def field_value(self, name: str, value: Any) -> object:
        return ", ".join(value)
