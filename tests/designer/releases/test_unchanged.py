"""“Nothing has changed” is said before the view, and never where the view would say anything else."""

from datetime import timedelta

import pytest
import time_machine
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from designer import exports
from designer.agents import agent_keys, agents
from designer.models import Receipt, Release
from designer.pins import pins
from designer.releases import publishing
from people import api_keys, teams, users
from people.models import ApiKey, Role, User
from tests.factories import make_tool, make_user
from tests.module_data import module_data

pytestmark = pytest.mark.django_db
HERE = "designer.middleware.UnchangedReleaseMiddleware"
NOW = "now"


@module_data
def owner():
    return make_user(Role.VIEWER)


@module_data
def release(owner):
    agent = agents.create_agent(actor=make_user(Role.DESIGNER), name="Desk", slug="desk")
    pins.pin_tool(agent, actor=make_user(Role.DESIGNER), tool=make_tool())
    publishing.publish(agent, actor=make_user(Role.DESIGNER), channel="live")
    pins.pin_tool(agent, actor=make_user(Role.DESIGNER), tool=make_tool(name="other"))
    return publishing.publish(agent, actor=make_user(Role.DESIGNER), channel="live")


def key_of(owner, *scopes, named=(), **fields) -> str:
    key, plain = agent_keys.issue(owner, actor=owner, name="Key", scopes=scopes or ["runtime"], agents=named)
    ApiKey.objects.filter(pk=key.pk).update(**({"last_used_at": timezone.now()} | fields))
    # It has fetched all there is in this minute: otherwise the view answers, to write that down.
    now = timezone.now()
    Receipt.objects.bulk_create(
        Receipt(key=key, release=one, surface=surface, channel=channel, first_at=now, last_at=now)
        for one in Release.objects.all()
        for surface in ("bundle", *(format_.name for format_ in exports.FORMATS))
        for channel in ("", "live")
    )
    return plain


def address(number="live", below="tools/?format=mcp", slug="desk") -> str:
    return f"/api/v1/agents/{slug}/releases/{number}/{below}"


def asked(plain, path, etag, **headers):
    return Client(headers={"Authorization": f"Bearer {plain}", "If-None-Match": etag, **headers}).get(path)


def told(answer):
    """Without a length, which a reply without a body need not have (RFC 9110, 8.6)."""
    left_out = ("X-Request-Id", "Content-Length")
    headers = {name: value for name, value in answer.headers.items() if name not in left_out}
    return answer.status_code, headers, answer.content


