from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from people import tokens
from people.errors import DomainError
from people.forms import KeyForm
from people.keyset import Keyset
from people.models import Role, Scope
from people.permissions import person, requires

PAGE_SIZE = 50
RELEASE = "/api/v1/agents/AGENT/releases/live/tools/"


@requires(Role.VIEWER)
def key_list(request: HttpRequest) -> HttpResponse:
    page = Keyset(tokens.visible_to(person(request)), "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    return render(request, "people/keys.html", {"page": page})


@never_cache
@requires(write=Role.VIEWER)
def key_new(request: HttpRequest) -> HttpResponse:
    """Answers the POST itself, without a redirect: the token must not be kept between two requests."""
    form = KeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        owner = person(request)
        try:
            key, plain = tokens.issue(owner, actor=owner, **form.facts())
        except DomainError as error:
            form.refuse(error)
        else:
            path = RELEASE if key.scopes == [Scope.RUNTIME] else reverse("api-key-list")
            example = request.build_absolute_uri(path)
            context = {"key": key, "plain": plain, "example": example}
            return render(request, "people/key_made.html", context)
    return render(request, "people/key_new.html", {"form": form})


@requires(write=Role.VIEWER)
@require_POST
def key_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(tokens.visible_to(person(request)), pk=pk)
    tokens.revoke(key, actor=person(request))
    messages.success(request, f"{key.name} is revoked. Whatever used it is refused from now on.")
    return redirect("key-list")
