from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.token_estimate import estimate_tokens
from core import slugs
from core.serializers import Input, ModelInput, ModelOutput, input_field, valid_data
from designer.api.agents import chosen_agent
from designer.models import Procedure, ProcedureVersion
from designer.procedures import checking, editing, references, vocabulary
from designer.procedures.checking import CheckedProcedures
from people.api.generics import APIView, GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

BODY_HELP = (
    "Markdown. References as typed: `name()`, `name(input)`, `name().output`, `{item}`; or by identity: "
    "`{tool:PIN}`, `{in:PIN/ID}`, `{out:PIN/ID}`, `{agent:ID}`, `{item:NAME}`."
)


class LintRemarkOutput(serializers.Serializer[Any]):
    line = serializers.IntegerField(
        allow_null=True, help_text="The line in `body`, from 1; null for the whole agent."
    )
    column = serializers.IntegerField(allow_null=True, help_text="The column in characters, from 0.")
    code = serializers.CharField()
    severity = serializers.ChoiceField(["error", "warning"])
    message = serializers.CharField()
    fix = serializers.CharField(allow_blank=True, help_text="The step that removes the issue.")
    name = serializers.CharField(allow_blank=True, help_text="The unknown name; may be empty.")
    tool = serializers.IntegerField(
        allow_null=True, help_text="The only tool of the catalog with that name, which can be pinned."
    )
    instead = serializers.CharField(
        allow_blank=True, help_text="The agent's name that was probably intended."
    )


class ReferenceOutput(serializers.Serializer[Any]):
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    kind = serializers.ChoiceField(["tool", "input", "output", "agent", "item"])
    target = serializers.IntegerField(allow_null=True, help_text="The id of the pin or the agent.")
    member = serializers.CharField(
        allow_blank=True, help_text="The id of the input or output, or the name of the item."
    )


class ProcedureInput(ModelInput):
    body = serializers.CharField(
        max_length=editing.MAX_TEXT_LENGTH, allow_blank=True, trim_whitespace=False, help_text=BODY_HELP
    )
    why = input_field(ProcedureVersion._meta.get_field("why"))

    class Meta:
        model = Procedure
        fields: tuple[str, ...] = ("title", "body", "why")


class NewProcedureInput(ProcedureInput):
    body = serializers.CharField(
        max_length=editing.MAX_TEXT_LENGTH,
        allow_blank=True,
        trim_whitespace=False,
        required=False,
        help_text=f"{BODY_HELP} Without one it starts with a template.",
    )

    class Meta(ProcedureInput.Meta):
        fields = ("title", "body", "why", "slug")
        extra_kwargs = {"slug": {"required": False}}


class LintInput(Input):
    body = serializers.CharField(
        max_length=editing.MAX_TEXT_LENGTH, allow_blank=True, trim_whitespace=False, help_text=BODY_HELP
    )
    procedure = serializers.SlugField(
        max_length=slugs.MAX_LENGTH, required=False, help_text="The procedure that the body replaces."
    )


class LintOutput(serializers.Serializer[Any]):
    rendered = serializers.CharField(help_text="The text that a model reads.")
    tokens = serializers.IntegerField(help_text="The estimated tokens of `rendered`.")
    lint = LintRemarkOutput(
        many=True, help_text="The issues in the order of the text, then those of the whole agent."
    )


class ProcedureOutput(LintOutput):
    slug = serializers.SlugField()
    title = serializers.CharField()
    position = serializers.IntegerField(help_text="The position among the agent's procedures, from 1.")
    version = serializers.IntegerField()
    body = serializers.CharField(help_text="The text with the current names.")
    references = ReferenceOutput(many=True)
    updated_by = serializers.CharField(allow_null=True)
    updated_at = serializers.DateTimeField()


class ProcedureVersionOutput(ModelOutput[ProcedureVersion]):
    version = serializers.IntegerField(source="number", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True)

    class Meta:
        model = ProcedureVersion
        fields = ["version", "title", "why", "created_by", "created_at"]


class ProcedureVersionDetailOutput(ProcedureVersionOutput):
    body = serializers.SerializerMethodField(help_text="The saved text with the current names.")

    class Meta(ProcedureVersionOutput.Meta):
        fields = [*ProcedureVersionOutput.Meta.fields, "body"]

    def get_body(self, version: ProcedureVersion) -> str:
        names = vocabulary.vocabulary_of(version.procedure.agent, texts=[version.text])
        return references.display_text(references.parse(version.text, names))


class RestoreInput(Input):
    version = serializers.IntegerField(min_value=1)


def chosen_procedure(request: Request, slug: str, procedure: str) -> Procedure:
    rows = Procedure.objects.live().select_related("agent", "updated_by")
    return get_object_or_404(rows, agent=chosen_agent(request, slug), slug=procedure)


