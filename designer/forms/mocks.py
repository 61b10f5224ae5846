"""Forms for the mock of a tool, its calls and assertions."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from designer.environments import mocks
from execution.activities.mocks import situations
from execution.activities.mocks.assertions import ASSERTIONS, Assertion
from execution.activities.mocks.situations import KINDS
from people.forms import OperationForm, form_field
from protocols.signature import Signature

# Bytes of the choices of one field on a page, and of the markup of a choice.
MAX_CHOICE_BYTES, CHOICE_BYTES = 1_500, 35
IS: dict[str, type[Assertion]] = {str(row.__struct_config__.tag): row for row in ASSERTIONS}


def _own_fields() -> dict[str, dict[str, forms.Field]]:
    """Return form fields for the members that a situation has besides its trigger. The API has the rest."""
    return {
        "invalid_input": {"why": forms.CharField(label=_("Error message for the input"), max_length=200)},
        "can_retry": {
            "hint": forms.CharField(label=_("Hint for the model"), max_length=1000),
            "after_ms": forms.IntegerField(
                label=_("Milliseconds until then"), min_value=0, max_value=situations.MAX_SECONDS * 1000
            ),
        },
        "fails_first": {
            "times": forms.IntegerField(
                label=_("Number of failed calls"), min_value=1, max_value=situations.MAX_TIMES
            )
        },
        "authorization": {
            "provider": forms.CharField(label=_("Provider"), max_length=100),
            "polls": forms.IntegerField(
                label=_("Granted at attempt number"),
                min_value=1,
                max_value=situations.MAX_POLLS,
            ),
        },
        "interrupt": {},
        "unavailable": {
            "retry_after": forms.IntegerField(
                label=_("Seconds until it is available again"), min_value=0, max_value=situations.MAX_SECONDS
            )
        },
        "slow": {
            "seconds": forms.FloatField(label=_("Seconds"), min_value=0.1, max_value=situations.MAX_SECONDS)
        },
    }


class SeedForm(OperationForm):
    seed = form_field(mocks.SEED, required=True)


class SituationForm(OperationForm):
    """One kind of situation: for all calls, or for those of which one input looks so."""

    def __init__(self, *args: Any, kind: str, signature: Signature, **kwargs: Any) -> None:
        super().__init__(*args, prefix=kind, **kwargs)
        self.kind = kind
        self.label = _(KINDS[kind].label)
        own_fields = _own_fields().get(kind, {})
        defaults = dict(zip(KINDS[kind].__struct_fields__, KINDS[kind].__struct_defaults__, strict=False))
        for name, field in own_fields.items():
            field.required = name in ("seconds",)
            field.initial = defaults.get(name)
            self.fields[name] = field
        if kind == "interrupt":
            self.fields["message"] = forms.CharField(label=_("Question"), max_length=500, required=False)
        self.input_names = [row.name for row in signature.inputs]
        self.fields["input"] = self._input_field()
        self.fields["like"] = forms.CharField(
            label=_("whose value is"),
            required=False,
            max_length=200,
            help_text=_("* matches any characters. Only with an input."),
        )

    def _input_field(self) -> forms.Field:
        label = _("For")
        # Each kind of situation repeats the choices.
        if sum(2 * len(name.encode()) + CHOICE_BYTES for name in self.input_names) > MAX_CHOICE_BYTES:
            help_text = _("The name of an input. Leave it empty for every call.")
            return forms.CharField(label=label, required=False, help_text=help_text)
        names = [(name, name) for name in self.input_names]
        return forms.ChoiceField(label=label, required=False, choices=[("", _("every call")), *names])

    def clean_input(self) -> str:
        name: str = self.cleaned_data["input"]
        if name and name not in self.input_names:
            raise forms.ValidationError(_("The tool has no input with this name."))
        return name

    def situation(self) -> dict[str, Any]:
        """Return the situation to store, once the form is valid."""
        values = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        name, like, reason = values.pop("input", ""), values.pop("like", "*"), values.pop("why", "")
        members: dict[str, Any] = {"name": self.kind, **values}
        members |= {"when": {name: like}} if name else {"switch": True}
        if reason and name:
            members["parameter_errors"] = {name: reason}
        elif reason:
            members["message"] = reason
        return members


class AssertionForm(OperationForm):
    def __init__(self, *args: Any, names: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(name, name) for name in names]
        self.fields["tool"] = forms.ChoiceField(choices=choices)
        self.fields["is"] = forms.ChoiceField(
            label=_("Rule"), choices=[(name, _(assertion.label)) for name, assertion in IS.items()]
        )
        self.fields["other"] = forms.ChoiceField(
            label=_("Other tool"), required=False, choices=[("", _("No other tool")), *choices]
        )
        self.fields["times"] = forms.IntegerField(
            label=_("Number of calls"),
            required=False,
            min_value=1,
            max_value=1000,
            help_text=_("For “is called”. If empty, at least once."),
        )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("is") == "before" and not cleaned.get("other"):
            self.add_error("other", _("Choose the tool that is called later."))
        return cleaned

    def assertion(self) -> dict[str, Any]:
        values = self.cleaned_data
        own_fields = {"before": ("other",), "called": ("times",)}.get(values["is"], ())
        return {
            "is": values["is"],
            "tool": values["tool"],
            **{name: values[name] for name in own_fields if values[name]},
        }


class LogForm(forms.Form):
    """The choice of the calls to show and to judge."""

    key = forms.ChoiceField(label=gettext_lazy("API key"), required=False)
    environment = form_field(mocks.ENVIRONMENT)
    tool = forms.ChoiceField(label=mocks.TOOL.verbose_name, required=False)
    since = forms.DateTimeField(
        label=gettext_lazy("Since"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, names: list[str], keys: list[tuple[int, str]], **kwargs: Any) -> None:
        kwargs.setdefault("label_suffix", "")
        super().__init__(*args, **kwargs)
        self.fields["tool"].choices = [("", _("All tools")), *((name, name) for name in names)]  # type: ignore[attr-defined]
        self.fields["key"].choices = [("", _("Any key")), *((str(pk), name) for pk, name in keys)]  # type: ignore[attr-defined]

    def filters(self) -> dict[str, Any]:
        values = {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}
        return values | ({"key": int(values["key"])} if "key" in values else {})
