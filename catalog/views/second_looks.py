from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from catalog.second_look import runs as second_look
from catalog.views.endpoints import live_endpoint
from core.errors import DomainError
from people.models import Role
from people.permissions import person, requires


@requires(Role.ADMIN)
@require_POST
def endpoint_second_look(request: HttpRequest, pk: int) -> HttpResponse:
    """Look now, or switch the weekly one off and on again."""
    row, actor = live_endpoint(pk), person(request)
    try:
        if "is_off" in request.POST:
            second_look.switch(row, actor=actor, is_off=request.POST["is_off"] == "1")
        else:
            second_look.request(row, actor=actor)
    except DomainError as error:
        messages.error(request, error.message)
    return redirect("endpoint", row.pk)
