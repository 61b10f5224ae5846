from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import DomainError
from core.serializers import Input
from designer import exports
from designer.api.agents import chosen_agent, django_request, moved
from designer.exports import document as release_document
from designer.exports import json_schema, transfers
from designer.exports.base import JSON
from designer.models import Release, Retirement
from designer.releases import channels, diff, publishing, receipts, retiring
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import key_of, person

NUMBER = OpenApiParameter(
    "number",
    str,
    OpenApiParameter.PATH,
    description="A number, `sha256:` with a release's digest, or the name of a channel, such as `live`: the "
    "release that it leads to now.",
)
DOCUMENT_HEADERS = [
    OpenApiParameter(
        "If-None-Match",
        str,
        OpenApiParameter.HEADER,
        description="Answers 304 when it names the release's ETag.",
    ),
    OpenApiParameter(
        "ETag",
        str,
        OpenApiParameter.HEADER,
        response=[200, 304],
        description="The release's digest; `.partial` follows where tools were left out.",
    ),
]
# A retired release is told of wherever it is read.
DOCUMENT_HEADERS += [
    OpenApiParameter(name, str, OpenApiParameter.HEADER, response=[200, 304, 410], description=says)
    for name, says in (
        ("Deprecation", "Since when the release is retired, as RFC 9745 writes it: `@1777636800`."),
        ("Sunset", "From when on API keys get it no more (RFC 8594); absent where no date is set."),
        ("Link", "The same of the release that succeeds it, as `successor-version`."),
    )
]
MARKDOWN = "text/markdown; charset=utf-8"
UNCHANGED = OpenApiResponse(description="The caller has it already.")
GONE = OpenApiResponse(OpenApiTypes.OBJECT, description="The release is retired, and its date is past.")


EXPECTED = serializers.IntegerField(
    required=False,
    min_value=0,
    max_value=2**31 - 1,
    help_text="The release that the channel leads to as far as you know, 0 for none. If it leads elsewhere "
    "by now, nothing is done and the answer is 409 `channel_moved`.",
)


CODES = serializers.ListField(
    child=serializers.CharField(max_length=60),
    required=False,
    max_length=100,
    help_text="The codes of failed checks that are not to stop it, each as GET `draft/` names them.",
)


class ReleaseInput(Input):
    note = serializers.CharField(required=False, allow_blank=True, max_length=publishing.MAX_NOTE_LENGTH)
    channel = serializers.RegexField(
        f"^{channels.NAME.pattern}$",
        required=False,
        max_length=30,
        help_text="The channel that is to lead to the release, such as `live`. Without it none moves.",
    )
    expected = EXPECTED
    accept = CODES
    reason = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=publishing.MAX_NOTE_LENGTH,
        help_text="Why failed checks are accepted. It stands in the audit trail and on the release.",
    )
    seen = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=64,
        help_text="The digest that GET `draft/` told: another draft by now is a 409 `draft_changed`.",
    )


class CheckOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=["ok", "warning", "error"])
    message = serializers.CharField()
    where = serializers.CharField(help_text="The path of the page on which it is mended; may be empty.")
    accepted_by = serializers.ChoiceField(
        choices=["", "designer", "admin"], help_text="The role that may accept an error by its code."
    )


class PublishRefusal(serializers.Serializer[Any]):
    """With the code `checks_failed` it tells all `checks`; those that are errors stop publishing."""

    code = serializers.CharField()
    message = serializers.CharField()
    checks = CheckOutput(many=True, required=False)


class AcceptedOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class RetirementOutput(serializers.ModelSerializer[Retirement]):
    retired_by = serializers.CharField(source="retired_by.username", read_only=True)
    sunset_at = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="From when on API keys get the release no more; null: it goes on answering.",
    )

    class Meta:
        model = Retirement
        fields = ["reason", "sunset_at", "retired_by", "retired_at"]
        read_only_fields = fields


