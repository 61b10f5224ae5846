"""What a designer types about agents, pins and words. The rules live in the operations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

from django import forms
from django.db.models import Exists, QuerySet
from django.forms import BoundField
from django.http import QueryDict
from django.utils import timezone

from catalog.forms.retry_fields import RetryForm
from catalog.models import Tool, ToolVersion, Vendor
from catalog.models.findings import FindingState
from catalog.review import holds
from catalog.rules import retries
from catalog.rules.retries import RetryPolicy, Stated
from catalog.tools.versions import stopping
from core import slugs
from core.errors import DomainError
from designer import agent_budgets, transfers
from designer.agents import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH
from designer.errors import NameTakenError
from designer.models import Agent, Pin, Transfer
from designer.procedures import references
from designer.procedures.editing import MAX_REASON_LENGTH, MAX_TITLE_LENGTH
from designer.procedures.references import Vocabulary
from designer.releases import channels, retiring
from designer.releases.publishing import MAX_NOTE_LENGTH
from designer.signatures import model_names
from designer.vendor_usage import VendorUse
from people import teams
from people.audit.edit_conflicts import Difference
from people.forms import ExplainedChoiceField, OperationForm
from people.models import CALLS_AT_ONCE, MAX_CALLS_AT_ONCE, Scope, Team, User

KEY_LIFETIMES = {30: "30 days", 90: "90 days", 180: "180 days", 366: "One year"}
# What one choice on the page stands for.
KEY_SCOPES = {
    "runtime": [Scope.RUNTIME],
    "invoke": [Scope.RUNTIME, Scope.INVOKE],
    "read": [Scope.READ],
    "design": [Scope.DESIGN],
    "admin": [Scope.ADMIN],
}
KEY_CHOICES = [
    ("runtime", "Runtime", "Reads published releases and nothing else. For an agent in production."),
    ("invoke", "Runtime that runs tools", "Also runs the tools of the agents ticked below, if you may."),
    ("read", "Read", "Reads whatever you may read."),
    ("design", "Design", "Also edits agents, if you may."),
    ("admin", "Everything", "May do whatever you may do."),
]
MAX_FILE_BYTES = 1_000_000
COUNTED_TEXTAREA = {"data-counted": "", "rows": 4}


def offer(form: forms.Form, name: str, rows: QuerySet[Any]) -> None:
    """What one person may choose there."""
    form.fields[name].queryset = rows  # type: ignore[attr-defined]


class AgentForm(OperationForm):
    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    slug = forms.CharField(
        max_length=slugs.MAX_LENGTH,
        required=False,
        label="Address",
        help_text="Made from the name if you leave it out.",
    )
    description = forms.CharField(
        max_length=MAX_DESCRIPTION_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What this agent is for.",
    )
    parent = forms.ModelChoiceField(
        queryset=Agent.objects.none(),
        required=False,
        to_field_name="slug",
        label="Sub-agent of",
        empty_label="No other agent",
    )
    team = forms.ModelChoiceField(
        queryset=Team.objects.none(),
        to_field_name="slug",
        empty_label=None,
        help_text="Its people see this agent and work on it. A sub-agent goes with its parent.",
    )

    def __init__(self, *args: Any, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "parent", Agent.objects.active().visible_to(actor))
        own = Team.objects.open_to(actor)
        offer(self, "team", own)
        if len(own[:2]) < 2:  # a company of one team need not think of it
            del self.fields["team"]

    def facts(self) -> dict[str, Any]:
        # A parent decides the team, so none is given with one.
        given = {"team": None, **self.cleaned_data}
        return given | {"team": None} if given["parent"] else given


class AgentEditForm(RetryForm, AgentForm):
    """`named` are the vendors that are named for the agent; removed ones stay on offer."""

    limits_vendors = forms.BooleanField(required=False, label="Only the vendors ticked here")
    vendors = forms.ModelMultipleChoiceField(
        queryset=Vendor.objects.none(), required=False, to_field_name="slug", label="Which vendors it may use"
    )

    def __init__(self, *args: Any, named: Sequence[Vendor], retry: Stated, **kwargs: Any) -> None:
        kwargs["initial"] |= {"vendors": [vendor.slug for vendor in named]}
        super().__init__(*args, **kwargs)
        live = Vendor.objects.filter(removed_at=None)
        offered = live | Vendor.objects.filter(pk__in=[vendor.pk for vendor in named])
        offer(self, "vendors", offered.order_by("name", "pk"))
        self.add_retry(retry, None)

    def ticks(self) -> list[tuple[Vendor, bool]]:
        ticked = set(self["vendors"].value() or ())
        return [(vendor, vendor.slug in ticked) for vendor in self.fields["vendors"].queryset]  # type: ignore[attr-defined]

    def plain_fields(self) -> list[BoundField]:
        apart = {"limits_vendors", "vendors", *RetryPolicy.__struct_fields__}
        return [field for field in self if field.name not in apart]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        was_limited = self.initial.get("limits_vendors")
        if given.get("vendors") and not given.get("limits_vendors") and not was_limited:
            self.add_error("vendors", "Tick “Only the vendors ticked here” as well, or no vendor.")
        return given

    def facts(self) -> dict[str, Any]:
        given = super().facts()
        is_limited = given.pop("limits_vendors")
        rest = {name: value for name, value in given.items() if name not in RetryPolicy.__struct_fields__}
        return rest | {"vendors": list(given["vendors"]) if is_limited else None, "retry": self.retry()}


class PinRetryForm(RetryForm):
    """What a call of one pinned tool does that fails; empty fields go by its agent and its endpoint."""

    def __init__(self, *args: Any, pin: Pin, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        below = retries.resolved(agent=pin.agent.retry, endpoint=pin.tool.endpoint.retry)
        self.add_retry(pin.retry, below)


class TokenLimitForm(OperationForm):
    limit = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=agent_budgets.MAX_TOKENS,
        label="Tokens that tools and procedures may take",
    )
    stops = forms.BooleanField(required=False, label="More than that stops publishing")


class CopyAgentForm(OperationForm):
    name = forms.CharField(max_length=MAX_NAME_LENGTH, label="Name of the copy")
    with_sub_agents = forms.BooleanField(required=False, label="Copy its sub-agents too")

    def __init__(self, *args: Any, has_sub_agents: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not has_sub_agents:
            del self.fields["with_sub_agents"]


class AgentImportForm(OperationForm):
    """The first press sends a file; the second one the text of it, which the page has kept."""

    file = forms.FileField(
        required=False,
        label="File of an agent",
        help_text="Another Pegboard gives one out on the page where an agent is edited.",
        widget=forms.ClearableFileInput(attrs={"accept": ".json,application/json"}),
    )
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    act = forms.ChoiceField(choices=[("check", "Check"), ("import", "Import")], widget=forms.HiddenInput)
    accept_missing = forms.BooleanField(required=False, widget=forms.HiddenInput)
    team = forms.ModelChoiceField(queryset=Team.objects.none(), to_field_name="slug", empty_label=None)

    def __init__(self, *args: Any, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor = actor
        own = Team.objects.open_to(actor)
        offer(self, "team", own)
        if len(own[:2]) < 2:
            del self.fields["team"]

    def document(self) -> bytes:
        """Raises DomainError where neither is there."""
        if sent := self.cleaned_data["file"]:
            body: bytes = sent.read(MAX_FILE_BYTES + 1)
            return body
        if not self.cleaned_data["text"]:
            raise DomainError("invalid", "Choose a file.", fields={"file": "Choose a file."})
        return str(self.cleaned_data["text"]).encode()


class NewProcedureForm(OperationForm):
    title = forms.CharField(
        max_length=MAX_TITLE_LENGTH, help_text="What it is for, in a few words: “Refill a prescription”."
    )


class ProcedureForm(OperationForm):
    title = forms.CharField(max_length=MAX_TITLE_LENGTH)
    body = forms.CharField(
        required=False,
        strip=False,
        label="Text",
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "true", "data-procedure": ""}),
    )
    why = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        required=False,
        label="What you changed, for the history",
    )

    def __init__(self, *args: Any, known: Vocabulary, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = known

    def field_for(self, path: str) -> str:
        return "body" if path == "text" else path

    def theirs(self, name: str, value: object) -> object:
        return references.shown(references.parse(str(value), self.known)) if name == "body" else value

    def late_rows(self) -> list[tuple[str, Difference]]:
        # The text is compared by names, as the user types it, and not by identities.
        def named(value: Any) -> Any:
            return references.shown(references.parse(value, self.known)) if isinstance(value, str) else value

        return [
            (label, Difference(each.path, named(each.before), named(each.theirs), named(each.yours)))
            for label, each in super().late_rows()
        ]


class TeamForm(OperationForm):
    name = forms.CharField(max_length=teams.MAX_NAME_LENGTH)


class MemberForm(OperationForm):
    person = forms.ModelChoiceField(
        queryset=User.objects.none(), to_field_name="username", empty_label="Choose a person"
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "person", User.objects.filter(is_active=True).exclude(teams=team))


class MovedAgentForm(OperationForm):
    """An agent of another team; its sub-agents come along."""

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.none(), to_field_name="slug", empty_label="Choose an agent"
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "agent", Agent.objects.active().filter(parent=None).exclude(team=team))


class RemovalForm(OperationForm):
    """What is in use asks for its name, so that it is not removed by one press too many."""

    name = forms.CharField(max_length=2_048)
    with_credentials = forms.BooleanField(required=False)
    why = forms.CharField(
        max_length=500, required=False, help_text="For the audit trail.", label="Why it is removed"
    )

    def __init__(self, *args: Any, name: str, use: VendorUse, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wanted = name
        self.fields["name"].label = f"Type “{name}” to confirm"
        if not use.is_used:
            del self.fields["name"]
        spare = ", ".join(f"“{credential}”" for credential in use.credentials)
        self.fields["with_credentials"].label = f"Forget the secret of {spare} too"
        self.fields["with_credentials"].help_text = "Nothing else uses it."
        if not spare:
            self.fields["with_credentials"].widget = forms.HiddenInput()

    def clean_name(self) -> str:
        typed: str = self.cleaned_data["name"]
        if typed != self.wanted:
            raise forms.ValidationError(f"This is not its name. Type “{self.wanted}”.")
        return typed


class WhenForm(OperationForm):
    at = forms.DateTimeField(
        required=False,
        label="At (UTC)",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": 1}),
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"],
    )


class PinForm(OperationForm):
    """Which agent gets a tool, and in which version."""

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.none(), required=False, to_field_name="slug", empty_label="A new agent"
    )
    agent_name = forms.CharField(max_length=MAX_NAME_LENGTH, required=False, label="Name of the new agent")
    alias = forms.CharField(
        max_length=model_names.MAX_LENGTH, required=False, strip=True, label="What the model calls it"
    )
    ordinal = forms.TypedChoiceField(coerce=int, label="Version")

    def __init__(self, *args: Any, tool: Tool, actor: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "agent", Agent.objects.active().visible_to(actor))
        choices: list[tuple[int | str, str]] = [*version_choices(tool)]
        first = first_offered(tool)
        if first is None:
            choices.insert(0, ("", "Choose a version"))
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
            self.add_error("agent_name", "Name the new agent, or choose one above.")
        return cleaned


def first_offered(tool: Tool) -> int | None:
    """The ordinal of the current version if it may be pinned, else of the newest that may be, if any."""
    ordinals = dict(tool.versions.exclude(Exists(stopping())).values_list("pk", "ordinal"))
    return ordinals.get(tool.current_id or 0) or next(iter(ordinals.values()), None)


def version_choices(tool: Tool) -> list[tuple[int, str]]:
    # Newest first.
    words = version_words(tool.versions.defer("signature", "raw"))
    review_states = holds.review_states(version for version, *_ in words)
    choices = []
    for version, word, _ in words:
        remark = " (current)" if version.pk == tool.current_id else ""
        if state := review_states.get(version.pk):
            remark = " (blocked)" if state == FindingState.BLOCKED else " (waits for review)"
        choices.append((version.ordinal, word + remark))
    return choices


class VersionWord(NamedTuple):
    """`address` names the version in the address of a page: by the vendor's label where that is enough."""

    version: ToolVersion
    word: str
    address: str


