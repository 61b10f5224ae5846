"""Every address, every method, every role and every scope of a key, against the table in roles.txt."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings
from django.core.cache import caches
from django.http import HttpResponse
from django.template import engines
from django.test import Client
from django.test.client import ClientHandler
from django.test.utils import override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern
from rest_framework.permissions import AllowAny
from rest_framework.views import APIView

from people import api_keys
from people.models import KeyScope, Role
from people.permissions import needed_role
from tests.factories import make_agent, make_endpoint, make_tool, make_user
from tests.module_data import module_data

TABLE = Path(__file__).with_name("roles.txt")
EMPTY_PAGE = engines["django"].from_string("")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WRITING = METHODS[1:]
RANKS = {"public": 0, Role.VIEWER: 1, Role.DESIGNER: 2, Role.ADMIN: 3}
ACTORS = ("stranger", Role.VIEWER, Role.DESIGNER, Role.ADMIN)
SCOPES = {
    KeyScope.RUNTIME: set(KeyScope.values) - {KeyScope.INVOKE},
    KeyScope.INVOKE: {KeyScope.INVOKE, KeyScope.DESIGN, KeyScope.ADMIN},
    KeyScope.READ: {KeyScope.READ, KeyScope.DESIGN, KeyScope.ADMIN},
    KeyScope.DESIGN: {KeyScope.DESIGN, KeyScope.ADMIN},
    KeyScope.ADMIN: {KeyScope.ADMIN},
}
SAMPLES = {
    "int": "1",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "slug": "x",
    "str": "x",
    "path": "x",
    "any": "x",
}


class Route(NamedTuple):
    name: str
    path: str
    view: object
    namespace: str


def routes(namespace: str = "") -> list[Route]:
    routes_found = _walk(get_resolver().url_patterns, "/", "")
    return sorted(
        {route for route in routes_found if route.namespace == namespace}, key=lambda route: route[:2]
    )


def _walk(patterns: list[URLPattern | URLResolver], path: str, namespace: str) -> Iterator[Route]:
    for pattern in patterns:
        below = path + _sample(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, below, pattern.namespace or namespace)
        else:
            yield Route(pattern.name or "", below, pattern.callback, namespace)


def _sample(pattern: object) -> str:
    """A path that the pattern matches; whether such a row exists makes no difference to who may ask."""
    if isinstance(pattern, RoutePattern):
        return re.sub(r"<(?:(\w+):)?\w+>", lambda match: SAMPLES.get(match[1] or "str", "1"), str(pattern))
    return re.sub(r"\(\?P<\w+>[^)]*\)", "x", str(pattern)).lstrip("^").rstrip("$").replace("\\Z", "")


@cache
def table() -> dict[str, dict[str, str]]:
    """The role of each cell; the scope of a cell is in `scopes`."""
    return {name: {m: cell.partition("/")[0] for m, cell in row.items()} for name, row in cells().items()}


@cache
def cells() -> dict[str, dict[str, str]]:
    lines = [line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: dict(zip(METHODS, row, strict=True)) for name, *row in lines}


def scopes(method: str, cell: str) -> set[str]:
    """Return the scopes that are admitted: the narrowest one and those that include it."""
    role, _, stated = cell.partition("/")
    usual = KeyScope.READ if method == "GET" else KeyScope.DESIGN if role == Role.DESIGNER else KeyScope.ADMIN
    return SCOPES[stated or usual] | SCOPES[usual]


@pytest.fixture(scope="module")
def handler() -> ClientHandler:
    """Shared by all clients: to load the middleware takes longer than to ask.

    Sessions are cached: each of the requests would read its own again.
    """
    handler = Client().handler
    with override_settings(SESSION_ENGINE="django.contrib.sessions.backends.cached_db"):
        handler.load_middleware()
    return handler


@pytest.fixture
def short_problem_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pages about failures empty: of thousands of refusals only the status is read."""
    templates = type("Templates", (), {"select_template": lambda names: EMPTY_PAGE})
    monkeypatch.setattr("pegboard.web.views.loader", templates)


@module_data
def session_keys() -> dict[str, str]:
    """The session of a user of each role."""
    clients_by_role = {role: Client() for role in ACTORS[1:]}
    for role, client in clients_by_role.items():
        client.force_login(make_user(role))
    return {role: client.session.session_key for role, client in clients_by_role.items()}


@module_data
def api_keys_by_scope() -> dict[str, str]:
    """Keys of an administrator, so that the role is never the obstacle."""
    owner = make_user(Role.ADMIN)
    return {
        scope: api_keys.issue(
            owner, actor=None, name=scope, scopes=[scope], is_narrowed=scope == KeyScope.INVOKE
        )[1]
        for scope in KeyScope.values
    }


Answers = dict[tuple[str, str], HttpResponse]


def ask_everything(path: str, handler: ClientHandler, session_keys: dict[str, str]) -> Answers:
    answers = {}
    caches["default"].clear()  # of the sessions of earlier tests, whose changes are rolled back
    for actor in ACTORS:
        client = Client()
        client.handler = handler
        if actor != "stranger":
            client.cookies[settings.SESSION_COOKIE_NAME] = session_keys[actor]
        for method in METHODS:
            answers[actor, method] = client.generic(method, path, b"{}", content_type="application/json")
    return answers


def is_refused(answer: HttpResponse) -> bool:
    asks_to_sign_in = "/accounts/login/?next=" in answer.headers.get("Location", "")
    return answer.status_code in (401, 403) or asks_to_sign_in


