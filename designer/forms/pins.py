from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from django import forms
from django.db.models import Exists
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.forms.retry_fields import RetryForm
from catalog.models import Configuration, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.rules import retries
from catalog.tools.versions import about_version
from core.errors import DomainError
from designer.errors import NameTakenError
from designer.forms.base import offer
from designer.models import Agent, Pin
from designer.models.pins import PinMode
from execution.threads import configurations
from people.forms import ExplainedChoiceField, ModelOperationForm, OperationForm, form_field
from people.models import User


class PinRetryForm(RetryForm):
    """The retry policy of one pinned tool; empty fields inherit from its agent and its endpoint."""

    def __init__(self, *args: Any, pin: Pin, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        below = retries.resolve_policy(agent=pin.agent.retry, endpoint=pin.tool.endpoint.retry)
        self.add_retry(pin.retry, below)


class PinModeForm(OperationForm):
    """The mode of a pinned tool: runtimes see its pinned signature, or the current one."""

    mode = ExplainedChoiceField(
        [
            (
                PinMode.CACHED,
                _("As published"),
                _("Runtimes get the tool of the release, whatever the vendor changes."),
            ),
            (
                PinMode.FRESH,
                _("Follow the vendor"),
                _(
                    "A runtime that asks also gets the optional inputs and the outputs that the vendor has "
                    "added since, with your texts. Changes of what was there, and changes that would break "
                    "calls, raise an alarm or wait for review, are left out."
                ),
            ),
        ],
        label=Pin._meta.get_field("mode").verbose_name,
    )

    def __init__(self, *args: Any, pin: Pin, **kwargs: Any) -> None:
        super().__init__(*args, initial={"mode": pin.mode}, **kwargs)


class ConfigurationNameForm(ModelOperationForm):
    class Meta:
        model = Configuration
        fields = ("name",)


class PinConfigurationForm(OperationForm):
    """The fixed values of every call of one pinned tool."""

    configuration = forms.ChoiceField(
        required=False,
        label=_("Configuration of every call"),
        help_text=_(
            "The model does not see this input. The chosen value stays, even if another one is stored under "
            "its name later."
        ),
    )

    def __init__(self, *args: Any, pin: Pin, **kwargs: Any) -> None:
        now = str(pin.configuration) if pin.configuration else ""
        super().__init__(*args, initial={"configuration": now}, **kwargs)
        options = [str(row) for row in configurations.newest(pin.tool)]
        choices_kept = [now, *(row for row in options if row != now)] if now else options
        choices = [("", _("None, set by each call")), *((row, row) for row in choices_kept)]
        self.fields["configuration"].choices = choices  # type: ignore[attr-defined]


class PinForm(OperationForm):
    """The agent that gets a tool, and the version of it."""

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.none(), required=False, to_field_name="slug", empty_label=_("A new agent")
    )
    agent_name = form_field(Agent._meta.get_field("name"), required=False, label=_("Name of the new agent"))
    alias = form_field(Pin._meta.get_field("alias"))
    ordinal = forms.TypedChoiceField(coerce=int, label=_("Version"))

    def __init__(self, *args: Any, tool: Tool, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "agent", Agent.objects.active().visible_to(actor))
        choices: list[tuple[int | str, str]] = [*version_choices(tool)]
        first = first_offered(tool)
        if first is None:
            choices.insert(0, ("", gettext("Choose a version")))
        self.fields["ordinal"].choices = choices  # type: ignore[attr-defined]
        self.fields["ordinal"].initial = "" if first is None else first

    @property
    def asks_for_a_name(self) -> bool:
        return bool(self["alias"].value() or self["alias"].errors)

    def refuse(self, error: DomainError) -> None:
        # A name that is free is proposed in the field, for a person to take or to change.
        if isinstance(error, NameTakenError) and not self.cleaned_data.get("alias"):
            self.data = data = cast(QueryDict, self.data).copy()
            data["alias"] = error.proposal
        super().refuse(error)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not cleaned.get("agent") and not cleaned.get("agent_name"):
            self.add_error("agent_name", _("Name the new agent, or choose one above."))
        return cleaned


def first_offered(tool: Tool) -> int | None:
    """Return the ordinal of the current version if it may be pinned, else of the newest that may be."""
    ordinals = dict(
        tool.versions.exclude(Exists(about_version().refusing_pins())).values_list("pk", "ordinal")
    )
    return ordinals.get(tool.current_id or 0) or next(iter(ordinals.values()), None)


def version_choices(tool: Tool) -> list[tuple[int, str]]:
    # Newest first.
    words = version_words(tool.versions.defer("signature", "raw"))
    review_states = holds.pinning_states(version for version, *_ in words)
    choices = []
    for version, word, _address in words:
        text = "{version}"
        if state := review_states.get(version.pk):
            is_blocked = state == FindingState.BLOCKED
            text = gettext("{version} (blocked)") if is_blocked else gettext("{version} (waits for review)")
        elif version.pk == tool.current_id:
            text = gettext("{version} (current)")
        choices.append((version.ordinal, text.format(version=word)))
    return choices


class VersionWord(NamedTuple):
    """A version as a choice. `address` names the version in the address of a page: by the vendor's label
    where that is enough.
    """

    version: ToolVersion
    word: str
    address: str


def version_words(versions: Iterable[ToolVersion]) -> list[VersionWord]:
    """Return each version with its label. Versions with the same name also show their digest."""
    rows = list(versions)
    name_counts, labels = Counter(row.name for row in rows), Counter(row.label for row in rows)
    return [
        VersionWord(
            row,
            _("Version {name}").format(name=row.name)
            if name_counts[row.name] == 1
            else _("Version {name}, {digest}").format(name=row.name, digest=row.digest[:6]),
            f"v{row.label}" if row.label and labels[row.label] == 1 else str(row.ordinal),
        )
        for row in rows
    ]


class AliasForm(OperationForm):
    """The name of a pinned tool for models; as entered if it was refused."""

    alias = forms.CharField(required=False, strip=False)


class MovePinsForm(OperationForm):
    """The pins of a tree to move, each to one of its agents."""

    pins = forms.ModelMultipleChoiceField(
        queryset=Pin.objects.none(), error_messages={"required": _("Select the tools to move.")}
    )
    to = forms.ModelChoiceField(
        queryset=Agent.objects.none(),
        to_field_name="slug",
        label=_("Move to"),
        empty_label=_("Choose an agent"),
    )
    alias = form_field(Pin._meta.get_field("alias"), label=_("Name for the model there"))

    def __init__(self, *args: Any, tree: Sequence[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "pins", Pin.objects.live().filter(agent__in=tree).select_related("agent"))
        offer(self, "to", Agent.objects.filter(pk__in=[row.pk for row in tree]))

    def refuse(self, error: DomainError) -> None:
        # A name that is free is proposed in the field, for a designer to take or to change.
        if isinstance(error, NameTakenError) and len(self.cleaned_data["pins"]) == 1:
            self.data = data = cast(QueryDict, self.data).copy()
            data["alias"] = error.proposal
        super().refuse(error)
