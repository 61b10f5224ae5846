from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelOutput, input_field, valid_data
from people import audit
from people.api.generics import ListAPIView
from people.models import AuditEntry, User
from people.permissions import person


class AuditFilter(serializers.Serializer[AuditEntry]):
    actor = serializers.SlugRelatedField(
        queryset=User.objects.all(),
        slug_field="username",
        required=False,
        error_messages={"does_not_exist": "No user signs in with this name."},
        help_text="The user name of the author.",
    )
    by = serializers.ChoiceField(
        choices=audit.Doer.choices,
        required=False,
        help_text="The kind of author: people, or workers and commands.",
    )
    kind = input_field(AuditEntry._meta.get_field("kind"), required=False, allow_blank=True)
    q = input_field(audit.TEXT, help_text="A part of the name of the changed object.")
    first_day = input_field(audit.FIRST_DAY, help_text="The first day of the selected changes.")
    last_day = input_field(audit.LAST_DAY, help_text="The last day of the selected changes.")


class AuditOutput(ModelOutput[AuditEntry]):
    actor = serializers.CharField(source="actor_name", read_only=True)
    before = serializers.DictField(read_only=True, allow_null=True)
    after = serializers.DictField(read_only=True, allow_null=True)

    class Meta:
        model = AuditEntry
        fields = [
            *("id", "at", "actor", "action", "kind", "object_id", "label", "before", "after", "why"),
            *("position", "previous", "hash"),
        ]


class AuditList(ListAPIView[AuditEntry]):
    """The changes of users and workers, newest first, with the members that differ before and after.

    `position`, `previous` and `hash` are the chain that shows when an entry was changed or removed.
    """

    serializer_class = AuditOutput
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[AuditEntry]:
        values = valid_data(AuditFilter(data=self.request.query_params.dict()))
        return audit.entries(person(self.request), **values)

    @extend_schema(parameters=[AuditFilter])
    def get(self, request: Request) -> Response:
        return self.list(request)