@pytest.mark.django_db
@pytest.mark.usefixtures("own_limits", "short_problem_pages")
@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_only_the_roles_of_the_table_get_through(route, handler, session_keys):
    cells = table().get(route.name)
    assert cells, (
        f"Nobody has decided who may use {route.path}. Add a line '{route.name}' to tests/roles.txt with "
        f"the lowest role for {', '.join(METHODS)}; '-' for a method that it does not take."
    )
    wrong = [
        f"{actor} {method} {route.path}: {answer.status_code}, but the table says {cells[method]}"
        for (actor, method), answer in ask_everything(route.path, handler, session_keys).items()
        if not _keeps_to(cells[method], actor, answer)
    ]
    assert not wrong, "\n".join(wrong)


def _keeps_to(cell: str, actor: str, answer: HttpResponse) -> bool:
    if cell == "key":
        return answer.status_code == 401
    if cell == "-":
        return answer.status_code == 405 or (actor != Role.ADMIN and is_refused(answer))
    if RANKS.get(actor, 0) >= RANKS[cell]:
        return not is_refused(answer) and answer.status_code != 405 and answer.status_code < 500
    return is_refused(answer) and (actor == "stranger" or answer.status_code == 403)


def answers_to_keys(
    path: str, methods: list[str], handler: ClientHandler, api_keys_by_scope: dict[str, str]
) -> Answers:
    answers = {}
    for scope, plain in api_keys_by_scope.items():
        client = Client(headers={"Authorization": f"Bearer {plain}"})
        client.handler = handler
        for method in methods:
            answers[scope, method] = client.generic(method, path, b"{}", content_type="application/json")
    return answers


@pytest.mark.django_db
@pytest.mark.parametrize(
    "route", [route for route in routes() if hasattr(route.view, "cls")], ids=lambda route: route.path
)
def test_only_the_scopes_of_the_table_get_through(route, handler, api_keys_by_scope):
    row = {method: cell for method, cell in cells()[route.name].items() if cell not in ("-", "public")}
    wrong = []
    answers = answers_to_keys(route.path, list(row), handler, api_keys_by_scope)
    for (scope, method), answer in answers.items():
        is_allowed = scope in scopes(method, row[method])
        if is_allowed and (is_refused(answer) or answer.status_code >= 500):
            wrong.append(f"{method} is refused to the scope {scope}: {answer.status_code}")
        if not is_allowed and (answer.status_code, answer.json()["code"]) != (403, "scope_required"):
            wrong.append(f"{method} is open to the scope {scope}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_key_opens_no_page(handler):
    _, plain = api_keys.issue(make_user(Role.ADMIN), actor=None, name="page", scopes=["admin"])
    client = Client(headers={"Authorization": f"Bearer {plain}"})
    client.handler = handler
    pages = [route for route in routes() if not hasattr(route.view, "cls")]
    opened = [
        route.path
        for route in pages
        if table()[route.name]["GET"] not in ("-", "public", "key") and not is_refused(client.get(route.path))
    ]
    assert opened == []


@pytest.mark.django_db
def test_stranger_cannot_tell_what_exists(handler):
    """The same answer for a row that is there and for one that is not."""
    tool, agent, run = make_tool(), make_agent(slug="there"), make_endpoint()
    keys_by_kind = {
        "tools": tool.pk,
        "agents": agent.slug,
        "endpoints": run.pk,
        "vendors": tool.endpoint.vendor.slug,
    }
    stranger = Client()
    stranger.handler = handler
    for kind, key in keys_by_kind.items():
        missing = "missing" if isinstance(key, str) else 999_999
        for root in ("/", "/api/v1/"):
            response, unseen = (stranger.get(f"{root}{kind}/{key_tried}/") for key_tried in (key, missing))
            assert response.status_code == unseen.status_code in (302, 401)
            assert response.content == unseen.content


@pytest.mark.parametrize("cell", ["viewer", "viewer/runtime", "admin", "designer", "viewer/admin"])
def test_cell_of_the_table_has_a_narrowest_scope(cell):
    assert KeyScope.ADMIN in scopes("GET", cell)
    assert KeyScope.RUNTIME not in scopes("POST", cell) or cell.endswith("runtime")


def test_route_that_nobody_decided_on_fails(handler, monkeypatch):
    monkeypatch.setattr("tests.test_roles.table", dict)
    with pytest.raises(AssertionError, match="Nobody has decided who may use /"):
        test_only_the_roles_of_the_table_get_through(routes()[0], handler, {})


@pytest.mark.django_db
@pytest.mark.parametrize("route", routes("admin"), ids=lambda route: route.path)
def test_djangos_admin_is_closed_to_everybody_but_administrators(route, handler, session_keys):
    answers = ask_everything(route.path, handler, session_keys)
    assert not [
        f"{actor} {method}: {answer.status_code}"
        for (actor, method), answer in answers.items()
        if actor != Role.ADMIN and not is_refused(answer) and answer.status_code != 405
    ]


def test_every_route_has_a_name_of_its_own():
    names = [route.name for route in routes()]
    assert len(set(names)) == len(names)
    assert all(names)


def test_table_names_only_routes_that_exist():
    assert table().keys() <= {route.name for route in routes()}


@pytest.mark.parametrize(
    "route", [route for route in routes() if hasattr(route.view, "cls")], ids=lambda route: route.path
)
def test_every_call_of_the_api_declares_who_may_write(route):
    view: APIView = route.view.cls(**route.view.initkwargs)
    for method, action in getattr(route.view, "actions", {}).items():
        setattr(view, method, getattr(view, action))
    if AllowAny in view.permission_classes:
        assert set(table()[route.name].values()) <= {"public", "-"}
        return
    undeclared = [
        method for method in WRITING if hasattr(view, method.lower()) and needed_role(view, method) is None
    ]
    assert not undeclared, f"{route.view.cls.__name__} needs write_role or roles for {undeclared}"
