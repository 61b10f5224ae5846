from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog import connections, previews, protocols
from catalog.forms import NEW, PreviewForm
from catalog.models import Credential, Endpoint
from people.errors import DomainError
from people.models import Role
from people.permissions import requires


@sensitive_post_parameters("secret")
@requires(Role.ADMIN)
@require_POST
def endpoint_preview(request: HttpRequest) -> HttpResponse:
    """Beside the form that it was asked from, or the whole page around it."""
    form = PreviewForm(request.POST, request.FILES)
    found = None
    if form.is_valid():
        try:
            found = previews.preview(_draft(form))
        except DomainError as error:
            form.refuse(error)
    template = "_preview.html" if "HX-Request" in request.headers else "endpoint_new.html"
    context = {"form": form, "preview": found, "refused": _refused(form)}
    return render(request, f"catalog/{template}", context)


def _draft(form: PreviewForm) -> Endpoint:
    given, settings = form.cleaned_data, form.settings()
    return connections.draft_endpoint(
        protocol=given["protocol"],
        url=given["url"],
        credential=_credential(form),
        settings=settings,
    )


def _credential(form: PreviewForm) -> Credential | None:
    given = form.cleaned_data
    if given["credential"] != NEW:
        return Credential.objects.get(pk=given["credential"]) if given["credential"] else None
    url = protocols.get(given["protocol"]).credential_url(given["url"].strip(), form.settings())
    own = {name: given[name] for name in ("kind", "secret")}
    return connections.draft_credential(name="new", url=url, **own, **form.details())


def _refused(form: PreviewForm) -> list[str]:
    """What is wrong, each with the field that it is about."""
    return [
        f"{form.fields[name].label or name}: {sentence}" if name in form.fields else str(sentence)
        for name, sentences in form.errors.items()
        for sentence in sentences
    ]
