from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool, ToolVersion
from catalog.models.tools import ToolStatus
from catalog.rules.sensitive_values import strike
from core.errors import DomainError
from core.serializers import Input, ModelOutput, valid_data
from designer.api.agents import chosen_agent
from designer.api.asked_releases import NUMBER, find_listed_release
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Receipt, Release, Retirement
from designer.models.pins import PinMode
from designer.pins import masking
from designer.releases import (
    binding_snapshots,
    channels,
    lock_file,
    receipts,
    recorded_bindings,
    release_access,
    retiring,
)
from designer.releases.lock_file import CatalogOffer, ReleaseRetirement
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import key_of, person

MAX_TOOLS = 5_000


class LockedTool(Input):
    agent = serializers.CharField(
        max_length=60,
        required=False,
        help_text="The sub-agent that shows it; absent for the agent's own tools.",
    )
    name = serializers.CharField(max_length=64)
    vendor = serializers.CharField(max_length=60)
    tool_id = serializers.CharField(max_length=2_000)
    version = serializers.CharField(max_length=255, allow_blank=True)
    ordinal = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    digest = serializers.RegexField("^[0-9a-f]{64}$")
    tuned = serializers.BooleanField()
    mode = serializers.ChoiceField(
        choices=PinMode.values,
        required=False,
        help_text="`fresh` where the tool follows its vendor; absent for all others.",
    )


class LockedBinding(Input):
    agent = serializers.CharField(max_length=60)
    tool = serializers.CharField(max_length=64)
    runs = serializers.ChoiceField(choices=["activity", "latent", "nothing"])
    activity = serializers.IntegerField(allow_null=True)
    activity_name = serializers.CharField(max_length=150, allow_blank=True)
    activity_version = serializers.IntegerField(allow_null=True)
    digest = serializers.CharField(max_length=64, allow_blank=True)


class LockFile(Input):
    """`pegboard.lock.json`, to commit beside the code that was built against the release."""

    schema = serializers.ChoiceField(choices=[lock_file.SCHEMA])
    agent = serializers.CharField(max_length=60)
    channel = serializers.RegexField(
        f"^{channels.NAME.pattern}$",
        allow_null=True,
        help_text="The channel that it was read by; null for a number or a digest.",
    )
    release = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    digest = serializers.RegexField("^sha256:[0-9a-f]{64}$")
    tools = LockedTool(many=True, max_length=MAX_TOOLS)  # type: ignore[call-arg]
    environment = serializers.CharField(
        max_length=60,
        required=False,
        allow_blank=True,
        help_text="The default environment, of which `bindings` are; empty where the agent has none.",
    )
    bindings = LockedBinding(
        many=True,
        required=False,
        help_text=(
            "The activity that ran at publishing, for each tool that did not run at its vendor; "
            "absent if there was none."
        ),
    )


_MOVED: dict[str, Any] = {
    "code": serializers.CharField(),
    "class": serializers.ChoiceField(choices=["breaking", "notice", "compatible"]),
    "tool": serializers.CharField(
        help_text="The name of the tool or transfer; empty for what is about the whole or a sub-agent."
    ),
    "message": serializers.CharField(),
}
# One of the members is a word of Python's, so no class can declare it.
MovedOutput = type("MovedOutput", (serializers.Serializer,), _MOVED)


class CheckedLock(serializers.Serializer[Any]):
    status = serializers.ChoiceField(
        choices=["current", "behind", "breaking"], help_text="The most serious difference."
    )
    locked = serializers.IntegerField(help_text="The release that the file names.")
    release = serializers.IntegerField(
        allow_null=True, help_text="The release that the channel points to now; null for none."
    )
    channel = serializers.CharField(help_text="The channel that the file names, or `live`.")
    changes = MovedOutput(many=True)


