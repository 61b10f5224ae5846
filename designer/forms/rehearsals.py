from collections.abc import Iterable
from typing import Any

import msgspec
from django import forms

from core.errors import DomainError, invalid
from core.outbound.addresses import MAX_URL_LENGTH
from designer.models import Gate
from designer.rehearsals import built_in, judges, sentences
from designer.rehearsals.sentences import Wanted
from people.forms import OperationForm

MAX_LINES_LENGTH = 200_000


class RehearsalForm(OperationForm):
    """One sentence; `names` are the tools and transfers that the agent shows."""

    says = forms.CharField(
        max_length=sentences.MAX_LENGTH,
        label="What a user says",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    tool = forms.ChoiceField(label="The tool for it")
    inputs = forms.CharField(
        required=False,
        max_length=sentences.MAX_INPUTS_LENGTH,
        label="Inputs that the sentence says",
        help_text='As JSON: {"city": "Paris", "days": 3}. Those you leave out are not judged.',
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "input mono"}),
    )

    def __init__(self, *args: Any, names: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Choose a tool"), *((name, name) for name in names)]
        self.fields["tool"].choices = choices  # type: ignore[attr-defined]

    def facts(self) -> dict[str, Any]:
        """Raises DomainError for inputs that are no object."""
        given = self.cleaned_data["inputs"].strip()
        try:
            inputs = msgspec.json.decode(given, type=dict[str, Any]) if given else {}
        except msgspec.DecodeError as exc:
            raise invalid(inputs='Write a JSON object, such as {"city": "Paris"}.') from exc
        return {"says": self.cleaned_data["says"], "tool": self.cleaned_data["tool"], "inputs": inputs}


class RehearsalGateForm(OperationForm):
    judge = forms.ChoiceField(required=False, label="Whose answers count")
    gate = forms.ChoiceField(
        choices=[
            (Gate.OFF, "Nothing is said"),
            (Gate.WARN, "It is a warning"),
            (Gate.REFUSE, "It stops publishing until it is accepted"),
        ],
        label="When too few sentences work",
    )
    on_flips = forms.BooleanField(
        required=False, label="Also when one that worked in the last release does not"
    )
    at_least = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=sentences.MAX_SENTENCES,
        label="Sentences that have to work",
        help_text="Empty: any number is enough.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = [(str(each.pk), each.name) for each in judges.live()]
        self.fields["judge"].choices = [(built_in.NAME, "The built-in judge"), *found]  # type: ignore[attr-defined]


class JudgeForm(OperationForm):
    name = forms.CharField(max_length=100, label="Name")
    url = forms.CharField(
        max_length=MAX_URL_LENGTH,
        label="Base address",
        help_text="Such as https://api.openai.com/v1: what stands before /chat/completions.",
    )
    model = forms.CharField(max_length=judges.MAX_MODEL_LENGTH, label="Model")
    key = forms.CharField(
        required=False,
        max_length=judges.MAX_KEY_LENGTH,
        label="API key",
        help_text="It is encrypted and never shown again.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    tries = forms.IntegerField(
        min_value=1, max_value=judges.MAX_TRIES, initial=3, label="Tries for each sentence"
    )
    seconds = forms.IntegerField(
        min_value=1, max_value=judges.MAX_SECONDS, initial=30, label="Seconds that one answer may take"
    )


class RehearsalLinesForm(OperationForm):
    lines = forms.CharField(
        max_length=MAX_LINES_LENGTH,
        label="Several sentences",
        help_text="One on each line: what a user says => tool_name",
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )

    def wanted(self) -> list[Wanted]:
        found = sentences.read_lines(self.cleaned_data["lines"])
        if not found:
            raise DomainError("invalid", "There is no line to add.", fields={"lines": "Write a line."})
        return found
