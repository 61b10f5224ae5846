"""An address that answers like OpenAI's embeddings: rightly, slowly, wrongly, or with other lengths."""

import json
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from catalog.meaning import embeddings
from catalog.meaning.comparison import EncoderError
from catalog.meaning.embeddings import LIMITS, EmbeddingsEncoder
from catalog.meaning.messages import FindNearest, ReadState, StoreTexts
from catalog.meaning.models import ADDRESS, find_model
from catalog.meaning.server import MeaningServer

SIZE, KEY = 16, "key-of-the-model"


class Model:
    """The behaviour of the address: `size` of the vectors, `status` and `seconds` of the replies, a fixed
    `body`. Replies wait while `released` is not set.
    """

    def __init__(self):
        self.size, self.status, self.seconds, self.body = SIZE, 200, 0.0, None
        self.requests, self.headers, self.statuses = [], [], []
        self.released = threading.Event()
        self.released.set()

    def reply(self, document):
        self.requests.append(document)
        if self.body is not None:
            return self.body
        vectors = [[float(len(text)), 1.0, *([0.0] * (self.size - 2))] for text in document["input"]]
        data = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        # OpenAI promises no order.
        return json.dumps({"data": data[::-1], "usage": {"total_tokens": 3 * len(vectors)}}).encode()


@contextmanager
def serve(model):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.headers.append((self.path, self.headers["Authorization"]))
            body = model.reply(document)
            time.sleep(model.seconds)
            model.released.wait(30)
            self.send_response(model.statuses.pop(0) if model.statuses else model.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def address(model):
    with serve(model) as address:
        yield address


@pytest.fixture
def encoder(settings, tmp_path, address):
    settings.OUTBOUND_ALLOW, settings.OUTBOUND_PORTS = "127.0.0.0/8", ""
    settings.SEARCH_MEANING, settings.SEARCH_MEANING_MODEL = address, "small"
    settings.SEARCH_MEANING_KEY, settings.SEARCH_MEANING_DIMENSIONS = KEY, SIZE
    return make_encoder(tmp_path)


def make_encoder(directory):
    encoder = EmbeddingsEncoder(directory)
    encoder.limits = replace(LIMITS, request=1.0, session=2.0, backoff=(0.01,))
    return encoder


def test_texts_become_vectors_in_their_order(encoder, model):
    vectors = encoder.encode(["a", "four"])
    assert vectors.shape == (2, SIZE)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    assert vectors[1, 0] > vectors[0, 0]
    assert model.requests[-1] == {"model": "small", "input": ["a", "four"]}
    assert set(model.headers) == {("/v1/embeddings", f"Bearer {KEY}")}


def test_a_text_is_paid_for_once(encoder, model, tmp_path):
    first = encoder.encode(["a", "four", "a"])
    usage = encoder.usage
    again = make_encoder(tmp_path)
    assert again.encode(["four", "a"]) == pytest.approx(first[[1, 0]], abs=1e-3)
    assert [len(request["input"]) for request in model.requests] == [2]
    assert (usage.texts, usage.characters, usage.tokens) == (2, len("a") + len("four"), 6)


def test_a_refused_request_is_repeated_in_bounds(encoder, model):
    model.statuses = [429]
    assert encoder.encode(["a", "b"]).shape == (2, SIZE)
    model.status = 429
    with pytest.raises(EncoderError, match="embeddings"):
        encoder.encode(["c", "d"])
    sent = len(model.requests)
    assert sent == 4
    # Nothing is sent for a while, also when the address answers again.
    model.status = 200
    with pytest.raises(EncoderError):
        encoder.encode(["c", "d"])
    assert len(model.requests) == sent


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": [{"index": 0, "embedding": [0, 0, 0]}]}',
        b'{"data": [{"index": 7, "embedding": [1, 0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1e39, 0, 0]}]}',
    ],
)
def test_a_wrong_reply_is_an_error(encoder, model, body):
    model.body = body
    with pytest.raises(EncoderError):
        encoder.encode(["a"])