@extend_schema(tags=["runtimes"])
class ReleaseLock(GenericAPIView[Release]):
    runtime = True
    serializer_class = LockFile

    @extend_schema(operation_id="agents_releases_lock_retrieve", parameters=[NUMBER])
    def get(self, request: Request, slug: str, number: str) -> Response:
        release = find_listed_release(request, slug, number, hands_out=True)
        receipts.record_read(key_of(request), release, surface="lock", name=number)
        document = release_document.decode(release.document)
        lock = lock_file.lock(
            document,
            digest=release.digest,
            channel=receipts.channel_in(number),
            bindings=release.bindings,
        )
        disposition = 'attachment; filename="pegboard.lock.json"'
        return Response(lock, headers={"Content-Disposition": disposition})


@extend_schema(tags=["runtimes"])
class AgentCheck(GenericAPIView[Agent]):
    """The changes since a lock file was written. Nothing is stored."""

    roles = {"POST": Role.VIEWER}
    only_reads = runtime = True
    serializer_class = CheckedLock
    queryset = Agent.objects.none()

    @extend_schema(operation_id="agents_check", request=LockFile, responses=CheckedLock)
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(LockFile(data=request.data))
        digest, channel = (
            values["digest"],
            values["channel"] or channels.LIVE,
        )
        rows = agent.releases.select_related("retirement")
        locked_release = rows.filter(**(release_access.release_conditions(digest) or {})).first()
        if locked_release is None:
            message = f"“{agent}” has no release with this digest: the lock file is of another agent."
            raise DomainError("unknown_release", message, status=409)
        locked = release_document.decode(locked_release.document)
        release = channels.state(agent, channel).release
        now = release_document.decode(release.document) if release else None
        moved = lock_file.list_changes(
            locked, now, _read_offers(locked), channel=channel, retired=_retirement_of(locked_release)
        )
        if locked_release.bindings:
            moved += lock_file.moved_bindings(
                locked_release.bindings, binding_snapshots.read_bindings(agent.pk, locked)
            )
        texts = masking.sensitive_presets([locked, *([now] if now else [])])
        changes = [
            {**asdict(row), "message": strike(row.message, texts), "class": row.class_} for row in moved
        ]
        answer = {
            "status": lock_file.status(moved),
            "locked": locked_release.number,
            "release": release.number if release else None,
            "channel": channel,
            "changes": changes,
        }
        return Response(CheckedLock(answer).data)


def _retirement_of(release: Release) -> ReleaseRetirement | None:
    row: Retirement | None = getattr(release, "retirement", None)
    if row is None:
        return None
    succeeds = retiring.successor(release)
    until = row.sunset_at.date().isoformat() if row.sunset_at else ""
    return ReleaseRetirement(
        row.reason, until, is_over=row.is_over, successor=succeeds.number if succeeds else None
    )


def _read_offers(locked_release: ReleaseDocument) -> dict[int, CatalogOffer]:
    tools = Tool.objects.filter(pk__in=[tool.id for tool in locked_release.all_items])
    version_keys = {(tool.id, tool.version.ordinal) for tool in locked_release.all_items}
    rows = ToolVersion.objects.filter(tool__in=[tool.id for tool in locked_release.all_items]).defer(
        "signature", "raw"
    )
    old = {row.tool_id: row for row in rows if (row.tool_id, row.ordinal) in version_keys}
    offers = {}
    for tool in tools.select_related("current", "endpoint__vendor"):
        is_removed = tool.endpoint.removed_at or tool.endpoint.vendor.removed_at
        is_gone = is_removed or tool.status == ToolStatus.WITHDRAWN
        if tool.current is None or is_gone:
            offers[tool.pk] = CatalogOffer(None, is_newer=False)
            continue
        was = old.get(tool.pk)
        # By the vendor's own order: an older version that was read late is no news.
        is_newer = was is not None and _version_order(tool.current) > _version_order(was)
        offers[tool.pk] = CatalogOffer(tool.current.name, is_newer=is_newer)
    return offers


