import pytest
from django.db import IntegrityError

from designer.agents import agents
from designer.models import Agent
from people.models import Role, everyone
from tests.factories import make_user


@pytest.mark.django_db
def test_a_breach_of_the_schema_is_no_name_that_is_taken(monkeypatch):
    monkeypatch.setattr(Agent._meta.get_field("name"), "get_db_prep_save", lambda *args, **kwargs: None)

    with pytest.raises(IntegrityError, match="not-null"):
        agents.create_agent(actor=make_user(Role.DESIGNER), name="Concierge", team=everyone())
