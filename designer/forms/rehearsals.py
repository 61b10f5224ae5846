from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django import forms
from msgspec import UNSET
from msgspec.structs import replace

from core.errors import DomainError
from core.outbound.addresses import MAX_URL_LENGTH
from designer.forms.argument_forms import ArgumentsForm, any_inputs
from designer.models import Gate
from designer.rehearsals import built_in, judges, sentences
from designer.rehearsals.built_in import as_shown
from designer.rehearsals.masking import shown_marks
from designer.rehearsals.sentences import NewSentence
from designer.signatures.effective import Effective
from people.forms import OperationForm

MAX_LINES_LENGTH = 200_000


class RehearsalForm(OperationForm):
    """One sentence without its inputs; `names` are the tools and transfers that the agent shows."""

    says = forms.CharField(
        max_length=sentences.MAX_LENGTH,
        label="What a user says",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    tool = forms.ChoiceField(label="Expected tool")

    def __init__(self, *args: Any, names: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Choose a tool"), *((name, name) for name in names)]
        self.fields["tool"].choices = choices  # type: ignore[attr-defined]


class ExpectedInputsForm(ArgumentsForm):
    """The expected values of a sentence for the inputs that a model sees. Omitted inputs are not checked.

    `given` may contain inputs that the tool no longer shows: `gone`.
    """

    def __init__(
        self,
        *args: Any,
        tool: Effective,
        given: Mapping[str, Any],
        marked: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        signature = any_inputs(as_shown(tool))
        # A preset is sent in any case, so no sentence contains it.
        signature = replace(signature, inputs=tuple(replace(row, default=UNSET) for row in signature.inputs))
        names = {row.alias: row.shown_name for row in tool.inputs} | {
            row.shown_name: row.shown_name for row in tool.inputs
        }
        self.tool = tool.name
        self.gone = sorted(given.keys() - names)
        current_values = {names[name]: value for name, value in given.items() if name in names}
        marked = shown_marks(tool, marked)
        super().__init__(
            *args, signature=signature, given=current_values, marked=marked, prefix="inputs", **kwargs
        )


class RehearsalGateForm(OperationForm):
    judge = forms.ChoiceField(required=False, label="Evaluation model")
    gate = forms.ChoiceField(
        choices=[
            (Gate.OFF, "Ignore"),
            (Gate.WARN, "Show a warning"),
            (Gate.REFUSE, "Block publishing until accepted"),
        ],
        label="If too few tests pass",
    )
    on_flips = forms.BooleanField(
        required=False, label="Also if a test fails that passed in the last release"
    )
    at_least = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=sentences.MAX_SENTENCES,
        label="Tests that must pass",
        help_text="Empty: no minimum.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = [(str(row.pk), row.name) for row in judges.live()]
        self.fields["judge"].choices = [(built_in.NAME, "Built-in evaluation"), *rows]  # type: ignore[attr-defined]


class JudgeForm(OperationForm):
    name = forms.CharField(max_length=100, label="Name")
    url = forms.CharField(
        max_length=MAX_URL_LENGTH,
        label="Base address",
        help_text="Such as https://api.openai.com/v1, without /chat/completions.",
    )
    model = forms.CharField(max_length=judges.MAX_MODEL_LENGTH, label="Model")
    key = forms.CharField(
        required=False,
        max_length=judges.MAX_KEY_LENGTH,
        label="API key",
        help_text="Stored encrypted and never shown again.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    tries = forms.IntegerField(
        min_value=1, max_value=judges.MAX_TRIES, initial=3, label="Attempts for each test"
    )
    seconds = forms.IntegerField(
        min_value=1, max_value=judges.MAX_SECONDS, initial=30, label="Seconds for each answer, at most"
    )


class RehearsalLinesForm(OperationForm):
    lines = forms.CharField(
        max_length=MAX_LINES_LENGTH,
        label="Several tests",
        help_text="One on each line: what a user says => tool_name. What it says for the inputs may stand "
        "behind the tool: => book_room city: Paris, nights: 3",
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )

    def parse_sentences(self, tools: Iterable[Effective]) -> list[NewSentence]:
        """Raises DomainError that names the first line that cannot be kept."""
        signatures = {tool.name: as_shown(tool) for tool in tools}
        new_sentences = sentences.read_lines(self.cleaned_data["lines"], signatures)
        if not new_sentences:
            raise DomainError(
                "invalid", "Enter at least one line.", fields={"lines": "Enter at least one line."}
            )
        return new_sentences
