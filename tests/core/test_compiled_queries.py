from threading import Thread

import pytest
from django.db import connection
from django.db.models import Count
from django.db.models.expressions import RawSQL
from django.db.models.sql.compiler import SQLCompiler

from core.compiled_queries import CompiledQuery, RepeatedQuery, given, given_keys
from core.prepared_statements import run_prepared
from designer.models import Agent, Pin
from people import teams
from people.models import Role, Team, User
from people.permissions import any_user
from tests.factories import make_agent, make_pin, make_user

pytestmark = pytest.mark.django_db


def test_it_reads_what_its_queryset_reads(django_assert_num_queries):
    pin = make_pin()
    shown = Pin.objects.select_related("agent").only("name", "agent__name").annotate(count=Count("tool"))
    compiled = CompiledQuery(shown)

    with django_assert_num_queries(1):
        [row] = compiled.rows()
        assert (row, row.name, row.agent.name, row.count) == (pin, pin.name, pin.agent.name, 1)
    assert "alias" in row.get_deferred_fields()


def test_what_it_reads_is_as_new_as_the_reading():
    compiled = CompiledQuery(Agent.objects.live())

    assert compiled.rows() == []
    assert [make_agent()] == compiled.rows()


def test_each_reading_has_its_own_values():
    users = [make_user() for _ in range(3)]
    of_these = CompiledQuery(User.objects.filter(pk__in=given_keys("users")).values_list("pk", flat=True))
    named = CompiledQuery(User.objects.filter(pk=given("user")).values("username"))

    assert set(of_these.rows(users=[users[0].pk, users[2].pk])) == {users[0].pk, users[2].pk}
    assert of_these.rows(users=[]) == []
    for user in users:
        assert named.rows(user=user.pk) == [{"username": user.username}]


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(KeyError):
        CompiledQuery(User.objects.filter(pk=given("user"))).rows()


def test_the_sql_is_put_together_once(monkeypatch):
    agent = make_agent()
    compiled = CompiledQuery(Agent.objects.live().select_related("team"))
    monkeypatch.setattr(SQLCompiler, "as_sql", lambda *_, **__: pytest.fail("It is put together again."))

    assert [row.pk for row in compiled.rows()] == [agent.pk]


def test_it_shows_each_user_what_their_role_and_teams_let_them_see():
    """One query for each role, for every user: each user must get the rows of `visible_to`."""
    own, others = make_agent(slug="own"), make_agent(slug="others")
    admin, designer, viewer = (make_user(role) for role in (Role.ADMIN, Role.DESIGNER, Role.VIEWER))
    for agent, member in ((own, designer), (others, viewer)):
        team = teams.create_team(actor=admin, name=agent.slug)
        teams.add_member(team, actor=admin, user=member)
        Agent.objects.filter(pk=agent.pk).update(team=team)
    compiled = {role: CompiledQuery(Agent.objects.visible_to(any_user(role))) for role in Role}

    for user, seen in ((admin, {own, others}), (designer, {own}), (viewer, {others}), (designer, {own})):
        assert set(compiled[Role(user.role)].rows(user=user.pk)) == seen


def test_every_thread_reads_on_a_connection_of_its_own():
    compiled = CompiledQuery(User.objects.values_list("pk"))
    compiled.rows()
    read = []

    def elsewhere():
        try:
            read.append(compiled.rows())
        finally:
            connection.close()

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(read) == 1


def of_agents() -> RepeatedQuery[Agent]:
    rows = Agent.objects.filter(pk=given("agent")).select_related("team").order_by()
    return RepeatedQuery(rows.annotate(number=RawSQL("random()", [])), fresh="number", most=2)


def test_a_row_that_is_as_before_is_copied(monkeypatch, django_assert_num_queries):
    team = Team.objects.create(name="Here", slug="here")
    agent = make_agent(team=team)
    query = of_agents()
    first = query.one(run_prepared, agent=agent.pk)
    monkeypatch.setattr(Agent, "__init__", lambda *_, **__: pytest.fail("It is made again."))
    with django_assert_num_queries(1):
        second = query.one(run_prepared, agent=agent.pk)
        assert (second, second.name, second.team) == (agent, agent.name, team)
    assert first.number != second.number
    # What is done to one of them is not seen by the other.
    second.name, second.team.name = "Another", "Elsewhere"
    third = query.one(run_prepared, agent=agent.pk)
    assert (third.name, third.team.name) == (agent.name, "Here")
    assert third._state.fields_cache["team"] is third.team


def test_a_row_that_has_changed_is_read_anew():
    agent = make_agent(team=Team.objects.create(name="Here", slug="here"))
    query = of_agents()
    assert query.one(run_prepared, agent=agent.pk).team.name == "Here"
    Team.objects.update(name="There")
    assert query.one(run_prepared, agent=agent.pk).team.name == "There"
    Agent.objects.update(team=Team.objects.create(name="Far", slug="far"))
    assert query.one(run_prepared, agent=agent.pk).team.name == "Far"
    assert query.one(run_prepared, agent=0) is None
    for _ in range(3):
        query.one(run_prepared, agent=make_agent().pk)
    assert len(query._known) <= 2