def version_words(versions: Iterable[ToolVersion]) -> list[VersionWord]:
    """Each with its name for people. Two of the same name get the beginning of the digest."""
    rows = list(versions)
    named, labels = Counter(row.name for row in rows), Counter(row.label for row in rows)
    return [
        VersionWord(
            row,
            f"Version {row.name}" if named[row.name] == 1 else f"Version {row.name}, {row.digest[:6]}",
            f"v{row.label}" if row.label and labels[row.label] == 1 else str(row.ordinal),
        )
        for row in rows
    ]


class AliasForm(OperationForm):
    """What the model calls a pinned tool; as it was typed, when it was refused."""

    alias = forms.CharField(required=False, strip=False)


class TransferForm(OperationForm):
    """What a model is told about handing over to one sub-agent; an empty box takes the default."""

    name = forms.CharField(max_length=model_names.MAX_LENGTH, required=False, label="What the model calls it")
    description = forms.CharField(
        max_length=transfers.MAX_DESCRIPTION_LENGTH,
        required=False,
        label="When to hand over",
        help_text="The model reads this beside the tools. Empty: the first sentence about the sub-agent.",
        widget=forms.Textarea(attrs=COUNTED_TEXTAREA),
    )

    def __init__(self, *args: Any, transfer: Transfer, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.transfer = transfer
        default = transfer.name if not transfer.alias else ""
        self.fields["name"].widget.attrs |= {
            "placeholder": default,
            "autocomplete": "off",
            "spellcheck": "false",
        }

    def field_for(self, path: str) -> str:
        return "name" if path == "alias" else path

    def theirs(self, name: str, value: object) -> object:
        if name == "description" and not value:
            return transfers.default_description(self.transfer.child)
        return value


class MovePinsForm(OperationForm):
    """Which pins of a tree go to which of its agents."""

    pins = forms.ModelMultipleChoiceField(
        queryset=Pin.objects.none(), error_messages={"required": "Tick the tools to move."}
    )
    to = forms.ModelChoiceField(
        queryset=Agent.objects.none(), to_field_name="slug", label="Move to", empty_label="Choose an agent"
    )
    alias = forms.CharField(
        max_length=model_names.MAX_LENGTH, required=False, label="What the model calls it there"
    )

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


class MoveAgentForm(OperationForm):
    """Another parent for one agent of a tree; none makes it a root."""

    agent = forms.ModelChoiceField(queryset=Agent.objects.none(), to_field_name="slug")
    parent = forms.ModelChoiceField(queryset=Agent.objects.none(), to_field_name="slug", required=False)

    def __init__(self, *args: Any, tree: Sequence[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Agent.objects.filter(pk__in=[row.pk for row in tree])
        offer(self, "agent", rows)
        offer(self, "parent", rows)


class PublishForm(OperationForm):
    note = forms.CharField(
        max_length=MAX_NOTE_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What changed, for the people who roll this out.",
    )
    seen = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)
    # The channel that is to lead to it, by the button that was pressed; `led_to` is where it led before.
    channel = forms.CharField(max_length=30, required=False, widget=forms.HiddenInput)
    led_to = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)

    reason = forms.CharField(
        max_length=MAX_NOTE_LENGTH,
        required=False,
        label="Why publish anyway",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def accepted(self) -> list[str]:
        """The codes of the failed checks that the page showed."""
        return self.data.getlist("accept") if isinstance(self.data, QueryDict) else []

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"].strip()
        if self.accepted() and not reason:
            raise forms.ValidationError("Say why it is published although a check failed.")
        return reason

    def facts(self) -> dict[str, Any]:
        given = dict(self.cleaned_data)
        return given | {"expected": given.pop("led_to"), "accept": self.accepted()}


class MoveChannelForm(OperationForm):
    """`led_to` is where the channel led when the page was opened; release 0 closes it."""

    release = forms.IntegerField(min_value=0)
    led_to = forms.IntegerField(min_value=0)
    note = forms.CharField(max_length=channels.MAX_NOTE_LENGTH, required=False)


class RetireForm(OperationForm):
    """`name` is asked for a release that is in use."""

    reason = forms.CharField(
        max_length=retiring.MAX_REASON_LENGTH,
        label="Why",
        help_text="It stands on the release and in the audit trail, and builds read it when they check.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    sunset_at = forms.DateTimeField(
        required=False,
        label="Answers API keys until (UTC)",
        help_text="Left empty, it goes on answering, and says that it is retired.",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )
    name = forms.CharField(max_length=300, required=False)

    def __init__(self, *args: Any, name: str, is_in_use: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = f"Type “{name}” to retire it although it is in use"
        if not is_in_use:
            del self.fields["name"]


class KeyForm(OperationForm):
    """`agents` are those that the owner may name, with their depth in the tree."""

    name = forms.CharField(
        max_length=100, help_text="What will use it, so that you know it again: “Order agent, production”."
    )
    scope = ExplainedChoiceField(KEY_CHOICES, initial="runtime", label="What it may do")
    agents = forms.MultipleChoiceField(required=False, label="Which agents it reaches")
    calls_at_once = forms.IntegerField(
        min_value=1,
        max_value=MAX_CALLS_AT_ONCE,
        initial=CALLS_AT_ONCE,
        label="Calls at once",
        required=False,
        help_text="How many calls of tools may be under way with it. More are refused.",
    )
    days = forms.TypedChoiceField(
        choices=list(KEY_LIFETIMES.items()), coerce=int, initial=90, label="Stops working after"
    )

    def __init__(self, *args: Any, agents: Sequence[tuple[int, Agent]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tree = agents
        self.fields["agents"].choices = [(row.slug, row.name) for _, row in agents]  # type: ignore[attr-defined]
        self.fields["agents"].help_text = (
            "Tick none and a key with the runtime scope reads all releases you may see. One that runs tools "
            "needs at least one tick. A sub-agent is ticked by itself."
            if agents
            else "There is no agent yet. A key with the runtime scope reads all releases you may see."
        )

    def named(self) -> list[tuple[int, Agent, bool]]:
        """Each agent with its depth, and whether it is ticked."""
        ticked = self["agents"].value() or []
        return [(depth, row, row.slug in ticked) for depth, row in self.tree]

    def facts(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "name": given["name"],
            "scopes": KEY_SCOPES[given["scope"]],
            "expires_at": timezone.now() + timedelta(days=given["days"]),
            "agents": [row for _, row in self.tree if row.slug in given["agents"]],
            "calls_at_once": given["calls_at_once"] or CALLS_AT_ONCE,
        }
