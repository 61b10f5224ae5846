from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from catalog.views.asked import number
from core.errors import DomainError
from core.pagination import Keyset
from core.public_url import public_url, runtimes_url
from designer.agents import agent_keys, agents
from designer.exports import FORMATS
from designer.forms.keys import KeyForm
from designer.models import Agent
from people import api_keys
from people.models import MAX_CALLS_AT_ONCE, RUNTIME_SCOPES, Role
from people.permissions import person, requires, requires_post

PAGE_SIZE = 50


@requires(Role.VIEWER)
def key_list(request: HttpRequest) -> HttpResponse:
    page = Keyset(agent_keys.visible_to(person(request)), "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    rows = [(key, agent_keys.agents_of(key)) for key in page.rows]
    key_agents = {agent for _, agents_of_key in rows for agent in agents_of_key}
    context = {"page": page, "keys": rows, "most_calls_at_once": MAX_CALLS_AT_ONCE}
    context["places"] = agent_keys.environments_of(key_agents) if key_agents else []
    return render(request, "designer/keys.html", context)


@never_cache
@requires(write=Role.VIEWER)
def key_new(request: HttpRequest) -> HttpResponse:
    owner = person(request)
    rows = agents.in_tree_order(list(Agent.objects.active().visible_to(owner).order_by("name", "id")))
    start = {"agents": request.GET.getlist("agent")}
    places = agent_keys.environments_of(row for _, row in rows)
    form = KeyForm(request.POST or None, initial=start, agents=rows, environments=places)
    if request.method == "POST" and form.is_valid():
        facts = form.facts()
        with form.catch_errors():
            key, plain = agent_keys.issue(owner, actor=owner, **facts)
            context = {"key": key, "plain": plain, "agents": facts["agents"]}
            # The address of something that the key may read.
            slug = facts["agents"][0].slug if facts["agents"] else "AGENT"
            live = f"/api/v1/agents/{slug}/releases/live/tools/?format={FORMATS[0].name}"
            is_runtime = set(key.scopes) <= RUNTIME_SCOPES
            context["example"] = (
                runtimes_url(live, request) if is_runtime else public_url(reverse("api-key-list"), request)
            )
            # The POST is answered without a redirect: the key must not be kept between two requests.
            return render(request, "designer/key_made.html", context)
    return render(request, "designer/key_new.html", {"form": form})


@requires_post(Role.VIEWER)
def key_limit(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(api_keys.visible_to(person(request)), pk=pk)
    try:
        requested = number(request.POST.get("calls_at_once", ""))
        api_keys.limit_calls(key, actor=person(request), calls_at_once=requested)
    except DomainError as error:
        messages.error(request, error.fields["calls_at_once"])
    else:
        messages.success(
            request,
            _("{key} may have {number} concurrent calls from now on.").format(key=key.name, number=requested),
        )
    return redirect("key-list")


@requires_post(Role.VIEWER)
def key_environment(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(api_keys.visible_to(person(request)), pk=pk)
    requested, was = request.POST.get("environment", ""), request.POST.get("was")
    try:
        agent_keys.change_environment(key, actor=person(request), environment=requested, expected=was)
    except DomainError as error:
        messages.error(request, next(iter(error.fields.values()), error.message))
    else:
        message = (
            _("{key} runs tools in “{environment}” only from now on.")
            if requested
            else _(
                "{key} runs tools in the environment of each call, or the default environment from now on."
            )
        )
        messages.success(request, message.format(key=key.name, environment=requested))
    return redirect("key-list")


@requires_post(Role.VIEWER)
def key_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(api_keys.visible_to(person(request)), pk=pk)
    api_keys.revoke(key, actor=person(request))
    messages.success(
        request, _("{key} is revoked. Programs that use it are refused from now on.").format(key=key.name)
    )
    return redirect("key-list")


@requires_post(Role.ADMIN)
def key_restore(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(api_keys.visible_to(person(request)), pk=pk)
    api_keys.restore(key, actor=person(request))
    messages.success(
        request, _("Clients that {user} signs in can use the agent again.").format(user=key.user)
    )
    return redirect("key-list")
