"""Code that the pages of a pin and of a tool share for tuned texts."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.views.asked import number
from designer.models import Pin
from designer.pins import tunings
from people.audit import edit_conflicts
from people.forms import show_errors
from people.permissions import person


def restore_words(request: HttpRequest, target: Pin | Tool) -> None:
    with show_errors(request):
        tunings.restore(
            target,
            actor=person(request),
            entry=number(request.POST.get("entry", "")),
            expected=request.POST.get("expected", edit_conflicts.ANY_STATE),
        )
        messages.success(request, _("The text was restored."))


def settle_member(request: HttpRequest, target: Pin | Tool) -> None:
    take = request.POST.get("take", "")
    if take not in ("ours", "theirs", "merged"):
        messages.error(request, _("Choose which text to keep."))
        return
    with show_errors(request):
        tunings.settle(
            target,
            actor=person(request),
            member=request.POST.get("member", ""),
            take=cast(tunings.Take, take),
            expected=request.POST.get("expected", edit_conflicts.ANY_STATE),
        )
        messages.success(request, _("Your choice was saved."))
