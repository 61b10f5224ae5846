from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from catalog.models import Tool
from catalog.notifications import subscriptions, webhooks
from catalog.notifications.models import Delivery, Mail, MailAddress, SendingState, Webhook
from core.errors import DomainError
from core.pagination import Keyset
from designer.agents import agents
from designer.models import Agent
from designer.news import agent_webhooks, following, news
from designer.news.notification_forms import AddressForm, EventsForm, WebhookChangeForm, WebhookForm
from people.forms import show_errors
from people.models import Role, User
from people.permissions import person, requires, requires_post

SHOWN = 20
FOLLOWED_SHOWN = 100


@requires(write=Role.VIEWER)
def notifications(request: HttpRequest) -> HttpResponse:
    """The user's subscriptions and, for administrators, the webhooks."""
    user = person(request)
    form = EventsForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        subscriptions.choose(user, form.cleaned_data["events"])
        messages.success(request, _("Saved. You get these notifications from now on."))
        return redirect("notifications")
    return _render_page(request, user, form=form)


@requires_post(Role.VIEWER)
def address(request: HttpRequest) -> HttpResponse:
    user = person(request)
    form = AddressForm(request.POST)
    if not form.is_valid():
        return _render_page(request, user, address_form=form)
    try:
        row = subscriptions.set_address(user, **form.cleaned_data)
        subscriptions.ask_to_confirm(user)
    except DomainError as error:
        form.refuse(error)
        return _render_page(request, user, address_form=form)
    if row.confirmed_at:
        messages.success(request, _("Saved."))
    else:
        messages.success(
            request,
            _("A mail with a link was sent to {address}. Open it within a day.").format(address=row.address),
        )
    return redirect("notifications")


@requires_post(Role.VIEWER)
def address_forget(request: HttpRequest) -> HttpResponse:
    subscriptions.forget_address(person(request))
    messages.success(request, _("The address was removed. You get no more mail."))
    return redirect("notifications")


@never_cache
@requires(write=Role.VIEWER)
def confirm(request: HttpRequest) -> HttpResponse:
    """The link in the mail shows a button: programs that look into mail follow links."""
    token = request.POST.get("token") or request.GET.get("token", "")
    if request.method == "POST":
        with show_errors(request):
            row = subscriptions.confirm(person(request), token)
            messages.success(
                request, _("Confirmed. Mail goes to {address} from now on.").format(address=row.address)
            )
        return redirect("notifications")
    return render(request, "designer/notifications/confirm.html", {"token": token})


@never_cache
@requires(Role.DESIGNER)
def webhook_new(request: HttpRequest) -> HttpResponse:
    """Add a webhook. The POST shows the secret without a redirect, because no request stores it."""
    actor = person(request)
    owner = None if actor.can_administer else actor
    start = {"agents": request.GET.getlist("agent")}
    form = WebhookForm(request.POST or None, initial=start, agents=_agent_tree(actor), owner=owner)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            row, secret = agent_webhooks.create(actor=actor, **form.facts())
            return _show_secret(request, row, secret.reveal())
    return render(request, "designer/notifications/webhook_new.html", {"form": form})


