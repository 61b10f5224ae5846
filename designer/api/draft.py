from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from designer.api.agents import chosen_agent
from designer.api.readiness import ToolReadinessOutput
from designer.api.rehearsals import RehearsedOutput
from designer.api.release_diff import (
    AgentChangeOutput,
    MemberOutput,
    ProcedureChangeOutput,
    ToolChangeOutput,
    TransferChangeOutput,
)
from designer.api.releases import CheckOutput
from designer.models import Agent
from designer.releases import draft_review
from designer.releases.draft_review import DraftReview
from people.api.generics import GenericAPIView
from people.permissions import person


class TokensOutput(serializers.Serializer[Any]):
    before = serializers.IntegerField(allow_null=True)
    after = serializers.IntegerField()


class DraftOutput(serializers.Serializer[Any]):
    """`digest` is what the release would have: send it as `seen` to publish this draft and no other."""

    number = serializers.IntegerField(
        source="draft.number", help_text="The number that the release would get."
    )
    digest = serializers.CharField()
    against = serializers.IntegerField(
        source="against.number",
        default=None,
        allow_null=True,
        help_text="The release that `live` points to, else the newest one; null before the first.",
    )
    is_new = serializers.BooleanField(help_text="True if publishing would create another release.")
    agent = MemberOutput(
        source="changes.own.agent", many=True, help_text="The changed texts of the agent itself."
    )
    changes = ToolChangeOutput(source="changes.own.tools", many=True)
    procedures = ProcedureChangeOutput(source="changes.own.procedures", many=True)
    transfers = TransferChangeOutput(source="changes.own.transfers", many=True)
    # A member of the reply, and not what the class has under this name.
    context = ToolChangeOutput(  # type: ignore[assignment]
        source="changes.own.context", many=True, help_text="The changes of prompts and resources."
    )
    agents = AgentChangeOutput(
        source="changes.agents", many=True, help_text="The sub-agents that differ, the removed ones first."
    )
    checks = CheckOutput(many=True, help_text="The results of the checks, the worst first.")
    readiness = ToolReadinessOutput(
        many=True,
        help_text="The readiness of each tool in the agent's default environment, else outside of all "
        "environments.",
    )
    rehearsals = RehearsedOutput(
        many=True, help_text="The test results of each agent of the tree that has tests."
    )
    tokens = serializers.SerializerMethodField(
        help_text="The tokens of all tools and procedures of the agent itself, by format."
    )

    @extend_schema_field(serializers.DictField(child=TokensOutput()))
    def get_tokens(self, review: DraftReview) -> Any:
        return {name: TokensOutput(tokens).data for name, tokens in review.tokens.items()}


@extend_schema(tags=["channels"])
class AgentDraft(GenericAPIView[Agent]):
    """The effects of publishing now on runtimes, and the checks of the draft."""

    serializer_class = DraftOutput
    queryset = Agent.objects.none()

    @extend_schema(operation_id="agents_draft_retrieve")
    def get(self, request: Request, slug: str) -> Response:
        return Response(
            DraftOutput(draft_review.review_draft(chosen_agent(request, slug), person(request))).data
        )
