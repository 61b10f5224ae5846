"""Who may call what. Every view declares the role it takes; what declares nothing is refused.

An API view has `read_role` (viewer unless it says otherwise) and `write_role` (no default), or
`roles = {"DELETE": Role.ADMIN}` for single methods. `runtime = True` opens reading to the narrow scope
`runtime`, and `invokes = True` all of the view to `invoke`. `only_reads = True` is for a POST that stores
nothing: for the scope of a key it counts as reading. A page uses the decorator `requires`, which
`people.middleware.RoleRequiredMiddleware` enforces.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from core.compiled_queries import Given
from people.models import RUNTIME_SCOPES, ApiKey, Role, Scope, User

PageView = TypeVar("PageView", bound=Callable[..., Any])

public = login_not_required


def requires(
    role: Role = Role.VIEWER, *, write: Role | None = None, largest_body: int | None = None
) -> Callable[[PageView], PageView]:
    """`@requires(Role.DESIGNER)` covers reading and POST; `@requires(write=Role.DESIGNER)` lets viewers read.

    A page that only viewers' rights are asked for takes no POST, unless `write=Role.VIEWER` says so.
    `largest_body`, in bytes, is for a page that takes a document.
    """

    def declare(view: PageView) -> PageView:
        view.read_role = role  # type: ignore[attr-defined]
        view.write_role = write or (None if role == Role.VIEWER else role)  # type: ignore[attr-defined]
        if largest_body is not None:
            view.largest_body = largest_body  # type: ignore[attr-defined]
        return view

    return declare


def any_user(role: Role) -> User:
    """For `visible_to` in a CompiledQuery: a user with this role, whose id is given as `user`."""
    return User(pk=cast(int, Given("user")), role=role)


def person(request: HttpRequest | Request) -> User:
    """The user. A view that declares a role is only reached by signed-in users."""
    return cast(User, request.user)


def key_of(request: HttpRequest | Request) -> ApiKey | None:
    auth = getattr(request, "auth", None)
    return auth if isinstance(auth, ApiKey) else None


def reason_against(user: Any, role: Role) -> str:
    """A sentence for a user without this role; empty for one who has it."""
    if user.is_authenticated and user.has_role(role):
        return ""
    return f"You need the {role.label.lower()} role. An administrator can give it to you."


class RolePermission(BasePermission):
    """The lower of what the person's role and the API key's scopes allow."""

    message = ""
    code = ""

    # `view` is an APIView; DRF imports this module while it defines that class.
    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            return False
        method = request.method or ""
        if not hasattr(view, method.lower()):
            return True  # the view answers 405 itself
        needed = needed_role(view, method)
        if needed is None:
            return self._refuse("undeclared", "This call is closed.")
        if not request.user.has_role(needed):
            return self._refuse("role_required", reason_against(request.user, needed))
        if isinstance(request.auth, ApiKey) and not allows(request.auth, view, method, needed):
            return self._refuse("scope_required", "This API key's scope does not cover this call.")
        return True

    def _refuse(self, code: str, message: str) -> bool:
        self.code, self.message = code, message
        return False


def needed_role(view: Any, method: str) -> Role | None:
    roles: dict[str, Role] = getattr(view, "roles", {})
    if method in roles:
        return roles[method]
    if method in SAFE_METHODS:
        return getattr(view, "read_role", Role.VIEWER)
    return getattr(view, "write_role", None)


def allows(key: ApiKey, view: Any, method: str, needed: Role) -> bool:
    scopes = set(key.scopes)
    if key.is_narrowed:
        scopes &= RUNTIME_SCOPES
    if Scope.ADMIN in scopes:
        return True
    if Scope.INVOKE in scopes and getattr(view, "invokes", False):
        return True
    if method not in SAFE_METHODS and not getattr(view, "only_reads", False):
        return Scope.DESIGN in scopes and needed == Role.DESIGNER
    if scopes & {Scope.READ, Scope.DESIGN}:
        return True
    return Scope.RUNTIME in scopes and getattr(view, "runtime", False)
