from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelInput, input_field
from designer.api.asked_releases import NUMBER, chosen_release, releases_at
from designer.api.releases import ReleaseOutput
from designer.models import Release, Retirement
from designer.releases import retiring
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person


class RetirementInput(ModelInput):
    name = input_field(
        retiring.RELEASE_NAME,
        help_text="The name of the release, as 409 `release_in_use` states it: confirms that a release "
        "in use is retired.",
    )

    class Meta:
        model = Retirement
        fields = ("reason", "sunset_at", "name")


@extend_schema(tags=["releases"])
class ReleaseRetirement(GenericAPIView[Release]):
    """The retirement of a release. Runtimes are notified in `Deprecation`, `Sunset` and `Link`; the release
    never changes.
    """

    write_role = Role.DESIGNER
    serializer_class = ReleaseOutput
    queryset = Release.objects.none()

    @extend_schema(
        operation_id="agents_releases_retirement_update", parameters=[NUMBER], request=RetirementInput
    )
    def put(self, request: Request, slug: str, number: str) -> Response:
        """Retire the release, or change the reason or the date of its retirement."""
        agent_releases, serializer = releases_at(request, slug), RetirementInput(data=request.data)
        serializer.is_valid(raise_exception=True)
        release = chosen_release(agent_releases, number)
        retiring.retire(release, actor=person(request), **serializer.validated_data)
        return Response(ReleaseOutput(agent_releases.get(pk=release.pk)).data)

    @extend_schema(
        operation_id="agents_releases_retirement_destroy", parameters=[NUMBER], responses={204: None}
    )
    def delete(self, request: Request, slug: str, number: str) -> Response:
        """Take back the retirement. Runtimes get the release again."""
        retiring.restore_release(chosen_release(releases_at(request, slug), number), actor=person(request))
        return Response(status=204)
