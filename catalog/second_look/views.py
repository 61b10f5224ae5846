from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from catalog.models import Endpoint
from catalog.second_look import runs
from core.errors import DomainError
from people.models import Role
from people.permissions import person, requires_post


@requires_post(Role.ADMIN)
def endpoint_second_look(request: HttpRequest, pk: int) -> HttpResponse:
    """Look now, turn it on or off, or give the other client a name."""
    row, actor = get_object_or_404(Endpoint.objects.live(), pk=pk), person(request)
    try:
        if "is_on" in request.POST:
            is_on, other_name = request.POST["is_on"] == "1", request.POST.get("other_name")
            runs.switch(row, actor=actor, is_on=is_on, other_name=other_name)
        else:
            runs.request(row, actor=actor)
    except DomainError as error:
        messages.error(request, error.fields.get("other_name", error.message))
    return redirect("endpoint", row.pk)