def _version_order(version: ToolVersion) -> tuple[list[int], int]:
    return list(version.label_key), version.ordinal


class RecordedActivityOutput(serializers.Serializer[Any]):
    """The activity version that ran for a tool in the default environment when a release was published."""

    agent = serializers.CharField(help_text="The slug of the agent whose tool it is.")
    tool = serializers.CharField(help_text="The name of the tool in the release.")
    activity = serializers.IntegerField(help_text="The id of the activity.")
    activity_name = serializers.CharField()
    activity_version = serializers.IntegerField()
    runs = serializers.CharField(help_text="Always `activity`.")
    digest = serializers.CharField(help_text="The digest of this version.")


class ReceiptOutput(ModelOutput[Receipt]):
    key = serializers.CharField(source="key.name")
    owner = serializers.CharField(source="key.user.username")
    release = serializers.IntegerField(source="release.number")
    channel = serializers.CharField(
        help_text="The channel by which it was requested; empty for a number or a digest."
    )
    surface = serializers.CharField(
        help_text="The name of a format, or `bundle`, `agents`, `procedures`, `lock`, `invoke`, `serve/mcp`; "
        "behind the slug of a sub-agent if it is about that one: `refills/mcp`."
    )
    activities = serializers.SerializerMethodField(
        help_text="The activity versions that the release recorded for its tools."
    )

    class Meta:
        model = Receipt
        fields = ["key", "owner", "release", "channel", "surface", "first_at", "last_at", "activities"]

    @extend_schema_field(RecordedActivityOutput(many=True))
    def get_activities(self, row: Receipt) -> list[dict[str, Any]]:
        return recorded_bindings.list_activities(row.release.bindings)


class ReceiptOfKeyOutput(ReceiptOutput):
    """One surface and channel by which a key reads an agent. `live`: the release that `live` points to, null
    for none.
    """

    agent = serializers.SlugField(source="release.agent.slug")
    key_id = serializers.IntegerField()
    live = serializers.IntegerField(allow_null=True)
    behind = serializers.SerializerMethodField(
        help_text="The number of releases between this one and that of `live`."
    )

    class Meta(ReceiptOutput.Meta):
        fields = ["agent", "key_id", "live", "behind", *ReceiptOutput.Meta.fields]

    def get_behind(self, row: Receipt) -> int:
        return receipts.releases_behind(row)


class ReceiptFilter(serializers.Serializer[Any]):
    agent = serializers.CharField(max_length=60, required=False, help_text="The slug of an agent.")
    key = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, help_text="The id of an API key."
    )
    behind = serializers.BooleanField(
        required=False, help_text="True selects the receipts of releases older than that of `live`."
    )
    past = serializers.BooleanField(
        required=False,
        help_text="Include what each key has read before, and keys that were revoked or have expired.",
    )


@extend_schema(tags=["runtimes"], parameters=[ReceiptFilter])
class ReceiptsOfKeys(ListAPIView[Receipt]):
    """The release that each API key reads now, for each form and each agent that you may see."""

    serializer_class = ReceiptOfKeyOutput
    ordering = ("-last_at", "-id")

    def get_queryset(self) -> QuerySet[Receipt]:
        values = valid_data(ReceiptFilter(data=self.request.query_params.dict()))
        return receipts.receipts_of_keys(
            person(self.request),
            agent=values.get("agent", ""),
            key=values.get("key"),
            is_behind=values.get("behind", False),
            is_past=values.get("past", False),
        )


@extend_schema(tags=["runtimes"])
class ReceiptList(ListAPIView[Receipt]):
    """The releases that API keys fetched, and in which form. Times are exact to the minute."""

    serializer_class = ReceiptOutput
    ordering = ("-last_at", "-id")

    def get_queryset(self) -> QuerySet[Receipt]:
        return receipts.receipts_of_agent(chosen_agent(self.request, self.kwargs["slug"]))
