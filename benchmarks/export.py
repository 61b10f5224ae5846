"""The time until a runtime has an export of a new release, and until it learns that nothing has changed."""

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus

from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse, HttpResponseNotModified
from django.test import RequestFactory

from benchmarks import rows
from benchmarks.frame import Figure, percentile, samples
from catalog.models import Tool
from designer import exports
from designer.agents import agents
from designer.models import Release
from designer.pins import pins
from designer.releases import publishing
from pegboard import wsgi
from people import api_keys
from people.models import KeyScope, User

TOOLS = 1_000
READS, ASKS = 20, 1_000
BARE = """
    SELECT json_agg(json_build_object('name', tool.name, 'description', tool.description,
                                      'inputs', version.signature::jsonb->'inputs'))
    FROM catalog_tool tool JOIN catalog_toolversion version ON version.id = tool.current_id
"""


class Server:
    """The whole application in this process, without sockets."""

    def __init__(self, token: str) -> None:
        self.requests = RequestFactory(headers={"Authorization": f"Bearer {token}"}, SERVER_NAME="127.0.0.1")

    def get(self, path: str, expected: HTTPStatus, headers: dict[str, str] | None = None) -> bytes:
        answered: list[str] = []

        def start(status: str, *_: object) -> Callable[[bytes], object]:
            answered.append(status)
            return bytes

        body = b"".join(wsgi.application(self.requests.get(path, headers=headers).environ, start))
        if not answered[0].startswith(str(expected.value)):
            raise RuntimeError(f"{path} answers {answered[0]}")
        return body


def main() -> Iterator[Figure]:
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    release = publish(user)
    _, token = api_keys.issue(user, actor=user, name="benchmark", scopes=[KeyScope.RUNTIME])
    server = Server(token)
    path = f"/api/v1/agents/{release.agent.slug}/releases/live/tools/?format="
    bare = percentile(samples(aggregated, READS), 50)
    for format_ in exports.FORMATS:
        if format_.limits.of != "tools":
            continue
        read_export = partial(server.get, path + format_.name, HTTPStatus.OK)
        time = percentile(samples(read_export, READS), 50)
        yield Figure(f"export, {format_.name}", TOOLS / time, "tools/s", floor=TOOLS / bare, target=0.5)
    request_times = samples(lambda: ask(server, path, release.digest), ASKS, warm_up=20)
    floor = samples(lambda: ask_barely(release), ASKS, warm_up=20)
    yield Figure(
        "export, unchanged", ASKS / sum(request_times), "requests/s", floor=ASKS / sum(floor), target=0.5
    )
    yield Figure(
        "export, unchanged, p99", percentile(request_times, 99) * 1000, "ms", target=20, less_is_better=True
    )


def publish(user: User) -> Release:
    rows.fill(TOOLS)
    agent = agents.create_agent(actor=user, name="Benchmark")
    for tool in Tool.objects.all():
        pins.pin_tool(agent, actor=user, tool=tool)
    return publishing.publish(agent, actor=user, channel="live")


def aggregated() -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({BARE})::text")
        (text,) = cursor.fetchone()
        return str(text).encode()


def ask(server: Server, path: str, digest: str) -> None:
    server.get(f"{path}mcp", HTTPStatus.NOT_MODIFIED, {"If-None-Match": f'"{digest}"'})


def ask_barely(release: Release) -> HttpResponse:
    """A request, one indexed read of the digest, a reply; no sign-in."""
    request = WSGIRequest(RequestFactory().get("/", HTTP_IF_NONE_MATCH=f'"{release.digest}"').environ)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT digest FROM designer_release WHERE agent_id = %s ORDER BY number DESC LIMIT 1",
            [release.agent_id],
        )
        (digest,) = cursor.fetchone()
    if request.headers["If-None-Match"] != f'"{digest}"':
        raise RuntimeError("the release has changed")
    return HttpResponseNotModified(headers={"ETag": f'"{digest}"'})
