from django import template
from django.template import Context

from people.models import Role
from people.permissions import reason_against

register = template.Library()


@register.simple_tag(takes_context=True, name="reason_against")
def reason_against_role(context: Context, role: str) -> str:
    """`{% reason_against "designer" as reason %}`: why this person may not, or "" when they may."""
    return reason_against(context["user"], Role(role))
