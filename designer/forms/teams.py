from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from designer.forms.base import offer
from designer.models import Agent
from people.forms import ModelOperationForm, OperationForm
from people.models import Team, User


class TeamForm(ModelOperationForm):
    class Meta:
        model = Team
        fields = ("name",)


class MemberForm(OperationForm):
    person = forms.ModelChoiceField(
        queryset=User.objects.none(), to_field_name="username", empty_label=gettext_lazy("Choose a person")
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "person", User.objects.filter(is_active=True).exclude(teams=team))


class MovedAgentForm(OperationForm):
    """An agent of another team; its sub-agents come along."""

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.none(), to_field_name="slug", empty_label=gettext_lazy("Choose an agent")
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "agent", Agent.objects.active().filter(parent=None).exclude(team=team))
