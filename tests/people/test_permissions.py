import pytest
from django.contrib.auth.models import AnonymousUser
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from people.models import Role
from people.permissions import reason_against, requires
from tests.factories import make_user
from tests.pages import signed_in


class Undeclared(APIView):
    def get(self, request):
        return Response({})

    def post(self, request):
        return Response({})


class ByMethod(Undeclared):
    write_role = Role.DESIGNER
    roles = {"DELETE": Role.ADMIN}

    def delete(self, request):
        return Response({})


def call(view: type[APIView], method: str, role: Role) -> int:
    request = getattr(APIRequestFactory(), method)("/")
    force_authenticate(request, make_user(role))
    return view.as_view()(request).status_code


@pytest.mark.django_db
def test_call_that_declares_nothing_is_closed_even_to_administrators():
    assert call(Undeclared, "get", Role.VIEWER) == 200
    assert call(Undeclared, "post", Role.ADMIN) == 403


@pytest.mark.django_db
def test_method_may_take_more_than_the_rest_of_its_view():
    assert call(ByMethod, "post", Role.DESIGNER) == 200
    assert call(ByMethod, "delete", Role.DESIGNER) == 403
    assert call(ByMethod, "delete", Role.ADMIN) == 200


@pytest.mark.django_db
def test_method_that_is_not_there_is_not_a_matter_of_roles():
    assert call(Undeclared, "put", Role.VIEWER) == 405


@pytest.mark.parametrize(
    ("declared", "reads", "writes"),
    [
        (requires(), Role.VIEWER, None),
        (requires(Role.DESIGNER), Role.DESIGNER, Role.DESIGNER),
        (requires(write=Role.ADMIN), Role.VIEWER, Role.ADMIN),
        (requires(Role.DESIGNER, write=Role.ADMIN), Role.DESIGNER, Role.ADMIN),
    ],
)
def test_page_declares_who_reads_and_who_writes(declared, reads, writes):
    view = declared(lambda request: None)
    assert (view.read_role, view.write_role) == (reads, writes)


@pytest.mark.django_db
def test_reason_names_the_role_and_who_can_give_it():
    assert reason_against(make_user(Role.DESIGNER), Role.DESIGNER) == ""
    assert reason_against(make_user(Role.VIEWER), Role.DESIGNER) == (
        "You need the designer role. An administrator can give it to you."
    )
    assert reason_against(AnonymousUser(), Role.VIEWER)
    assert reason_against(make_user(Role.ADMIN, is_active=False), Role.VIEWER)


@pytest.mark.django_db
def test_a_test_that_names_no_role_acts_in_the_least_one():
    """Else a call that was opened to all users, or closed to all but administrators, goes unseen."""
    assert make_user().role == next(iter(Role))
    assert signed_in().get("/").context["user"].role == next(iter(Role))
