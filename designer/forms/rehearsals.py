from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from msgspec import UNSET
from msgspec.structs import replace

from core.errors import DomainError
from designer.models import Rehearsal, RehearsalJudge, RehearsalPlan
from designer.rehearsals import built_in, judges, sentences
from designer.rehearsals.built_in import as_shown
from designer.rehearsals.masking import shown_marks
from designer.rehearsals.sentences import NewSentence
from designer.signatures.effective import Effective
from execution.forms.argument_forms import ArgumentsForm, any_inputs
from people.forms import ModelOperationForm, OperationForm, form_field

MAX_LINES_LENGTH = 200_000


class RehearsalForm(ModelOperationForm):
    """One sentence without its inputs; `names` are the tools and transfers that the agent shows."""

    tool = forms.ChoiceField(label=_("Expected tool"))
    field_order = ("says", "tool")

    class Meta:
        model = Rehearsal
        fields = ("says",)
        widgets = {"says": forms.Textarea(attrs={"rows": 2})}

    def __init__(self, *args: Any, names: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("Choose a tool")), *((name, name) for name in names)]
        self.fields["tool"].choices = choices  # type: ignore[attr-defined]


class ExpectedInputsForm(ArgumentsForm):
    """The expected values of a sentence for the inputs that a model sees. Omitted inputs are not checked.

    `initial_values` may contain inputs that the tool no longer shows: `gone`.
    """

    def __init__(
        self,
        *args: Any,
        tool: Effective,
        initial_values: Mapping[str, Any],
        marked_members: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        signature = any_inputs(as_shown(tool))
        # A preset is sent in any case, so no sentence contains it.
        signature = replace(signature, inputs=tuple(replace(row, default=UNSET) for row in signature.inputs))
        names = {row.alias: row.shown_name for row in tool.inputs} | {
            row.shown_name: row.shown_name for row in tool.inputs
        }
        self.tool = tool.name
        self.gone = sorted(initial_values.keys() - names)
        current_values = {names[name]: value for name, value in initial_values.items() if name in names}
        marked_members = shown_marks(tool, marked_members)
        super().__init__(
            *args,
            signature=signature,
            initial_values=current_values,
            marked_members=marked_members,
            prefix="inputs",
            **kwargs,
        )


class RehearsalGateForm(ModelOperationForm):
    judge = forms.ChoiceField(required=False, label=RehearsalPlan._meta.get_field("judge").verbose_name)
    field_order = ("judge", "gate", "on_flips", "at_least")

    class Meta:
        model = RehearsalPlan
        fields = ("gate", "on_flips", "at_least")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = [(str(row.pk), row.name) for row in judges.live()]
        self.fields["judge"].choices = [(built_in.NAME, _("Built-in evaluation")), *rows]  # type: ignore[attr-defined]


class JudgeForm(ModelOperationForm):
    key = form_field(judges.KEY, widget=forms.PasswordInput(attrs={"autocomplete": "off"}))
    field_order = ("name", "url", "model", "key", "tries", "seconds")

    class Meta:
        model = RehearsalJudge
        fields = ("name", "url", "model", "tries", "seconds")


class RehearsalLinesForm(OperationForm):
    lines = forms.CharField(
        max_length=MAX_LINES_LENGTH,
        label=_("Several tests"),
        help_text=_(
            "One on each line: what a user says => tool_name. Values of inputs may follow the tool: => "
            "book_room city: Paris, nights: 3"
        ),
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )

    def parse_sentences(self, tools: Iterable[Effective]) -> list[NewSentence]:
        """Return the sentences of the lines. Raises DomainError for the first one that cannot be stored."""
        signatures = {tool.name: as_shown(tool) for tool in tools}
        new_sentences = sentences.read_lines(self.cleaned_data["lines"], signatures)
        if not new_sentences:
            message = str(_("Enter at least one line."))
            raise DomainError("invalid", message, fields={"lines": message})
        return new_sentences
