import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from execution.calls import run_hints
from people.permissions import public


@csrf_exempt
@public
@require_POST
def run_hint(request: HttpRequest, key: uuid.UUID, proof: str) -> HttpResponse:
    """Receive a vendor's hint that the status of a run has changed. Its body is not read."""
    if not run_hints.take(key, proof):
        raise Http404
    return HttpResponse(status=200)
