"""The commands of `pegboard.client` inside this installation: REST views answer in the same process."""

import argparse
import json
import sys
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlencode

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.core.management.base import BaseCommand, CommandParser
from django.urls import resolve

from pegboard import client
from people.models import User

AS = "--as"


class InProcess(client.PegboardServer):
    """Calls REST views as one user, without an API key and without HTTP."""

    def __init__(self, username: str) -> None:
        user = User.objects.filter(username__iexact=username, is_active=True).first()
        if user is None:
            raise client.CommandError(f"There is no active user {username}.")
        self.user, self.url = user, "Pegboard"

    def request_bytes(self, method: str, path: str, body: Any = None, **query: str | int) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        address = f"/api/v1/{unquote(path)}"
        hosts = (name.lstrip(".*") for name in settings.ALLOWED_HOSTS)
        request = WSGIRequest(
            {
                "REQUEST_METHOD": method,
                "PATH_INFO": address.encode().decode("latin-1"),  # the encoding of WSGI
                "QUERY_STRING": urlencode(query),
                "CONTENT_TYPE": "application/json",
                "CONTENT_LENGTH": str(len(content)),
                "SERVER_NAME": next(filter(None, hosts), "localhost"),
                "SERVER_PORT": "80",
                "wsgi.url_scheme": "http",
                "wsgi.input": BytesIO(content),
            }
        )
        # Django REST framework skips authentication for a request with this attribute.
        request.user = request._force_auth_user = self.user  # type: ignore[attr-defined]
        request.resolver_match = match = resolve(address)
        response = match.func(request, *match.args, **match.kwargs)
        if hasattr(response, "render"):
            response.render()
        reply = b"".join(response)
        if response.status_code >= 300:
            raise client.refusal(response.status_code, reply, response.headers.get("Location", ""))
        return reply


def add_arguments(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    parser.add_argument(
        AS,
        dest="username",
        metavar="USER",
        required=is_required,
        help="the user, for permissions and the audit trail",
    )
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")


def carry_out(name: str, options: dict[str, Any]) -> None:
    """Run a command and exit with its status."""
    arguments = argparse.Namespace(**options)
    status = client.carry_out(client.COMMANDS[name].run, partial(InProcess, arguments.username), arguments)
    if status:
        sys.exit(status)


class AgentCommand(BaseCommand):
    name: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = client.COMMANDS[self.name].description

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # --version of `pin` is the version of a tool and replaces Django's option.
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)
        client.COMMANDS[self.name].add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        carry_out(self.name, options)
