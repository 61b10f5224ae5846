from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from core.pagination import Keyset
from people import users
from people.forms import PasswordForm, PersonChangeForm, PersonForm
from people.models import Role, Team, User
from people.permissions import person, requires, requires_post

PAGE_SIZE = 50


@requires(Role.VIEWER)
def user_list(request: HttpRequest) -> HttpResponse:
    page = Keyset(User.objects.all(), "username").page(request.GET.get("cursor"), PAGE_SIZE)
    return render(request, "people/users.html", {"page": page})


@sensitive_post_parameters("password")
@requires(Role.ADMIN)
def user_new(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            user = users.add_user(actor=person(request), **form.cleaned_data)
            messages.success(
                request, _("{user} can sign in now. Tell them the password another way.").format(user=user)
            )
            return redirect("user-list")
    return render(request, "people/user_new.html", {"form": form})


@requires(Role.ADMIN)
def user(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(User, pk=pk)
    now = {"name": row.name, "role": row.role, "is_active": row.is_active}
    form = PersonChangeForm(request.POST or None, initial=now)
    form.edits(users.facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            users.update_user(row, actor=person(request), expected=form.expected, **form.cleaned_data)
            messages.success(
                request, _("Saved. With another role, {user} has to sign in again.").format(user=row)
            )
            return redirect("user-list")
    return _user_page(request, row, form, PasswordForm())


@sensitive_post_parameters("password")
@requires_post(Role.ADMIN)
def user_password(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(User, pk=pk)
    form = PasswordForm(request.POST)
    if form.is_valid():
        with form.catch_errors():
            users.set_password(row, actor=person(request), **form.cleaned_data)
            if row == request.user:
                update_session_auth_hash(request, row)
            messages.success(
                request, _("{user} signs in with the new password from now on.").format(user=row)
            )
            return redirect("user", row.pk)
    now = {"name": row.name, "role": row.role, "is_active": row.is_active}
    change_form = PersonChangeForm(initial=now)
    change_form.edits(users.facts(row))
    return _user_page(request, row, change_form, form)


def _user_page(
    request: HttpRequest, row: User, form: PersonChangeForm, password_form: PasswordForm
) -> HttpResponse:
    stored_user = User.objects.get(pk=row.pk)
    context = {
        "person": stored_user,
        "form": form,
        "password_form": password_form,
        "teams": Team.objects.live().filter(members=stored_user),
        "key_count": sum(key.is_usable(timezone.now()) for key in stored_user.api_keys.all()),
    }
    return render(request, "people/user.html", context, status=form.status)