class ReleaseOutput(serializers.ModelSerializer[Release]):
    agent = serializers.SlugField(source="agent.slug", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True)
    tools = serializers.IntegerField(source="tool_count", read_only=True)
    accepted = AcceptedOutput(
        many=True, read_only=True, help_text="The failed checks that it was published in spite of."
    )
    retirement = RetirementOutput(
        read_only=True, default=None, allow_null=True, help_text="Null unless it is retired."
    )

    class Meta:
        model = Release
        fields = [
            "agent",
            "number",
            "digest",
            "tools",
            "note",
            "accepted",
            "reason",
            "created_by",
            "created_at",
            "retirement",
        ]
        read_only_fields = fields


class RemarkOutput(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=["blocks", "warns", "loses"])
    code = serializers.CharField()
    tool = serializers.CharField()
    message = serializers.CharField()


class WireOutput(serializers.Serializer[Any]):
    """`inputs` and `outputs` hold the vendor's name by ours, where the two differ. A transfer is no vendor's
    tool and says its `kind`."""

    kind = serializers.ChoiceField(
        choices=[transfers.KIND], required=False, help_text="A transfer hands over to `agent`."
    )
    agent = serializers.SlugField(required=False, help_text="The sub-agent that takes over.")

    inputs = serializers.DictField(child=serializers.CharField(), required=False)
    outputs = serializers.DictField(child=serializers.CharField(), required=False)
    whole = serializers.CharField(
        required=False, help_text="The input whose value the vendor takes in place of an object of inputs."
    )
    whole_output = serializers.CharField(
        required=False, help_text="The output that holds what came back in place of an object of outputs."
    )
    null_is_absent = serializers.BooleanField(
        required=False, help_text="True where null says that an input is not given."
    )


class FormatOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    is_available = serializers.BooleanField(
        help_text="False when a remark blocks it: with `partial=1` it goes without the tools in `left_out`."
    )
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="The tools that this format cannot carry."
    )
    remarks = RemarkOutput(many=True)
    wire = serializers.DictField(
        child=WireOutput(),
        help_text="By tool, where this format alters names: the way back to the vendor's. A call that says "
        "this `format` goes by its names.",
    )


class ReleaseDetailOutput(ReleaseOutput):
    """`problems` is empty while all is as it was published."""

    formats = serializers.SerializerMethodField()
    problems = serializers.SerializerMethodField()

    class Meta(ReleaseOutput.Meta):
        fields = [*ReleaseOutput.Meta.fields, "formats", "problems"]
        read_only_fields = fields

    @extend_schema_field(FormatOutput(many=True))
    def get_formats(self, release: Release) -> Any:
        return FormatOutput(formats_of(release), many=True).data

    def get_problems(self, release: Release) -> list[str]:
        return publishing.verify(release)


def releases_at(request: Request, slug: str) -> QuerySet[Release]:
    return (
        # First whether the caller may see the agent: of another team's, nothing but 404 is said.
        Release.objects.filter(agent=chosen_agent(request, slug))
        .select_related("agent", "created_by", "retirement__retired_by")
        .defer("document")
    )


@dataclass(frozen=True)
class RetiredRelease:
    """What DeprecationMiddleware says with the answer; `successor` is the number of the one to read."""

    since: datetime
    sunset_at: datetime | None
    successor: int | None


def tell_if_retired(request: HttpRequest | Request, release: Release, *, hands_out: bool) -> None:
    """Has the answer say that the release is retired, if it is. Raises DomainError where the answer
    `hands_out` a release to an API key that gets it no more."""
    retirement: Retirement | None = getattr(release, "retirement", None)
    if retirement is None:
        return
    succeeds = retiring.successor(release)
    django_request(request).retired_release = RetiredRelease(  # type: ignore[attr-defined]
        retirement.retired_at, retirement.sunset_at, succeeds.number if succeeds else None
    )
    # A user who is signed in goes on reading it: what was published can be looked up for ever.
    if hands_out and retirement.is_over and key_of(request):
        instead = f"Read release {succeeds.number} in its place." if succeeds else "None is in its place yet."
        message = f"Release {release.number} is retired, and answers no longer. {instead}"
        raise DomainError("release_retired", message, status=410)


