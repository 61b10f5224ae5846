from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool, Translation
from catalog.models.translations import TranslationOrigin
from catalog.translations import files, languages, stored
from catalog.translations.exchange import MAX_FILE_BYTES
from catalog.translations.files import FileFormat
from catalog.translations.tool_texts import MAX_TRANSLATION
from core.errors import invalid
from core.serializers import Input, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

LANGUAGE = OpenApiParameter(
    "language",
    {"type": "string", "enum": list(languages.CODES)},
    required=True,
    description="The language tag (BCP 47).",
)
MAX_VENDOR_LENGTH = 100
FILE_PARAMETERS = [
    LANGUAGE,
    OpenApiParameter("type", {"type": "string", "enum": FileFormat.values}, required=True),
    OpenApiParameter(
        "vendor",
        {"type": "string", "maxLength": MAX_VENDOR_LENGTH},
        description="The slug of a vendor; all vendors by default.",
    ),
    OpenApiParameter("only_missing", {"type": "string", "enum": ["true", "false"]}),
]


class TranslationOutput(ModelOutput[Translation]):
    author = serializers.CharField(
        source="author_name",
        read_only=True,
        help_text="The name of the user, or of the model, that wrote it.",
    )
    is_confirmed = serializers.BooleanField(
        read_only=True, help_text="True if a user wrote, imported or confirmed it."
    )
    origin = serializers.ChoiceField(choices=TranslationOrigin.values, read_only=True)

    class Meta:
        model = Translation
        fields = ["digest", "language", "text", "origin", "is_confirmed", "author", "changed_at"]


class TranslatedTextOutput(serializers.Serializer[Any]):
    member = serializers.ChoiceField(
        source="text.member",
        choices=["title", "description", "input", "input_title", "output", "output_title"],
    )
    name = serializers.CharField(
        source="text.name", allow_blank=True, help_text="The name of the input or output."
    )
    source_text = serializers.CharField(source="text.source")
    digest = serializers.CharField(source="text.digest", help_text="The SHA-256 of `source_text`.")
    translation = TranslationOutput(allow_null=True)
    stale = TranslationOutput(
        source="former",
        allow_null=True,
        help_text="The translation of an earlier text, which the vendor has changed since.",
    )


class TranslationInput(Input):
    text = serializers.CharField(max_length=MAX_TRANSLATION, help_text="The translation, in plain text.")


class TranslationFileInput(Input):
    language = serializers.ChoiceField(choices=languages.CODES)
    type = serializers.ChoiceField(choices=FileFormat.values)
    content = serializers.CharField(max_length=MAX_FILE_BYTES, trim_whitespace=False)


class TranslationFileOutput(serializers.Serializer[Any]):
    language = serializers.CharField()
    type = serializers.CharField()
    content = serializers.CharField()


class FileProblemOutput(serializers.Serializer[Any]):
    line = serializers.IntegerField()
    message = serializers.CharField()


class TranslationImportOutput(serializers.Serializer[Any]):
    added = serializers.IntegerField()
    replaced = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    problems = FileProblemOutput(many=True, help_text="The lines that were not imported, up to 200.")


@extend_schema(tags=["translations"])
class TranslationList(ListAPIView[Translation]):
    """Translations of vendors' texts into one language. Exports and models never contain them."""

    serializer_class = TranslationOutput
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[Translation]:
        return Translation.objects.filter(language=_asked_language(self.request)).select_related("author")

    @extend_schema(parameters=[LANGUAGE])
    def get(self, request: Request) -> Response:
        return super().get(request)


@extend_schema(tags=["translations"])
class ToolTranslationList(GenericAPIView[Tool]):
    """The texts of a tool's current version with their translations."""

    serializer_class = TranslatedTextOutput
    queryset = Tool.objects.none()

    @extend_schema(operation_id="tools_translations_list", responses=TranslatedTextOutput(many=True))
    def get(self, request: Request, pk: int, language: str) -> Response:
        texts = stored.translate_tool(_find_tool(pk), language)
        return Response(TranslatedTextOutput(texts, many=True).data)