def test_a_slow_address_is_an_error(encoder, model):
    model.seconds = 3.0
    with pytest.raises(EncoderError):
        encoder.encode(["a"])


def test_vectors_of_another_length_are_an_error(encoder, model):
    encoder.encode(["a"])
    model.size = SIZE + 1
    with pytest.raises(EncoderError, match=str(SIZE + 1)):
        encoder.encode(["b"])


@pytest.fixture
def server(encoder, tmp_path):
    server = MeaningServer(tmp_path, find_model(ADDRESS))
    server.load()._encoder = encoder
    return server


def test_the_process_reports_the_trouble_and_keeps_its_vectors(server, model):
    stored = server.answer(
        StoreTexts([1, 2], [1, 1], ["a", "fourteen"], ["a", "fourteen"], [], "state", is_start=True)
    )
    assert (stored.state, stored.trouble, stored.usage.texts) == ("state", "", 2)
    model.status = 500
    with pytest.raises(EncoderError):
        server.answer(StoreTexts([3], [1], ["new"], ["new"], [], "later"))
    stored = server.answer(ReadState())
    assert stored.state == "state"
    assert "embeddings" in stored.trouble
    # A question that was compared before costs nothing and is answered.
    assert list(server.answer(FindNearest("fourteen", None, [], 1)).nearest) == [2]


def test_a_question_does_not_wait_for_texts_that_are_sent(server, model):
    server.answer(StoreTexts([1], [1], ["a"], ["a"], [], "state", is_start=True))
    model.released.clear()
    storing = threading.Thread(target=server.answer, args=[StoreTexts([2], [1], ["b"], ["b"], [], "later")])
    storing.start()
    while len(model.requests) < 2:
        time.sleep(0.01)
    server.answer(FindNearest("a", None, [], 1))
    server.answer(ReadState())
    assert storing.is_alive()
    model.released.set()
    storing.join()
    assert server.answer(ReadState()).state == "later"


@pytest.mark.parametrize("status", [401, 500])
def test_the_key_is_in_no_message(server, model, status):
    model.status, model.body = status, f'{{"error": "{KEY} is wrong"}}'.encode()
    with pytest.raises(EncoderError) as error:
        server.answer(StoreTexts([1], [1], ["a"], ["a"], [], "state"))
    assert KEY not in str(error.value)
    assert KEY not in server.answer(ReadState()).trouble


def test_damaged_files_are_made_again(encoder, model, tmp_path):
    encoder.encode(["a"])
    encoder._store.close()
    (tmp_path / "embeddings.sqlite3").write_bytes(b"no database" * 100)
    assert make_encoder(tmp_path).encode(["a"]).shape == (1, SIZE)


def damage_pages(path):
    """Damage all pages but the first, which names the tables."""
    content = path.read_bytes()
    assert len(content) > 4_096
    path.write_bytes(content[:4_096] + b"x" * (len(content) - 4_096))


def test_damage_in_the_middle_of_the_files_is_made_again(encoder, model, tmp_path):
    encoder.encode(["a"])
    encoder._store.close()
    damage_pages(tmp_path / "embeddings.sqlite3")
    reopened = make_encoder(tmp_path)
    assert reopened.encode(["a"]).shape == (1, SIZE)
    assert reopened.encode(["a", "b"]).shape == (2, SIZE)
    assert reopened.usage.texts == 2


def test_vectors_that_were_paid_for_outlive_a_locked_file(encoder, model, tmp_path, monkeypatch):
    encoder.encode(["a"])
    path = tmp_path / "embeddings.sqlite3"
    monkeypatch.setattr(embeddings, "LOCK_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(EncoderError):
            make_encoder(tmp_path)
        with pytest.raises(EncoderError):
            encoder.encode(["a"])
    assert make_encoder(tmp_path).encode(["a"]).shape == (1, SIZE)
    assert len(model.requests) == 1


def test_a_private_network_is_not_reached_unless_it_is_open(encoder, model, settings):
    settings.OUTBOUND_ALLOW = ""
    with pytest.raises(EncoderError):
        encoder.encode(["a"])
    assert model.requests == []