def found_release(
    request: HttpRequest | Request, slug: str, number: str, formats: Sequence[str] = ()
) -> Release:
    """The release that a program asks for, by one indexed query, without its document; in `written` those of
    `formats` that are kept of it. Raises DomainError and Http404."""
    release = publishing.find(slug, number, person(request), key_of(request), formats=formats)
    if release is None and (agent := moved(request, slug)):
        release = publishing.find(agent.slug, number, person(request), key_of(request), formats=formats)
    if release is None:
        chosen_agent(request, slug)
        raise publishing.nothing_there(number)
    tell_if_retired(request, release, hands_out=True)
    return release


def asked_release(request: Request, slug: str, number: str, *, hands_out: bool = False) -> Release:
    release = chosen_release(releases_at(request, slug), number)
    tell_if_retired(request, release, hands_out=hands_out)
    return release


def chosen_release(found: QuerySet[Release], name: str) -> Release:
    """Of these, which are one agent's, the one that is named. Raises DomainError."""
    which = publishing.release_conditions(name)
    release = None if which is None else found.filter(**which).first()
    if release is None:
        raise publishing.nothing_there(name)
    return release


def formats_of(release: Release) -> list[dict[str, Any]]:
    document = release_document.decode(release.document)
    tools = transfers.shown(document).tools
    return [
        {
            "name": format_.name,
            "label": format_.label,
            "is_available": judged.is_whole,
            "left_out": judged.left_out,
            "remarks": judged.remarks,
            "wire": {
                tool.signature.name: way
                for tool in tools
                if (way := transfers.way_back(tool.signature, format_.wire(tool.signature)))
            },
        }
        for format_, judged in exports.carried_by_format(document)
    ]


@extend_schema(tags=["releases"])
class ReleaseList(ListAPIView[Release]):
    write_role = Role.DESIGNER
    runtime = True
    serializer_class = ReleaseOutput
    ordering = ("-number", "-id")

    def get_queryset(self) -> QuerySet[Release]:
        return releases_at(self.request, self.kwargs["slug"])

    @extend_schema(request=ReleaseInput, responses={201: ReleaseOutput, 409: PublishRefusal})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        given = ReleaseInput(data=request.data)
        given.is_valid(raise_exception=True)
        release = publishing.publish(agent, actor=person(request), **given.validated_data)
        return Response(ReleaseOutput(release).data, status=201)


@extend_schema(tags=["releases"])
class ReleaseDetail(GenericAPIView[Release]):
    runtime = True
    serializer_class = ReleaseDetailOutput
    pagination_class = None

    @extend_schema(parameters=[NUMBER])
    def get(self, request: Request, slug: str, number: str) -> Response:
        return Response(ReleaseDetailOutput(asked_release(request, slug, number)).data)


class MemberOutput(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Into what a model is shown: `inputs.city.description`.")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ToolChangeOutput(serializers.Serializer[Any]):
    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    tool = serializers.IntegerField()
    name = serializers.CharField()
    sentences = serializers.ListField(child=serializers.CharField())
    members = MemberOutput(many=True)


class ProcedureChangeOutput(serializers.Serializer[Any]):
    """`before` and `after` are the texts that a model reads, empty where there is none."""

    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    slug = serializers.SlugField()
    title = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)


class TransferChangeOutput(serializers.Serializer[Any]):
    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    agent = serializers.SlugField(help_text="The sub-agent that takes over.")
    name = serializers.CharField()
    members = MemberOutput(many=True)


class AgentChangeOutput(serializers.Serializer[Any]):
    """What differs in one sub-agent; of one that came or is gone, all that it has."""

    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    slug = serializers.SlugField()
    name = serializers.CharField()
    agent = MemberOutput(many=True, help_text="What is said otherwise of the sub-agent itself.")
    tools = ToolChangeOutput(many=True)
    procedures = ProcedureChangeOutput(many=True)
    transfers = TransferChangeOutput(many=True)


