from collections.abc import Sequence
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext_lazy as _

from catalog.forms.retry_fields import RetryForm
from catalog.models import Vendor
from catalog.rules.retries import RetryPolicy, Stated
from core.errors import DomainError
from designer.agents import agents
from designer.forms.base import offer
from designer.models import Agent, TokenLimit
from designer.procedures import editing
from designer.procedures.editing import MAX_TEXT_LENGTH
from people.forms import ModelOperationForm, OperationForm, form_field
from people.models import Team, User

MAX_FILE_BYTES = 1_000_000
EXAMPLE = "Look up the order of the customer.\nIf it has not been shipped, cancel it."


class AgentForm(ModelOperationForm):
    parent = form_field(
        Agent._meta.get_field("parent"),
        queryset=Agent.objects.none(),
        to_field_name="slug",
        empty_label=_("No other agent"),
    )
    team = form_field(
        Agent._meta.get_field("team"),
        queryset=Team.objects.none(),
        to_field_name="slug",
        empty_label=None,
        initial=None,
    )

    class Meta:
        model = Agent
        fields = ("name", "slug", "description")
        widgets = {"description": forms.Textarea(attrs={"rows": 3})}

    def __init__(self, *args: Any, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["slug"].required = False
        offer(self, "parent", Agent.objects.active().visible_to(actor))
        open_teams = Team.objects.open_to(actor)
        offer(self, "team", open_teams)
        if len(open_teams[:2]) < 2:  # a company of one team need not think of it
            del self.fields["team"]

    def facts(self) -> dict[str, Any]:
        # A parent decides the team, so none is given with one.
        values = {"team": None, **self.cleaned_data}
        return values | {"team": None} if values["parent"] else values


class NewAgentForm(AgentForm):
    """The form of a new agent. A submitted text, which has a name, becomes its first procedure."""

    text = forms.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        label=_("What should it do?"),
        widget=forms.Textarea(attrs={"rows": 6, "placeholder": EXAMPLE}),
        help_text=_("One sentence per step. Pegboard proposes tools for each."),
    )
    field_order = ("text", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].required = False
        self.fields["name"].help_text = _("If empty, the first words of the text are used.")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if not values.get("name") and "name" not in self.errors:
            values["name"] = editing.title_from(values.get("text", ""))
            if not values["name"]:
                self.add_error("name", _("Enter what the agent should do, or a name."))
        return values

    def folded_fields(self) -> list[BoundField]:
        return [field for field in self if field.name not in ("text", "name")]


class AgentEditForm(RetryForm, AgentForm):
    """The form of an agent's settings. `vendors` are the vendors that are named for the agent; removed ones
    stay on offer.
    """

    limits_vendors = forms.BooleanField(required=False, label=_("Only selected vendors"))
    vendors = forms.ModelMultipleChoiceField(
        queryset=Vendor.objects.none(), required=False, to_field_name="slug", label=_("Vendors")
    )

    def __init__(self, *args: Any, vendors: Sequence[Vendor], retry: Stated, **kwargs: Any) -> None:
        kwargs["initial"] |= {"vendors": [vendor.slug for vendor in vendors]}
        super().__init__(*args, **kwargs)
        live = Vendor.objects.live()
        offered = live | Vendor.objects.filter(pk__in=[vendor.pk for vendor in vendors])
        offer(self, "vendors", offered.order_by("name", "pk"))
        self.add_retry(retry, None)

    def ticks(self) -> list[tuple[Vendor, bool]]:
        ticked = set(self["vendors"].value() or ())
        return [(vendor, vendor.slug in ticked) for vendor in self.fields["vendors"].queryset]  # type: ignore[attr-defined]

    def plain_fields(self) -> list[BoundField]:
        apart = {"limits_vendors", "vendors", *RetryPolicy.__struct_fields__}
        return [field for field in self if field.name not in apart]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        was_limited = self.initial.get("limits_vendors")
        if values.get("vendors") and not values.get("limits_vendors") and not was_limited:
            self.add_error("vendors", _("Select “Only selected vendors” too, or no vendor."))
        return values

    def facts(self) -> dict[str, Any]:
        values = super().facts()
        is_limited = values.pop("limits_vendors")
        agent_values = {
            name: value for name, value in values.items() if name not in RetryPolicy.__struct_fields__
        }
        return agent_values | {
            "vendors": list(values["vendors"]) if is_limited else None,
            "retry": self.retry(),
        }


class TokenLimitForm(ModelOperationForm):
    limit = form_field(TokenLimit._meta.get_field("tokens"), required=False)

    class Meta:
        model = TokenLimit
        fields = ("stops",)


class CopyAgentForm(ModelOperationForm):
    with_sub_agents = form_field(agents.WITH_SUB_AGENTS, help_text="")

    class Meta:
        model = Agent
        fields = ("name",)
        labels = {"name": _("Name of the copy")}

    def __init__(self, *args: Any, has_sub_agents: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not has_sub_agents:
            del self.fields["with_sub_agents"]


class AgentImportForm(OperationForm):
    """The first press sends a file; the second one the text of it, which the page has kept."""

    file = forms.FileField(
        required=False,
        label=_("File of an agent"),
        help_text=_("Download it in another Pegboard on the edit page of the agent."),
        widget=forms.ClearableFileInput(attrs={"accept": ".json,application/json"}),
    )
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    act = forms.ChoiceField(choices=[("check", "Check"), ("import", "Import")], widget=forms.HiddenInput)
    accept_missing = forms.BooleanField(required=False, widget=forms.HiddenInput)
    team = AgentForm.base_fields["team"]

    def __init__(self, *args: Any, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor = actor
        open_teams = Team.objects.open_to(actor)
        offer(self, "team", open_teams)
        if len(open_teams[:2]) < 2:
            del self.fields["team"]

    def document(self) -> bytes:
        """Return the uploaded or pasted file. Raises DomainError if there is neither."""
        if upload := self.cleaned_data["file"]:
            body: bytes = upload.read(MAX_FILE_BYTES + 1)
            return body
        if not self.cleaned_data["text"]:
            message = str(_("Choose a file."))
            raise DomainError("invalid", message, fields={"file": message})
        return str(self.cleaned_data["text"]).encode()


class MoveAgentForm(OperationForm):
    """Another parent for one agent of a tree; none makes it a root."""

    agent = forms.ModelChoiceField(queryset=Agent.objects.none(), to_field_name="slug")
    parent = forms.ModelChoiceField(queryset=Agent.objects.none(), to_field_name="slug", required=False)

    def __init__(self, *args: Any, tree: Sequence[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Agent.objects.filter(pk__in=[row.pk for row in tree])
        offer(self, "agent", rows)
        offer(self, "parent", rows)
