"""What is answered out of memory is what Django would answer now, and the database is asked each time."""

import io
import json
from datetime import timedelta

import pytest
import time_machine
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import OperationalError, close_old_connections, connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from designer.agents import agent_keys, agents
from designer.models import Retirement
from designer.pins import pins
from designer.releases import channels, publishing, readable
from pegboard.web import known_answers
from people import api_keys, teams, users
from people.models import ApiKey, Role, User
from tests.factories import make_tool, make_user
from tests.module_data import module_data

pytestmark = pytest.mark.django_db
MCP, EXPORT = "/serve/desk/live/mcp", "/api/v1/agents/desk/releases/live/tools/?format=mcp"
META = "io.modelcontextprotocol/"


class Site:
    """The application as the web server has it, and how often Django was asked."""

    def __init__(self, key):
        self.key, self.asked = key, 0
        django = WSGIHandler()

        def counted(environ, start):
            self.asked += 1
            return django(environ, start)

        self.application = known_answers.KnownAnswers(counted)

    def ask(self, method, path, body=b"", **headers):
        headers = {"Authorization": f"Bearer {self.key}", "X-Request-Id": "the-same-number", **headers}
        made = RequestFactory(headers=headers, SERVER_NAME="127.0.0.1")
        environ = made.generic(method, path, body, content_type="application/json").environ
        environ["wsgi.input"] = io.BytesIO(body)
        environ.setdefault("CONTENT_LENGTH", str(len(body)))
        heard = []
        reply = self.application(environ, lambda *told: heard.append(told[:2]))
        ((status, told),) = heard
        answer = status, dict(told), b"".join(reply)
        if close := getattr(reply, "close", None):
            close()
        return answer

    def listed(self, number=1, *, path=MCP, method="tools/list", **headers):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {}}
        return self.ask("POST", path, json.dumps(body).encode(), **headers)

    def unchanged(self, digest, **headers):
        return self.ask("GET", EXPORT, **{"If-None-Match": f'"{digest}"', **headers})

    def forgets(self, ask):
        """What Django says, whatever was said before."""
        known_answers.forget()
        return ask()


@pytest.fixture(autouse=True)
def nothing_is_known():
    # As Django's test client does: the connection is the test's own.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    known_answers.forget()
    yield
    known_answers.forget()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@module_data
def owner():
    return make_user(Role.DESIGNER)


@module_data
def releases(owner):
    agent = agents.create_agent(actor=owner, name="Desk", slug="desk")
    pins.pin_tool(agent, actor=owner, tool=make_tool())
    first = publishing.publish(agent, actor=owner)
    pins.pin_tool(agent, actor=owner, tool=make_tool(name="other"))
    return [first, publishing.publish(agent, actor=owner, channel="live")]


@pytest.fixture
def release(releases):
    return releases[-1]


@pytest.fixture
def site(owner, release):
    scopes = ("runtime", "invoke")
    _, plain = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[release.agent])
    site = Site(plain)
    # Each is fetched, with a receipt and the first use of the key; then it is said again, and is known.
    for _ in range(3):
        site.listed()
        site.unchanged(release.digest)
    return site


def told(answer):
    """Without a length, which a reply without a body need not have (RFC 9110, 8.6)."""
    status, headers, body = answer
    if not body:
        headers = {name: value for name, value in headers.items() if name != "Content-Length"}
    return status, headers, body


