from django import template
from django.template import Context

from people.models import Role
from people.permissions import reason_against

register = template.Library()


class RoleReason(str):
    """A refusal that only another role removes. Pages omit the refused action."""

    __slots__ = ()
    is_of_role = True


@register.simple_tag(takes_context=True, name="reason_against")
def reason_against_role(context: Context, role: str) -> str:
    """`{% reason_against "designer" as reason %}`: return why this person may not, or "" if they may."""
    reason = reason_against(context["user"], Role(role))
    return RoleReason(reason) if reason else ""