class ReleaseDiffOutput(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    against = serializers.IntegerField()
    agent = MemberOutput(
        source="changes.own.agent", many=True, help_text="What is said otherwise of the agent itself."
    )
    tools = ToolChangeOutput(source="changes.own.tools", many=True)
    procedures = ProcedureChangeOutput(source="changes.own.procedures", many=True)
    transfers = TransferChangeOutput(source="changes.own.transfers", many=True)
    agents = AgentChangeOutput(
        source="changes.agents", many=True, help_text="Sub-agents that differ: those that are gone first."
    )


class Against(Input):
    against = serializers.CharField(
        required=False, max_length=80, help_text="Another release; the one before, unless told."
    )


@extend_schema(tags=["releases"])
class ReleaseDiff(GenericAPIView[Release]):
    """What differs in this release from another one: in sentences for people, and member by member."""

    serializer_class = ReleaseDiffOutput
    pagination_class = None

    @extend_schema(parameters=[NUMBER, Against], responses=ReleaseDiffOutput)
    def get(self, request: Request, slug: str, number: str) -> Response:
        given = Against(data=request.query_params.dict())
        given.is_valid(raise_exception=True)
        found = releases_at(request, slug)
        release = chosen_release(found, number)
        asked = given.validated_data.get("against")
        other = chosen_release(found, asked) if asked else publishing.previous_release(release)
        if other is None:
            message = "There is no release before this one. Name another."
            raise DomainError("nothing_to_compare", message, fields={"against": message})
        old, new = release_document.decode(other.document), release_document.decode(release.document)
        answer = {
            "number": release.number,
            "against": other.number,
            "changes": diff.between(old, new),
        }
        return Response(ReleaseDiffOutput(answer).data)


class AsStored(BaseContentNegotiation):
    """The bytes were settled at publishing; `format` names an export here, never a renderer."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]


class ReleaseBytesView(GenericAPIView[Release]):
    """Answers 304 out of one indexed query on the release."""

    runtime = True
    pagination_class = None
    content_negotiation_class = AsStored
    queryset = Release.objects.none()

    def answer(
        self, request: Request, tag: str, body: Callable[[], bytes], media_type: str = JSON
    ) -> HttpResponseBase:
        response: HttpResponse
        if publishing.etag_matches(tag, request.headers.get("If-None-Match", "")):
            response = HttpResponseNotModified()
        else:
            response = HttpResponse(body(), content_type=media_type)
        response["ETag"] = f'"{tag}"'
        response["Cache-Control"] = publishing.CACHE_CONTROL
        return response


EXPORT_PARAMETERS = [
    OpenApiParameter("format", str, required=True, enum=[format_.name for format_ in exports.FORMATS]),
    OpenApiParameter(
        "partial",
        str,
        enum=["0", "1"],
        description="1 leaves out the tools that the format cannot carry, which the release names in "
        "`formats`; the document then has an ETag of its own.",
    ),
    *DOCUMENT_HEADERS,
]
EXPORT_REPLIES = {
    200: OpenApiResponse(
        OpenApiTypes.ANY,
        description="The release in this format; a file where the format is none of JSON.",
    ),
    304: UNCHANGED,
    409: OpenApiResponse(
        OpenApiTypes.OBJECT, description="This format cannot carry all of this release, or any of it."
    ),
    410: GONE,
}


@extend_schema(tags=["releases"])
class ReleaseTools(ReleaseBytesView):
    @extend_schema(
        operation_id="agents_releases_tools_retrieve",
        parameters=[NUMBER, *EXPORT_PARAMETERS],
        responses=EXPORT_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        return self.exported(request, slug, number)

    def exported(self, request: Request, slug: str, number: str, sub: str = "") -> HttpResponseBase:
        is_partial = request.query_params.get("partial", "0")
        if is_partial not in ("0", "1"):
            message = "Give 1 to leave out the tools that the format cannot carry, or 0."
            raise DomainError("invalid", message, fields={"partial": message})
        name, leaves_out = request.query_params.get("format", ""), is_partial == "1"
        wanted = publishing.export_names(name, is_partial=leaves_out, sub_agent=sub)
        release = found_release(request, slug, number, wanted)
        # Only of what is kept may be said that it is unchanged: anything else may have to be refused.
        kept, body = next((each for each in wanted if each in release.written), ""), None
        if not kept:
            body, kept = publishing.export(release, name, is_partial=leaves_out, sub_agent=sub)
        receipts.note(key_of(request), release, surface=wanted[0], name=number)
        tag = release.digest if kept == wanted[0] else f"{release.digest}{publishing.PARTIAL}"
        format_ = publishing.find_format(name)
        response = self.answer(
            request,
            tag,
            lambda: body or publishing.export(release, name, is_partial=leaves_out, sub_agent=sub)[0],
            format_.media_type,
        )
        if not format_.is_text:
            file_name = f"{sub or slug}-{number}.{name}.{format_.suffix}".replace(":", "-")
            response["Content-Disposition"] = f'attachment; filename="{file_name}"'
        return response


TOOL_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As the model knows the tool.")
TOOL_FORMAT = OpenApiParameter(
    "format", str, enum=[format_.name for format_ in exports.FORMATS], description="`json-schema` if unsaid."
)
TOOL_REPLIES = {
    **EXPORT_REPLIES,
    200: OpenApiResponse(OpenApiTypes.ANY, description="The tool, as the export of all tools has it."),
}


@extend_schema(tags=["releases"])
class ReleaseTool(ReleaseBytesView):
    """One tool of a release in one format."""

    @extend_schema(
        operation_id="agents_releases_tools_one_retrieve",
        parameters=[NUMBER, TOOL_NAME, TOOL_FORMAT, *DOCUMENT_HEADERS],
        responses=TOOL_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str, name: str) -> HttpResponseBase:
        return self.one(request, slug, number, name)

    def one(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        format_ = request.query_params.get("format", json_schema.FORMAT.name)
        release = found_release(request, slug, number)
        # Before anything is said to be unchanged: a tool that is not there never was.
        body = publishing.export_of_tool(release, format_, name, sub_agent=sub)
        surface = publishing.export_names(format_, is_partial=False, sub_agent=sub)[0]
        receipts.note(key_of(request), release, surface=surface, name=number)
        return self.answer(request, release.digest, lambda: body)


@extend_schema(tags=["releases"])
class ReleaseBundle(ReleaseBytesView):
    @extend_schema(
        operation_id="agents_releases_bundle_retrieve",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={
            200: OpenApiResponse(OpenApiTypes.OBJECT, description="The whole release document."),
            304: UNCHANGED,
            410: GONE,
        },
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        release = found_release(request, slug, number)
        receipts.note(key_of(request), release, surface="bundle", name=number)
        return self.answer(request, release.digest, lambda: release.document.encode())


class ReleasedReferenceOutput(serializers.Serializer[Any]):
    line = serializers.IntegerField(help_text="From 1, in `text`.")
    kind = serializers.ChoiceField(["tool", "input", "output", "agent", "item"])
    name = serializers.CharField(allow_blank=True, help_text="Of the tool, or of the transfer.")
    member = serializers.CharField(allow_blank=True, help_text="The input, the output or the item.")


class ReleasedProcedureOutput(serializers.Serializer[Any]):
    slug = serializers.SlugField()
    title = serializers.CharField()
    text = serializers.CharField(help_text="What a model reads: markdown.")
    references = ReleasedReferenceOutput(many=True)


class ReleasedProceduresOutput(serializers.Serializer[Any]):
    results = ReleasedProcedureOutput(many=True)


@extend_schema(tags=["releases"])
class ReleaseProcedures(ReleaseBytesView):
    """The operating procedures of a release, in their order."""

    @extend_schema(
        operation_id="agents_releases_procedures_list",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={200: ReleasedProceduresOutput, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        release = found_release(request, slug, number)

        def body() -> bytes:
            procedures = release_document.decode(release.document).procedures
            return msgspec.json.encode({"results": procedures})

        receipts.note(key_of(request), release, surface="procedures", name=number)
        return self.answer(request, release.digest, body)


@extend_schema(tags=["releases"])
class ReleaseProcedure(ReleaseBytesView):
    """One operating procedure of a release, as a model reads it."""

    @extend_schema(
        operation_id="agents_releases_procedures_retrieve",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={(200, "text/markdown"): OpenApiTypes.STR, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str, procedure: str) -> HttpResponseBase:
        release = found_release(request, slug, number)
        procedures = release_document.decode(release.document).procedures
        found = next((each for each in procedures if each.slug == procedure), None)
        if found is None:
            raise Http404
        receipts.note(key_of(request), release, surface="procedures", name=number)
        return self.answer(request, release.digest, found.text.encode, media_type=MARKDOWN)