WAYS = {
    "list": lambda site, release: site.listed(),
    "304": lambda site, release: site.unchanged(release.digest),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_known_is_said_as_django_says_it_without_asking_it(site, release, way):
    asked = site.asked
    known = WAYS[way](site, release)
    assert site.asked == asked
    said = site.forgets(lambda: WAYS[way](site, release))
    assert site.asked == asked + 1
    assert told(known) == told(said)
    assert known[0] == ("200 OK" if way == "list" else "304 Not Modified")


@pytest.mark.parametrize("way", WAYS)
def test_the_database_is_asked_one_question_each_time(site, release, way):
    with CaptureQueriesContext(connection) as queries:
        WAYS[way](site, release)
    assert len(queries) == 1


@pytest.mark.parametrize("number", [2, 10**17, "a-1", "b.2:c"])
def test_the_answer_has_the_number_of_its_message(site, number):
    asked = site.asked
    status, headers, body = site.listed(number)
    assert (site.asked, status, json.loads(body)["id"]) == (asked, "200 OK", number)
    assert headers["Content-Length"] == str(len(body))


def test_each_answer_has_the_number_of_its_request(site):
    asked = site.asked
    ids = [site.listed(**{"X-Request-Id": given})[1]["X-Request-Id"] for given in ("request-1", "request-2")]
    assert (ids, site.asked) == (["request-1", "request-2"], asked)


def test_all_sessions_have_the_same_answer(site):
    asked, known = site.asked, site.listed()
    for said in ("pegboard-0123456789abcdef0123456789abcdef-forms", "another"):
        one = site.listed(**{"MCP-Session-Id": said})
        assert (told(one), site.asked) == (told(known), asked)
        assert told(one) == told(site.forgets(lambda said=said: site.listed(**{"MCP-Session-Id": said})))
        asked = site.asked


ODD = {
    "a number twice": b'{"jsonrpc": "2.0", "id": 1, "id": 1, "method": "tools/list", "params": {}}',
    "a number twice, hidden": b'{"jsonrpc": "2.0", "id": 1, "\\u0069d": 1, "method": "tools/list"}',
    "a number that is none": b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {}}',
    "no number": b'{"jsonrpc": "2.0", "method": "tools/list", "params": {}}',
    "a number elsewhere": b'{"jsonrpc": "2.0", "method": "tools/list", "params": {"id": 1}}',
    "a batch": b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
    "another method": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"of": "tools/list"}}',
    "a cursor": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}}',
    "no JSON": b'{"id": 1, "tools/list"',
    "nothing": b"",
}


@pytest.mark.parametrize("name", ODD)
def test_django_answers_what_is_odd(site, name):
    first, second = (site.ask("POST", MCP, ODD[name]) for _ in range(2))
    assert first == second == site.forgets(lambda: site.ask("POST", MCP, ODD[name]))
    asked = site.asked
    site.ask("POST", MCP, ODD[name])
    assert site.asked == asked + 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"MCP-Protocol-Version": "2024-11-05"},
        {"MCP-Protocol-Version": "2099-01-01"},
        {"Accept": "text/event-stream"},
        {"Host": "other.example"},
        {"Authorization": "Bearer pgb_short"},
        {"Authorization": "Basic eDp5"},
    ],
)
def test_any_other_header_is_another_question(site, headers):
    asked = site.asked
    one = site.listed(**headers)
    assert site.asked == asked + 1
    assert told(one) == told(site.forgets(lambda: site.listed(**headers)))


def moves_the_channel(owner, releases):
    channels.move(releases[0].agent, "live", actor=owner, release=releases[0])


def revokes_the_key(owner, releases):
    api_keys.revoke(ApiKey.objects.get(), actor=owner)


def ends_the_key(owner, releases):
    ApiKey.objects.update(expires_at=timezone.now())


def names_another_agent(owner, releases):
    other = agents.create_agent(actor=owner, name="Other")
    ApiKey.objects.get().named.update(agent=other)


def leaves(owner, releases):
    User.objects.filter(pk=owner.pk).update(is_active=False)


def goes_to_another_team(owner, releases):
    team = teams.create_team(actor=make_user(Role.ADMIN), name="Sales")
    agents.update_agent(releases[0].agent, actor=owner, team=team)


def removes_the_agent(owner, releases):
    agents.remove_agent(releases[0].agent, actor=owner)


def retires_the_release(owner, releases):
    Retirement.objects.create(release=releases[1], retired_at=timezone.now(), retired_by=owner, reason="Old.")