def of_the_view(monkeypatch, *given, **headers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(django_settings, "MIDDLEWARE", [m for m in django_settings.MIDDLEWARE if m != HERE])
        return asked(*given, **headers)


@pytest.mark.parametrize(
    ("below", "name", "written"),
    [
        ("tools/?format=mcp", "live", '"{}"'),
        ("tools/?format=json-schema", "2", '"{}"'),
        ("bundle/", "digest", '"{}"'),
        ("bundle/", "live", 'W/"{}"'),
        ("tools/?format=mcp", "digest", '"x", "{}"'),
        ("tools/?format=mcp", "live", "*"),
    ],
)
def test_unchanged_release_reads_as_the_view_says_it(owner, release, monkeypatch, below, name, written):
    plain, etag = key_of(owner), written.format(release.digest)
    path = address(f"sha256:{release.digest}" if name == "digest" else name, below)
    seen, meant = told(asked(plain, path, etag)), told(of_the_view(monkeypatch, plain, path, etag))
    assert seen[0] == 304
    assert set(seen[1].items()) ^ set(meant[1].items()) == set()
    assert seen == meant


def test_what_is_unchanged_carries_no_headers_of_a_body(owner, release):
    answer = asked(key_of(owner), address(), f'"{release.digest}"')
    assert answer.status_code == 304
    assert set(answer.headers) == {"ETag", "Cache-Control", "Allow", "X-Request-Id"}
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_nothing_but_one_query_is_asked_for_what_is_unchanged(owner, release):
    plain, etag = key_of(owner), f'"{release.digest}"'
    asked(plain, address(), etag)
    with CaptureQueriesContext(connection) as queries:
        assert asked(plain, address(), etag).status_code == 304
    assert len(queries) == 1


CASES = {
    "a release that is not the one": ({}, address("1"), None),
    "another scope": ({"scopes": ["read"]}, address(), None),
    "a scope that reads no release": ({"scopes": ["invoke"], "is_named": True}, address(), None),
    "a key of another agent": ({"is_named_elsewhere": True}, address(), None),
    "a key that is revoked": ({"revoked_at": NOW}, address(), None),
    "a key that is over": ({"expires_at": NOW}, address(), None),
    "a key that was never used": ({"last_used_at": None}, address(), None),
    "an agent that is not there": ({}, address(slug="nowhere"), None),
    "a release that is not there": ({}, address("7"), None),
    "a format that is not there": ({}, address(below="tools/?format=nothing"), None),
    "no format": ({}, address(below="tools/"), None),
    "a parameter too many": ({}, address(below="tools/?format=mcp&more=1"), None),
    "a parameter of the bundle": ({}, address(below="bundle/?format=mcp"), None),
    "a release by a name that is none": ({}, address("latest"), None),
    "a tag that is none": ({}, address(), "mcp"),
    "another tag": ({}, address(), '"0123"'),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_else_there_is_to_say_the_view_says(owner, release, monkeypatch, case):
    facts, path, etag = CASES[case]
    named = [release.agent] if facts.get("is_named") else []
    if facts.get("is_named_elsewhere"):
        named = [agents.create_agent(actor=make_user(Role.DESIGNER), name="Other")]
    fields = {name: value for name, value in facts.items() if name.endswith("_at")}
    fields = {name: timezone.now() if value == NOW else value for name, value in fields.items()}
    owner = make_user(Role.DESIGNER) if named else owner
    etag = etag or f'"{release.digest}"'
    one = asked(key_of(owner, *facts.get("scopes", []), named=named, **fields), path, etag)
    other = of_the_view(
        monkeypatch, key_of(owner, *facts.get("scopes", []), named=named, **fields), path, etag
    )
    assert told(one) == told(other)
    if case == "a release that is not the one":
        assert one.status_code == 200


def test_team_that_a_user_is_not_in_stays_unseen(owner, release, monkeypatch):
    team = teams.create_team(actor=make_user(Role.ADMIN), name="Sales")
    agents.update_agent(release.agent, actor=make_user(Role.DESIGNER), team=team)
    plain, etag = key_of(owner), f'"{release.digest}"'
    assert asked(plain, address(), etag).status_code == 404
    teams.add_member(team, owner, actor=make_user(Role.ADMIN))
    assert asked(plain, address(), etag).status_code == 304
    admin = make_user(Role.ADMIN)
    assert asked(key_of(admin), address(), etag).status_code == 304


def test_an_agent_that_was_removed_is_not_there(owner, release):
    plain, etag = key_of(owner), f'"{release.digest}"'
    agents.remove_agent(release.agent, actor=make_user(Role.DESIGNER))
    assert asked(plain, address(), etag).status_code == 404


def test_only_what_reads_is_answered(owner, release):
    headers = {"Authorization": f"Bearer {key_of(owner)}", "If-None-Match": f'"{release.digest}"'}
    client = Client(headers=headers)
    answers = [getattr(client, method)(address()).status_code for method in ("post", "put", "delete")]
    assert answers == [405] * 3


def test_key_of_a_user_who_has_left_is_refused(owner, release):
    plain, etag = key_of(owner), f'"{release.digest}"'
    User.objects.filter(pk=owner.pk).update(is_active=False)  # its keys are not revoked yet
    assert asked(plain, address(), etag).json()["code"] == "inactive_owner"
    User.objects.filter(pk=owner.pk).update(is_active=True)
    users.update_user(owner, actor=make_user(Role.ADMIN), is_active=False)
    assert asked(plain, address(), etag).json()["code"] == "inactive_owner"


def test_named_agent_and_no_other_is_reached(owner, release):
    plain, etag = key_of(owner, named=[release.agent]), f'"{release.digest}"'
    assert asked(plain, address(), etag).status_code == 304


def test_first_use_and_use_after_an_hour_are_written_down(owner, release):
    for before in (None, timezone.now() - timedelta(hours=2)):
        plain = key_of(owner, last_used_at=before)
        assert asked(plain, address(), f'"{release.digest}"').status_code == 304
        key = ApiKey.objects.get(digest=ApiKey.digest_of(plain))
        assert timezone.now() - key.last_used_at < timedelta(minutes=1)


def test_format_that_was_never_written_is_asked_of_the_view(owner, release, monkeypatch):
    answered = []
    monkeypatch.setattr("designer.middleware.HttpResponseNotModified", lambda **_: answered.append(1))
    plain, etag = key_of(owner), f'"{release.digest}"'
    monkeypatch.setattr("designer.middleware._cacheable_formats", lambda: {"mcp", "yours"})
    asked(plain, address(below="tools/?format=yours"), etag)
    assert answered == []
    asked(plain, address(), etag)
    assert answered == [1]


def test_who_asks_too_often_hears_so(owner, release, settings):
    settings.CALLS_PER_MINUTE = 3
    # All in one minute, which is what is counted.
    with time_machine.travel(timezone.now().replace(second=30), tick=False):
        plain, etag = key_of(owner), f'"{release.digest}"'
        statuses = [asked(plain, address(), etag).status_code for _ in range(5)]
    assert statuses == [304] * 3 + [429] * 2


def test_the_request_is_counted_and_told_by_its_route(owner, release, caplog):
    with caplog.at_level("INFO", "pegboard.requests"):
        asked(key_of(owner), address(), f'"{release.digest}"')
    (record,) = [each for each in caplog.records if each.name == "pegboard.requests"]
    assert record.getMessage() == "GET /api/v1/agents/desk/releases/live/tools/"
    assert record.facts["status"] == 304


def test_a_revoked_key_is_refused_from_the_next_request_on(owner, release):
    plain, etag = key_of(owner), f'"{release.digest}"'
    assert asked(plain, address(), etag).status_code == 304
    api_keys.revoke(ApiKey.objects.get(digest=ApiKey.digest_of(plain)), actor=owner)
    assert asked(plain, address(), etag).status_code == 401