@extend_schema(tags=["translations"])
class ToolTranslation(GenericAPIView[Tool]):
    """The translation of the text with this digest, for every tool that has the text."""

    write_role = Role.DESIGNER
    serializer_class = TranslatedTextOutput
    queryset = Tool.objects.none()

    @extend_schema(operation_id="tools_translations_retrieve", responses=TranslatedTextOutput)
    def get(self, request: Request, pk: int, language: str, digest: str) -> Response:
        return self._respond(pk, language, digest)

    @extend_schema(parameters=[IF_MATCH], request=TranslationInput, responses=TranslatedTextOutput)
    def put(self, request: Request, pk: int, language: str, digest: str) -> Response:
        """Add, correct or confirm the translation."""
        values = valid_data(TranslationInput(data=request.data))
        stored.find_text(_find_tool(pk), digest)
        stored.write_translation(
            actor=person(request),
            language=language,
            digest=digest,
            expected=expected_state(request),
            **values,
        )
        return self._respond(pk, language, digest)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, pk: int, language: str, digest: str) -> Response:
        stored.find_text(_find_tool(pk), digest)
        stored.remove_translation(
            actor=person(request), language=language, digest=digest, expected=expected_state(request)
        )
        return Response(status=204)

    def _respond(self, pk: int, language: str, digest: str) -> Response:
        tool = _find_tool(pk)
        stored.find_text(tool, digest)
        (text,) = [text for text in stored.translate_tool(tool, language) if text.text.digest == digest]
        headers = etag_of(stored.translation_facts(text.translation))
        return Response(TranslatedTextOutput(text).data, headers=headers)


@extend_schema(tags=["translations"])
class TranslationFile(GenericAPIView[Translation]):
    """Texts of tools with their translations, for translators. `translations/import/` accepts the file."""

    serializer_class = TranslationFileOutput
    queryset = Translation.objects.none()

    @extend_schema(
        operation_id="translations_export", parameters=FILE_PARAMETERS, responses=TranslationFileOutput
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        language, only_missing = _asked_language(request), query.get("only_missing", "false")
        if only_missing not in ("true", "false"):
            raise invalid(only_missing="Send true or false.")
        if len(vendor := query.get("vendor", "")) > MAX_VENDOR_LENGTH:
            raise invalid(vendor=f"Send at most {MAX_VENDOR_LENGTH} characters.")
        file_format = files.find_format(query.get("type", ""))
        content = files.export_file(language, file_format, vendor=vendor, only_missing=only_missing == "true")
        return Response({"language": language, "type": file_format.value, "content": content})


@extend_schema(tags=["translations"])
class TranslationImport(GenericAPIView[Translation]):
    """Store the translations of a file. A line with an error is left out; the others are imported."""

    write_role = Role.DESIGNER
    serializer_class = TranslationImportOutput
    queryset = Translation.objects.none()
    largest_body = 2 * MAX_FILE_BYTES

    @extend_schema(
        operation_id="translations_import", request=TranslationFileInput, responses=TranslationImportOutput
    )
    def post(self, request: Request) -> Response:
        values = valid_data(TranslationFileInput(data=request.data))
        counts, problems = files.import_file(
            values["content"].encode(),
            FileFormat(values["type"]),
            actor=person(request),
            language=values["language"],
        )
        return Response(TranslationImportOutput({**counts._asdict(), "problems": problems}).data)


def _asked_language(request: Request) -> str:
    """Return the language of the query. Raises DomainError."""
    code = request.query_params.get("language", "")
    if code not in languages.BY_CODE:
        raise invalid(language=f"Send one of {', '.join(languages.CODES)}.")
    return code


def _find_tool(pk: int) -> Tool:
    return get_object_or_404(Tool.objects.select_related("current"), pk=pk)
