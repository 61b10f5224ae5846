from threading import Thread

import pytest
from django.db import connection
from django.db.models import Count, F
from django.db.models.sql.compiler import SQLCompiler

from core.compiled_queries import CompiledQuery, PreparedQuery, PreparedQueryByKeys, named_keys, named_value
from designer.models import Agent, Pin
from people import teams
from people.models import Role, User
from people.permissions import QueryByRole
from tests.factories import make_agent, make_pin, make_tool, make_user

pytestmark = pytest.mark.django_db


def test_it_reads_what_its_queryset_reads(django_assert_num_queries):
    pin = make_pin()
    queryset = Pin.objects.select_related("agent").only("name", "agent__name").annotate(count=Count("tool"))
    compiled = CompiledQuery(queryset)

    with django_assert_num_queries(1):
        [row] = compiled.rows()
        assert (row, row.name, row.agent.name, row.count) == (pin, pin.name, pin.agent.name, 1)
    assert "alias" in row.get_deferred_fields()


def test_rows_share_the_object_that_they_relate_to():
    agent = make_agent()
    pins = [make_pin(agent=agent) for _ in range(2)]
    # By key: pins are sorted by name, and "tool_102" comes before "tool_99".
    rows = Pin.objects.select_related("agent", "tuning", "tool__endpoint").order_by("pk")
    first, second = CompiledQuery(rows).rows()

    assert [first.agent, first.tool] == [agent, pins[0].tool]
    assert first.agent is second.agent
    assert first.tool is not second.tool
    assert not first._state.adding
    assert not hasattr(first, "tuning")


def test_what_it_reads_is_as_new_as_the_reading():
    compiled = CompiledQuery(Agent.objects.live())

    assert compiled.rows() == []
    assert [make_agent()] == compiled.rows()


def test_each_reading_has_its_own_values():
    users = [make_user() for _ in range(3)]
    of_these = CompiledQuery(User.objects.filter(pk__in=named_keys("users")).values_list("pk", flat=True))
    compiled = CompiledQuery(User.objects.filter(pk=named_value("user")).values("username"))

    assert set(of_these.rows(users=[users[0].pk, users[2].pk])) == {users[0].pk, users[2].pk}
    assert of_these.rows(users=[]) == []
    for user in users:
        assert compiled.rows(user=user.pk) == [{"username": user.username}]


def test_a_prepared_query_reads_the_rows_of_one_key_and_of_several(django_assert_num_queries):
    pins = [make_pin() for _ in range(3)]
    by_agent = PreparedQueryByKeys(
        "designer_pin.agent_id", lambda is_of_agents: Pin.objects.filter(is_of_agents)
    )
    agents = [pin.agent_id for pin in pins]

    assert by_agent.rows([agents[1]]) == [pins[1]]
    assert set(by_agent.rows({agents[0], agents[2]})) == {pins[0], pins[2]}
    with django_assert_num_queries(0):
        assert by_agent.rows([]) == []


def test_a_prepared_query_of_one_key_stops_planning():
    agent = make_agent()
    by_agent = PreparedQueryByKeys(
        "designer_pin.agent_id", lambda is_of_agents: Pin.objects.filter(is_of_agents)
    )
    for _ in range(7):
        by_agent.rows([agent.pk])

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT custom_plans, generic_plans >= 2 FROM pg_prepared_statements "
            "WHERE statement LIKE '%FROM \"designer_pin\" WHERE%agent_id = $1::bigint%'"
        )
        assert cursor.fetchall() == [(5, True)]


def test_lists_of_values_are_those_of_the_queryset():
    tool = make_tool()
    for queryset in (
        Pin.objects.values_list("name", "retry"),
        Pin.objects.values_list("retry", flat=True),
        Pin.objects.order_by("agent__name", "pk").values_list("agent_id").distinct(),
        Pin.objects.values("retry", "name"),
        Pin.objects.values_list("name", named=True),
        Pin.objects.order_by("agent__name", "pk").distinct(),
    ):
        for pin in (None, make_pin(tool=tool, retry={"attempts": 2})):
            assert pin is None or len(queryset.all()) > 0
            assert CompiledQuery(queryset).rows() == PreparedQuery(queryset).rows() == list(queryset.all())


def test_an_annotation_is_converted():
    pin = make_pin(retry={"attempts": 2})
    [row] = PreparedQuery(Pin.objects.select_related("tool").annotate(kept=F("retry"))).rows()
    assert (row.kept, row.retry, row.tool) == ({"attempts": 2}, {"attempts": 2}, pin.tool)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(KeyError):
        CompiledQuery(User.objects.filter(pk=named_value("user"))).rows()


def test_the_sql_is_put_together_once(monkeypatch):
    agent = make_agent()
    compiled = CompiledQuery(lambda: Agent.objects.live().select_related("team"))
    compiled.rows()
    monkeypatch.setattr(SQLCompiler, "as_sql", lambda *_, **__: pytest.fail("It is put together again."))

    assert [row.pk for row in compiled.rows()] == [agent.pk]


def test_it_shows_each_user_what_their_role_and_teams_let_them_see():
    """One query for each role, for every user: each user must get the rows of `visible_to`."""
    own_agent, others = make_agent(slug="own"), make_agent(slug="others")
    admin, designer, viewer = (make_user(role) for role in (Role.ADMIN, Role.DESIGNER, Role.VIEWER))
    for agent, member in ((own_agent, designer), (others, viewer)):
        team = teams.create_team(actor=admin, name=agent.slug)
        teams.add_member(team, actor=admin, user=member)
        Agent.objects.filter(pk=agent.pk).update(team=team)
    query = QueryByRole(Agent.objects.visible_to)

    for user, visible_agents in (
        (admin, {own_agent, others}),
        (designer, {own_agent}),
        (viewer, {others}),
        (designer, {own_agent}),
    ):
        assert set(query.rows(user)) == visible_agents


def test_every_thread_reads_on_a_connection_of_its_own():
    compiled = CompiledQuery(User.objects.values_list("pk"))
    compiled.rows()
    rows = []

    def elsewhere():
        try:
            rows.append(compiled.rows())
        finally:
            connection.close()

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(rows) == 1
