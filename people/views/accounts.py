"""Signing in, signing out, and one's own password."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from core.client_ip import client_address
from core.errors import DomainError
from people import first_administrator, login_lockout, users
from people.forms import FirstAdministratorForm, OwnPasswordForm, SignInForm
from people.models import Role
from people.permissions import person, public, requires

_WINDOW_SECONDS = str(int(login_lockout.WINDOW.total_seconds()))


@method_decorator(sensitive_post_parameters("password"), name="dispatch")
class SignInView(LoginView):
    template_name = "people/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.LOCAL_SIGN_IN:
            raise PermissionDenied(_("Passwords are switched off here. Use single sign-on."))
        if login_lockout.must_wait(request, self._username()):
            form = SignInForm(request, initial={"username": self._username()})
            context = self.get_context_data(form=form, must_wait=login_lockout.WAIT)
            return self.render_to_response(context, status=429, headers={"Retry-After": _WINDOW_SECONDS})
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        login_lockout.forget(self.request, self._username())
        login_lockout.begin_session(self.request, form.get_user())
        response = redirect(self.get_success_url())
        login_lockout.remember_browser(response, person(self.request))
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        if form.has_error("__all__", "invalid_login"):
            login_lockout.note_failure(self.request, self._username())
        return super().form_invalid(form)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        can_begin = settings.LOCAL_SIGN_IN and first_administrator.is_open()
        return super().get_context_data(**kwargs, **_ways_in(), can_begin=can_begin)

    def _username(self) -> str:
        return self.request.POST.get("username", "")


def _ways_in() -> dict[str, Any]:
    return {"single_sign_on": settings.OIDC and settings.OIDC["name"], "local": settings.LOCAL_SIGN_IN}


@never_cache
@sensitive_post_parameters("code", "password")
@public
def first_account(request: HttpRequest) -> HttpResponse:
    """Create the first administrator with the code of the terminal. Without one, the page does not exist."""
    if not settings.LOCAL_SIGN_IN or not first_administrator.is_open():
        raise Http404
    form = FirstAdministratorForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            user = first_administrator.create(**form.cleaned_data, address=client_address(request))
        except DomainError as error:
            form.refuse(error)
            status = error.status
        else:
            login_lockout.begin_session(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
            return redirect("home")
    return render(request, "people/first_administrator.html", {"form": form}, status=status)


@sensitive_post_parameters("old", "password")
@requires(write=Role.VIEWER)
def own_password(request: HttpRequest) -> HttpResponse:
    user = person(request)
    form = OwnPasswordForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            users.set_password(user, actor=user, password=form.cleaned_data["password"])
            update_session_auth_hash(request, user)
            messages.success(request, _("Your password was changed. Other browsers have to sign in again."))
            return redirect("home")
    return render(request, "people/password.html", {"form": form, **_ways_in()})