@requires(Role.DESIGNER)
def webhook(request: HttpRequest, pk: Any) -> HttpResponse:
    row = _find_webhook(request, pk)
    webhook_agents = agent_webhooks.agents_of(row)
    start = {"name": row.name, "events": row.events, "agents": [agent.slug for agent in webhook_agents]}
    form = WebhookChangeForm(
        request.POST or None, initial=start, agents=_agent_tree(person(request)), owner=row.owner
    )
    address = webhooks.shown_address(row)
    form.fields["url"].help_text = (
        _("{address} is kept encrypted. Enter another one, or leave this empty.").format(address=address)
        if address
        else _("Its address cannot be decrypted any more. Enter it again.")
    )
    form.edits(webhooks.facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            agent_webhooks.update(row, actor=person(request), expected=form.expected, **form.facts())
            messages.success(request, _("Saved."))
            return redirect("webhook", row.pk)
    newest = Delivery.objects.filter(webhook=row).select_related("notice")[:SHOWN]
    waiting = Delivery.objects.filter(webhook=row, state=SendingState.WAITING).count()
    context = {
        "webhook": row,
        "form": form,
        "deliveries": newest,
        "waiting": waiting,
        "named": webhook_agents,
    }
    return render(request, "designer/notifications/webhook.html", context, status=form.status)


@requires_post(Role.DESIGNER)
def webhook_test(request: HttpRequest, pk: Any) -> HttpResponse:
    row = _find_webhook(request, pk)
    delivery = webhooks.send_test(row, actor=person(request))
    if delivery.error:
        messages.error(request, _("The test failed. {error}").format(error=delivery.error))
    else:
        messages.success(
            request,
            _("The test was delivered: the address answered {status}.").format(status=delivery.status),
        )
    return redirect("webhook", row.pk)


@requires_post(Role.DESIGNER)
def webhook_pause(request: HttpRequest, pk: Any) -> HttpResponse:
    row = _find_webhook(request, pk)
    if row.is_paused:
        webhooks.resume(row, actor=person(request))
        messages.success(request, _("Resumed. Waiting deliveries are sent now."))
    else:
        webhooks.pause(row, actor=person(request))
        messages.success(request, _("Paused. Events wait for up to three days."))
    return redirect("webhook", row.pk)


@never_cache
@requires_post(Role.DESIGNER)
def webhook_secret(request: HttpRequest, pk: Any) -> HttpResponse:
    row = _find_webhook(request, pk)
    secret = webhooks.replace_secret(row, actor=person(request))
    return _show_secret(request, row, secret.reveal())


@requires_post(Role.DESIGNER)
def webhook_remove(request: HttpRequest, pk: Any) -> HttpResponse:
    row = _find_webhook(request, pk)
    webhooks.remove(row, actor=person(request))
    messages.success(request, _("“{name}” and its secret were removed.").format(name=row))
    return redirect("notifications")


def _show_secret(request: HttpRequest, row: Webhook, plain: str) -> HttpResponse:
    return render(request, "designer/notifications/webhook_secret.html", {"webhook": row, "plain": plain})


@requires_post(Role.VIEWER)
def agent_follow(request: HttpRequest, slug: str) -> HttpResponse:
    user = person(request)
    agent = get_object_or_404(Agent.objects.active().visible_to(user), slug=slug)
    return _follow_or_unfollow(request, agent, redirect("agent", agent.slug))


@requires_post(Role.VIEWER)
def tool_follow(request: HttpRequest, pk: int) -> HttpResponse:
    tool = get_object_or_404(Tool, pk=pk)
    return _follow_or_unfollow(request, tool, redirect("tool", tool.pk))


def _follow_or_unfollow(request: HttpRequest, target: Agent | Tool, page: HttpResponse) -> HttpResponse:
    is_following = request.POST.get("follow") == "1"
    following.follow(person(request), target, is_following=is_following)
    if is_following:
        messages.success(
            request,
            _("You follow {subject} from now on. See “Notifications” for its news.").format(subject=target),
        )
    else:
        messages.success(request, _("You do not follow {subject} any more.").format(subject=target))
    return redirect("notifications") if request.POST.get("back") == "notifications" else page


def _find_webhook(request: HttpRequest, pk: Any) -> Webhook:
    return get_object_or_404(agent_webhooks.visible_to(person(request)), pk=pk)


def _agent_tree(user: User) -> list[tuple[int, Agent]]:
    return agents.in_tree_order(list(Agent.objects.active().visible_to(user).order_by("name", "id")))


def _render_page(
    request: HttpRequest,
    user: User,
    form: EventsForm | None = None,
    address_form: AddressForm | None = None,
) -> HttpResponse:
    row = MailAddress.objects.filter(user=user).first()
    notices = news.notices_of(user)
    initial = {"address": row.address, "pause_minutes": row.pause_minutes} if row else {}
    context = {
        "form": form or EventsForm(user=user),
        "address_form": address_form or AddressForm(initial=initial),
        "address": row,
        "mail_is_set_up": settings.MAIL_IS_SET_UP,
        "last_mail": Mail.objects.filter(user=user, attempts__gt=0).order_by("-created_at").first(),
        "webhooks": agent_webhooks.visible_to(user) if user.can_design else None,
        "page": Keyset(notices, "-told_at").page(request.GET.get("cursor"), SHOWN),
        "followed": following.followed_agents(user).select_related("parent")[:FOLLOWED_SHOWN],
        "followed_tools": following.followed_tools(user).select_related("endpoint__vendor")[:FOLLOWED_SHOWN],
    }
    return render(request, "designer/notifications/index.html", context)
