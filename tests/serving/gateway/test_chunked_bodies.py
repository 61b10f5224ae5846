"""A body that comes in chunks is a body like any other."""

import io
import json

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

from serving.gateway.application import Gateway
from serving.gateway.chunked_bodies import IN_MEMORY


def environ(body, **more):
    facts = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "wsgi.input": body,
        "wsgi.url_scheme": "http",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input_terminated": True,
    }
    return {**facts, **more}


def in_front_of(application):
    return Gateway(application, application)


def read_body(request_environ) -> bytes:
    bodies = []
    reply = in_front_of(lambda environ, start: bodies.append(WSGIRequest(environ).body) or [])(
        request_environ, None
    )
    if close := getattr(reply, "close", None):
        close()
        assert request_environ["wsgi.input"].closed
    return bodies[0]


@pytest.mark.parametrize("size", [0, 2, IN_MEMORY, IN_MEMORY + 1])
def test_a_body_in_chunks_is_read_whole(size, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    assert read_body(environ(io.BytesIO(b"x" * size))) == b"x" * size


def test_a_length_that_is_said_beside_chunks_counts_for_nothing():
    assert read_body(environ(io.BytesIO(b"all of it"), CONTENT_LENGTH="3")) == b"all of it"


def test_a_server_that_marks_no_end_is_not_waited_for():
    assert read_body(environ(io.BytesIO(b"x"), **{"wsgi.input_terminated": False})) == b""


def test_a_body_of_a_known_length_is_left_as_it_is():
    request_environ = environ(io.BytesIO(b"xyz"), CONTENT_LENGTH="2", HTTP_TRANSFER_ENCODING="")
    assert read_body(request_environ) == b"xy"


class Broken(io.BytesIO):
    def read(self, size=-1):
        raise OSError("no chunk")


def test_what_are_no_chunks_is_refused_before_a_view_is_asked():
    statuses = []
    application = in_front_of(lambda environ, start: pytest.fail("it was asked"))
    answer = application(environ(Broken()), lambda status, headers: statuses.append(status))
    assert statuses == ["400 Bad Request"]
    assert b"chunks" in b"".join(answer)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/serve/desk/live/mcp", "/serve/desk/live/oxp/tools/call", "/api/v1/vendors/"]
)
def test_one_that_is_too_large_is_refused_in_the_words_of_its_address(path):
    statuses = []
    body = io.BytesIO(b"x" * (settings.MAX_BODY_BYTES + 2))
    application = in_front_of(WSGIHandler())
    request_environ = environ(body, PATH_INFO=path, HTTP_HOST="testserver")
    answer = application(request_environ, lambda status, headers: statuses.append(status))
    assert statuses == ["413 Request Entity Too Large"]
    assert "larger than" in json.dumps(json.loads(b"".join(answer)))
    answer.close()
    assert body.tell() == settings.MAX_BODY_BYTES + 1