def publishes(owner, releases):
    agents.update_agent(releases[0].agent, actor=owner, description="Answers at the desk.")
    publishing.publish(releases[0].agent, actor=owner, channel="live")


CHANGES = [
    *(moves_the_channel, revokes_the_key, ends_the_key, names_another_agent, leaves, goes_to_another_team),
    *(removes_the_agent, retires_the_release, publishes),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_has_changed_holds_from_the_next_request_on(owner, site, releases, change, way):
    before = WAYS[way](site, releases[1])
    change(owner, releases)
    asked = site.asked
    now = WAYS[way](site, releases[1])
    assert site.asked == asked + 1
    assert told(now) == told(site.forgets(lambda: WAYS[way](site, releases[1])))
    # The tools are the same in a release that was published for other words.
    assert told(now) != told(before) or (change, way) == (publishes, "list")


def test_back_and_forth_each_release_has_its_own_answer(owner, site, releases):
    newest = site.listed()
    moves_the_channel(owner, releases)
    for _ in range(3):
        oldest = site.listed()
    asked = site.asked
    assert (site.listed(), site.asked) == (oldest, asked)
    channels.move(releases[0].agent, "live", actor=owner, release=releases[1])
    assert (site.listed(), site.asked) == (newest, asked)
    assert newest[2] != oldest[2]


def test_another_key_has_to_ask_for_itself(owner, site, release):
    other = agents.create_agent(actor=owner, name="Other")
    scopes = ("runtime", "invoke")
    _, stranger = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[other])
    assert site.listed(Authorization=f"Bearer {stranger}")[0] == "404 Not Found"
    _, colleague = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes, agents=[release.agent])
    asked = site.asked
    assert site.listed(Authorization=f"Bearer {colleague}") == site.listed()
    assert site.asked == asked + 1


@pytest.mark.parametrize("way", WAYS)
def test_who_asks_too_often_hears_so(site, release, settings, way):
    settings.CALLS_PER_MINUTE = 3
    # In another minute than those requests that made it known.
    with time_machine.travel(timezone.now().replace(second=30) + timedelta(minutes=2), tick=False):
        statuses = [WAYS[way](site, release)[0][:3] for _ in range(6)]
    assert statuses == [statuses[0]] * 3 + ["429"] * 3


def test_a_receipt_and_the_last_use_are_written_as_ever(site, release):
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        asked = site.asked
        site.listed()
        assert site.asked == asked + 1
        key = ApiKey.objects.get()
        assert timezone.now() - key.last_used_at < timedelta(minutes=1)
        last = release.receipts.get(surface="serve/mcp").last_at
        assert timezone.now() - last < timedelta(minutes=1)


@pytest.mark.parametrize("way", WAYS)
def test_each_request_has_its_line_in_the_log(site, release, caplog, way):
    def lines():
        caplog.clear()
        with caplog.at_level("INFO", "pegboard.requests"):
            WAYS[way](site, release)
        return [(each.getMessage(), each.facts | {"ms": 0}) for each in caplog.records]

    known = lines()
    assert len(known) == 1
    assert known == site.forgets(lines)


def test_django_says_that_the_database_is_away(site, monkeypatch):
    def away(*_, **__):
        raise OperationalError("connection refused")

    monkeypatch.setattr(readable, "run_together", away)
    monkeypatch.setattr(connection, "close", lambda: None)
    asked = site.asked
    assert site.listed()[0] == "200 OK"
    assert site.asked == asked + 1


def test_what_is_kept_is_bounded(site, monkeypatch):
    monkeypatch.setattr(known_answers, "MAX_BYTES", 20_000)
    for number in range(100):
        site.listed(**{"X-Odd": f"{number}"})
    assert len(known_answers._known) < 50


def test_a_role_that_reads_lists_all_the_same(owner, site):
    users.update_user(owner, actor=make_user(Role.ADMIN), role=Role.VIEWER)
    assert told(site.listed()) == told(site.forgets(site.listed))
