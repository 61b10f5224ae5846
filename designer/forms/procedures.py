from typing import Any

from django import forms

from designer.models import Procedure, ProcedureVersion
from designer.procedures import references
from designer.procedures.references import Vocabulary
from people.audit.edit_conflicts import Difference
from people.forms import ModelOperationForm, form_field


class NewProcedureForm(ModelOperationForm):
    class Meta:
        model = Procedure
        fields = ("title",)


class ProcedureForm(NewProcedureForm):
    body = form_field(
        Procedure._meta.get_field("text"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "true", "data-procedure": ""}),
    )
    why = form_field(ProcedureVersion._meta.get_field("why"))

    class Meta(NewProcedureForm.Meta):
        help_texts = {"title": ""}

    def __init__(self, *args: Any, vocabulary: Vocabulary, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = vocabulary

    def field_for(self, path: str) -> str:
        return "body" if path == "text" else path

    def field_value(self, name: str, value: object) -> object:
        return references.display_text(references.parse(str(value), self.known)) if name == "body" else value

    def late_rows(self) -> list[tuple[str, Difference]]:
        # The text is compared by names, as the user types it, and not by identities.
        def by_names(value: Any) -> Any:
            return (
                references.display_text(references.parse(value, self.known))
                if isinstance(value, str)
                else value
            )

        return [
            (
                label,
                Difference(
                    difference.path,
                    by_names(difference.before),
                    by_names(difference.theirs),
                    by_names(difference.yours),
                ),
            )
            for label, difference in super().late_rows()
        ]