@extend_schema(tags=["procedures"])
class ProcedureList(ListAPIView[Procedure]):
    """The operating procedures of an agent, in their order."""

    write_role = Role.DESIGNER
    serializer_class = ProcedureOutput
    ordering = ("position", "id")

    def get_queryset(self) -> QuerySet[Procedure]:
        rows = Procedure.objects.live().select_related("updated_by")
        return rows.filter(agent=chosen_agent(self.request, self.kwargs["slug"]))

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset) or []
        checked = checking.check_agent(chosen_agent(self.request, self.kwargs["slug"]), person(self.request))
        return [_describe_procedure(row, checked) for row in page]

    @extend_schema(request=NewProcedureInput, responses={201: ProcedureOutput})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(NewProcedureInput(data=request.data))
        created = editing.create_procedure(agent, actor=person(request), **values)
        return _respond(created, request, status=201)


@extend_schema(tags=["procedures"])
class ProcedureDetail(GenericAPIView[Procedure]):
    write_role = Role.DESIGNER
    serializer_class = ProcedureOutput

    def get(self, request: Request, slug: str, procedure: str) -> Response:
        return _respond(chosen_procedure(request, slug, procedure), request)

    @extend_schema(parameters=[IF_MATCH], request=ProcedureInput)
    def put(self, request: Request, slug: str, procedure: str) -> Response:
        row = chosen_procedure(request, slug, procedure)
        values = valid_data(ProcedureInput(data=request.data))
        saved = editing.save_procedure(row, actor=person(request), expected=expected_state(request), **values)
        return _respond(saved, request)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, procedure: str) -> Response:
        editing.remove_procedure(chosen_procedure(request, slug, procedure), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["procedures"])
class ProcedureVersionList(ListAPIView[ProcedureVersion]):
    """The saved texts, the newest first."""

    serializer_class = ProcedureVersionOutput
    ordering = ("-number",)

    def get_queryset(self) -> QuerySet[ProcedureVersion]:
        row = chosen_procedure(self.request, self.kwargs["slug"], self.kwargs["procedure"])
        return row.versions.select_related("created_by")


@extend_schema(tags=["procedures"])
class ProcedureVersionDetail(GenericAPIView[ProcedureVersion]):
    serializer_class = ProcedureVersionDetailOutput

    def get(self, request: Request, slug: str, procedure: str, number: int) -> Response:
        row = chosen_procedure(request, slug, procedure)
        rows = row.versions.select_related("created_by", "procedure__agent")
        return Response(ProcedureVersionDetailOutput(get_object_or_404(rows, number=number)).data)


@extend_schema(tags=["procedures"])
class ProcedureRestore(GenericAPIView[Procedure]):
    """Save an earlier text as the newest version."""

    role = write_role = Role.DESIGNER
    serializer_class = ProcedureOutput

    @extend_schema(parameters=[IF_MATCH], request=RestoreInput)
    def post(self, request: Request, slug: str, procedure: str) -> Response:
        row = chosen_procedure(request, slug, procedure)
        values = valid_data(RestoreInput(data=request.data))
        row = editing.restore_version(
            row,
            values["version"],
            actor=person(request),
            expected=expected_state(request),
        )
        return _respond(row, request)


@extend_schema(tags=["procedures"])
class ProcedureLint(APIView):
    """The issues of a text. Nothing is stored."""

    write_role = Role.DESIGNER

    @extend_schema(request=LintInput, responses=LintOutput)
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(LintInput(data=request.data))
        stands_for = values.get("procedure")
        key = chosen_procedure(request, slug, stands_for).pk if stands_for else checking.NEW
        checked = checking.check_agent(agent, person(request), typed_texts={key: values["body"]})
        return Response(LintOutput(_rendered_text(checked, key)).data)


def _rendered_text(checked: CheckedProcedures, key: int) -> dict[str, Any]:
    rendered = references.rendered_text(checked.pieces[key])
    remarks = [*checked.remarks[key], *checked.of_agent]
    return {"rendered": rendered, "tokens": estimate_tokens(rendered), "lint": remarks}


def _describe_procedure(row: Procedure, checked: CheckedProcedures) -> dict[str, Any]:
    pieces = checked.pieces[row.pk]
    return {
        **_rendered_text(checked, row.pk),
        "slug": row.slug,
        "title": row.title,
        "position": row.position,
        "version": row.number,
        "body": references.display_text(pieces),
        "references": list(references.flat(pieces)),
        "updated_by": row.updated_by.username if row.updated_by else None,
        "updated_at": row.updated_at,
    }


def _respond(row: Procedure, request: Request, status: int = 200) -> Response:
    checked = checking.check_agent(row.agent, person(request))
    document = ProcedureOutput(_describe_procedure(row, checked)).data
    return Response(document, status=status, headers=etag_of(editing.facts(row)))
