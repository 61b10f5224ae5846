"""Check roles and scopes. Every view declares the role that it requires; a view without one is closed.

An API view has `read_role` (viewer by default) and `write_role` (no default), or `roles = {"DELETE":
Role.ADMIN}` for single methods. `runtime = True` opens reading to the scope `runtime`, and `invokes = True`
opens the whole view to the scope `invoke`. `only_reads = True` marks a POST that stores
nothing: the scope of a key treats it as reading. A page has the decorator `requires`, which
`people.middleware.RoleRequiredMiddleware` enforces.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from django.contrib.auth.decorators import login_not_required
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from core.compiled_queries import NamedValue, PreparedQuery, Row
from people.models import RUNTIME_SCOPES, ApiKey, KeyScope, Role, User

PageView = TypeVar("PageView", bound=Callable[..., Any])

public = login_not_required


def requires(
    role: Role = Role.VIEWER, *, write: Role | None = None, largest_body: int | None = None
) -> Callable[[PageView], PageView]:
    """Declare the role of a page.

    `@requires(Role.DESIGNER)` covers reading and POST; `@requires(write=Role.DESIGNER)` lets viewers read.
    A page for viewers accepts no POST, unless it has `write=Role.VIEWER`.
    largest_body: bytes, for a page that accepts a document.
    """

    def declare(view: PageView) -> PageView:
        view.read_role = role  # type: ignore[attr-defined]
        view.write_role = write or (None if role == Role.VIEWER else role)  # type: ignore[attr-defined]
        if largest_body is not None:
            view.largest_body = largest_body  # type: ignore[attr-defined]
        return view

    return declare


def requires_post(role: Role) -> Callable[[PageView], PageView]:
    """Declare the role of a page that accepts only POST."""
    return lambda view: requires(role, write=role)(require_POST(view))


def any_user(role: Role) -> User:
    """Return a user with this role for `visible_to` in a compiled query; its parameter `user` is the id."""
    return User(pk=cast(int, NamedValue("user")), role=role)


class QueryByRole(Generic[Row]):
    """A query of the rows that a user may see, compiled and planned once for each role.

    rows_for: restricts the rows with `visible_to`.
    """

    def __init__(self, rows_for: Callable[[User], QuerySet[Any, Row]]) -> None:
        self._queries = {
            role: PreparedQuery(lambda role=role: rows_for(any_user(role)))  # type: ignore[misc]
            for role in Role
        }

    def rows(self, user: User, **values: object) -> list[Row]:
        return self._queries[Role(user.role)].rows(user=user.pk, **values)


def person(request: HttpRequest | Request) -> User:
    """Return the signed-in user. Only signed-in users reach a view that declares a role."""
    return cast(User, request.user)


def key_of(request: HttpRequest | Request) -> ApiKey | None:
    auth = getattr(request, "auth", None)
    return auth if isinstance(auth, ApiKey) else None


_NEEDED_ROLES = {
    Role.VIEWER: _("You need the viewer role. An administrator can give it to you."),
    Role.DESIGNER: _("You need the designer role. An administrator can give it to you."),
    Role.ADMIN: _("You need the administrator role. An administrator can give it to you."),
}


def reason_against(user: Any, role: Role) -> str:
    """Return the reason why the user lacks this role; empty if the user has it."""
    if user.is_authenticated and user.has_role(role):
        return ""
    return str(_NEEDED_ROLES[role])


class RolePermission(BasePermission):
    """Allow a request if both the role of the user and the scopes of the API key allow it."""

    message = ""
    code = ""

    # `view` is an APIView; DRF imports this module while it defines that class.
    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            return False
        method = request.method or ""
        if not hasattr(view, method.lower()):
            return True  # the view answers 405 itself
        required_role = needed_role(view, method)
        if required_role is None:
            return self._refuse("undeclared", "This call is closed.")
        if not request.user.has_role(required_role):
            return self._refuse("role_required", reason_against(request.user, required_role))
        if isinstance(request.auth, ApiKey) and not allows(request.auth, view, method, required_role):
            return self._refuse("scope_required", "This API key's scope does not cover this call.")
        return True

    def _refuse(self, code: str, message: str) -> bool:
        self.code, self.message = code, message
        return False


def needed_role(view: Any, method: str) -> Role | None:
    """Return the role that a method of a view requires; None for a view that declares none."""
    roles: dict[str, Role] = getattr(view, "roles", {})
    if method in roles:
        return roles[method]
    if method in SAFE_METHODS:
        return getattr(view, "read_role", Role.VIEWER)
    return getattr(view, "write_role", None)


class ScopedKey(Protocol):
    """The columns of an API key that limit its use."""

    @property
    def scopes(self) -> Sequence[str]: ...

    @property
    def is_narrowed(self) -> bool: ...


def allows(key: ScopedKey, view: Any, method: str, required_role: Role) -> bool:
    """Return whether the scopes of the key cover this method of the view."""
    scopes = set(key.scopes)
    if key.is_narrowed:
        scopes &= RUNTIME_SCOPES
    if KeyScope.ADMIN in scopes:
        return True
    if KeyScope.INVOKE in scopes and getattr(view, "invokes", False):
        return True
    if method not in SAFE_METHODS and not getattr(view, "only_reads", False):
        return KeyScope.DESIGN in scopes and required_role == Role.DESIGNER
    if scopes & {KeyScope.READ, KeyScope.DESIGN}:
        return True
    return KeyScope.RUNTIME in scopes and getattr(view, "runtime", False)
