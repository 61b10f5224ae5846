"""Tools are found by their meaning, by a process of the host that may not be there."""

import os
import shutil
import threading
import time
from contextlib import closing, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from catalog import search
from catalog.meaning import client, server
from catalog.meaning import process as process_module
from catalog.meaning.comparison import Comparison, Encoder
from catalog.meaning.messages import SOCKET, FindNearest, Prepare, ReadState, Similarities, StoreTexts
from catalog.meaning.models import MODELS, Model
from catalog.meaning.process import MAX_ADDRESS, MeaningProcess
from catalog.meaning.sentence_encoder import SentenceEncoder
from catalog.models.tools import ToolStatus
from catalog.search import Query, follower, meanings
from catalog.search.fit import Concept
from catalog.search.scope import Scope
from core.priority import NICENESS
from pegboard.ops.doctor import work
from pegboard.ops.doctor.frame import DoctorLimits
from tests.factories import make_signature, make_tool

pytestmark = pytest.mark.django_db
# The model of these tests has a dimension for each thing.
THINGS = [("cheque", "salary", "lohn"), ("flight", "plane"), ("weather", "rain"), ("invoice",)]


DIMENSIONS = 64


class ThingsEncoder(Encoder):
    def encode(self, texts):
        vectors = np.full((len(texts), DIMENSIONS), 0.01, np.float32)
        for row, text in enumerate(texts):
            for place, words in enumerate(THINGS):
                vectors[row, place] += any(word in text.lower() for word in words)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def host(settings, tmp_path, monkeypatch):
    """A host whose process for meanings knows four things."""
    settings.SEARCH_MEANING = "use"
    directory = Path(settings.SEARCH_DIRECTORY)
    directory.mkdir(exist_ok=True)
    monkeypatch.setattr(client, "_paused_until", {})
    (directory / SOCKET).unlink(missing_ok=True)
    answering = server.MeaningServer(tmp_path, Model("things", DIMENSIONS, f"{__name__}:ThingsEncoder"))
    listener = Listener(str(directory / SOCKET), "AF_UNIX", backlog=8)
    threading.Thread(target=_serve, args=(listener, answering), daemon=True).start()
    yield answering
    with suppress(FileNotFoundError):
        listener.close()


def _serve(listener, answering):
    try:
        answering.serve(listener)
    except OSError:
        """The test has ended."""


def names(text, **options):
    return [row["name"] for row in search.search(Query(q=text, **options)).rows]


def index_all():
    search.index_pending()
    meanings.follow()


def test_a_tool_without_a_word_of_the_question_is_found(host):
    make_tool(make_signature("issue_cheque", description="For people."))
    make_tool(make_signature("forecast", description="Whether it will rain."))
    index_all()
    page = search.search(Query(q="Lohn senden"))
    assert [row["name"] for row in page.rows] == ["issue_cheque"]
    assert page.rows[0]["why"].meaning > 0.9
    assert not page.fits_badly


def test_the_nearest_tools_are_found_by_the_words_of_vendors(host):
    make_tool(make_signature("issue_cheque", description="For people."))
    make_tool(make_signature("forecast", description="Whether it will rain."))
    index_all()
    # The model knows no remuneration, the groups of everyday words know salaries.
    page = search.search(Query(q="remuneration"))
    assert [row["name"] for row in page.rows][:1] == ["issue_cheque"]


@pytest.mark.parametrize(("text", "has_matched_words"), [("gage zzyzx", False), ("cheque zzyzx", True)])
def test_a_page_tells_tools_with_the_words_from_those_near_in_meaning(
    host, monkeypatch, text, has_matched_words
):
    monkeypatch.setitem(globals(), "THINGS", [(*THINGS[0], "gage"), *THINGS[1:]])
    make_tool(make_signature("issue_cheque", description="For people."))
    index_all()
    page = search.search(Query(q=text))
    assert [row["name"] for row in page.rows] == ["issue_cheque"]
    assert "zzyzx" in page.unmatched
    assert page.has_matched_words is has_matched_words


def test_the_model_tells_chores_from_questions_to_software(tmp_path):
    encoder = SentenceEncoder(tmp_path)
    vectors = encoder.encode(["scrub the floor", "den Boden schrubben", "find a clinic", "Klinik suchen"])
    chore, german_chore, question, german_question = map(encoder.rate_chore, vectors)
    assert min(chore, german_chore) > 0 > max(question, german_question)


def compare(text, tools=(), clauses=()):
    with closing(meanings.PendingComparison(text, "", Scope(None), clauses)) as comparison:
        comparison.add_tools(tools)
        return comparison.read_cosines()


def test_what_the_model_knows_of_chores_comes_with_the_tools(host, monkeypatch):
    monkeypatch.setattr(ThingsEncoder, "rate_chore", lambda self, vector: 2.5)
    make_tool(make_signature("issue_cheque"))
    index_all()
    assert compare("salary").chore == 2.5


def test_a_story_is_compared_clause_by_clause(host):
    cheque, forecast = make_tool(make_signature("issue_cheque")), make_tool(make_signature("forecast"))
    index_all()
    cosines = compare("x", [cheque.pk, forecast.pk], ["my salary", "any plane"])
    assert cosines.find_clause(cheque.pk) > 0.6 > cosines.typed[cheque.pk]
    assert cosines.find_clause(forecast.pk) < 0.6
    assert compare("x", [cheque.pk]).clauses is None


def test_a_tool_that_only_a_clause_of_a_story_is_near_to_is_found(host, monkeypatch):
    monkeypatch.setattr(meanings, "NEAREST", 1)
    cheque = make_tool(make_signature("issue_cheque"))
    make_tool(make_signature("forecast"))
    index_all()
    assert cheque.pk in compare("a plane", [], ["my salary", "a plane"]).typed
    assert cheque.pk not in compare("a plane").typed


def test_without_the_process_words_answer(host, settings):
    make_tool(make_signature("issue_cheque", description="For people."))
    index_all()
    (Path(settings.SEARCH_DIRECTORY) / SOCKET).unlink()
    assert names("salary") == []
    assert names("cheque") == ["issue_cheque"]


def test_a_slow_process_is_waited_for_once(host, monkeypatch):
    make_tool(make_signature("issue_cheque"))
    index_all()
    asked = []
    monkeypatch.setattr(meanings, "FIND_SECONDS", 0.05)
    waiting = threading.Event()
    monkeypatch.setattr(host, "answer", lambda request, _: asked.append(request) or waiting.wait(5))
    try:
        assert names("cheque") == names("cheque") == ["issue_cheque"]
        assert len(asked) == 1
    finally:
        waiting.set()


def test_vectors_are_made_by_a_thread_that_yields_to_questions(host, monkeypatch):
    priorities = []
    encode = ThingsEncoder.encode

    def encode_and_record(self, texts):
        priorities.append(os.getpriority(os.PRIO_PROCESS, 0))  # of this thread
        return encode(self, texts)

    make_tool(make_signature("issue_cheque"))
    search.index_pending()
    monkeypatch.setattr(ThingsEncoder, "encode", encode_and_record)
    meanings.follow()
    assert names("salary")
    assert priorities[0] == min(os.nice(0) + NICENESS, 19)
    assert priorities[-1] == os.nice(0)


def test_the_name_of_a_tool_comes_before_every_meaning(host):
    for number in range(3):
        make_tool(make_signature(f"cheque_{number}", description="Salary, cheque, salary."))
    make_tool(make_signature("salary", description="Of the weather."))
    index_all()
    assert names("salary")[0] == "salary"


def test_changes_are_followed(host):
    tool = make_tool(make_signature("issue_cheque"))
    index_all()
    assert names("salary") == ["issue_cheque"]
    tool.status = ToolStatus.WITHDRAWN
    tool.save()
    make_tool(make_signature("find_plane"))
    assert meanings.follow() is False
    assert names("salary", status=(ToolStatus.ACTIVE,)) == []
    assert names("flight") == ["find_plane"]


def test_lost_files_are_made_again(host):
    make_tool(make_signature("issue_cheque"))
    index_all()
    host._loaded.file.clear()
    assert names("salary") == []
    meanings.follow()
    assert names("salary") == ["issue_cheque"]


@pytest.mark.parametrize("damage", ["garble", "cut off", "delete"])
def test_damaged_files_are_made_again_while_people_search(host, damage):
    make_tool(make_signature("issue_cheque"))
    index_all()
    vectors = host._vectors
    if damage == "delete":
        shutil.rmtree(vectors)
    else:
        with (vectors / "vectors").open("r+b") as file:
            file.write(b"garbled") if damage == "garble" else file.truncate(8)
    assert names("cheque") == ["issue_cheque"]
    assert names("salary") == []
    meanings.follow()
    assert names("salary") == ["issue_cheque"]


def test_vectors_that_are_lost_between_two_batches_are_not_taken_for_complete(host, settings):
    directory = Path(settings.SEARCH_DIRECTORY)
    client.send(directory, StoreTexts([1], [1], ["cheque"], ["cheque"], [], "state 1", is_start=True), 5.0)
    shutil.rmtree(host._vectors)
    with pytest.raises(client.MeaningUnavailableError, match="from the first one"):
        client.send(directory, StoreTexts([2], [1], ["plane"], ["plane"], [], "state 2"), 5.0)
    assert client.send(directory, ReadState(), 5.0).state is None


def test_tools_of_other_vendors_are_no_answer(host):
    tool = make_tool(make_signature("issue_cheque"))
    other = make_tool(make_signature("find_plane"))
    index_all()
    assert names("salary", vendor=(tool.endpoint.vendor.slug,)) == ["issue_cheque"]
    if other.endpoint.vendor_id != tool.endpoint.vendor_id:
        assert names("salary", vendor=(other.endpoint.vendor.slug,)) == []


def test_a_tool_without_a_vector_keeps_the_score_of_its_words():
    concept = Concept("word", 1.0, frozenset((b"1",)))
    assert meanings.fuse({1: 4.0, 2: 2.0}, {}, [concept], 1.0) == {1: 4.0, 2: 2.0}
    fused = meanings.fuse({1: 4.0, 2: 2.0, 3: 3.0}, {1: 0.2, 2: 0.8}, [concept], 1.0)
    assert fused[3] == 3.0
    assert fused[2] > 2.0


def test_meanings_count_more_where_no_tool_has_most_of_the_words():
    concept = Concept("word", 1.0, frozenset((b"1",)))
    scores, cosines = {1: 4.0, 2: 2.2}, {1: 0.2, 2: 0.8}
    covered, uncovered = (meanings.fuse(scores, cosines, [concept], share) for share in (1.0, 0.3))
    assert covered[1] - covered[2] > uncovered[1] - uncovered[2]


def test_meanings_decide_where_few_words_are_known():
    unknown = Concept("Wort", 1.0)
    fused = meanings.fuse({1: 4.0, 2: 1.0}, {1: 0.2, 2: 0.8}, [unknown], 0.0)
    assert fused[2] > fused[1]


def test_a_request_that_is_none_ends_nothing(host, settings):
    directory = Path(settings.SEARCH_DIRECTORY)
    with Client(str(directory / SOCKET), "AF_UNIX") as connection:
        connection.send_bytes(b"never mind")
    assert client.send(directory, ReadState(), 5.0).state is None


def test_a_request_that_fails_ends_no_other(host, settings, monkeypatch):
    directory = Path(settings.SEARCH_DIRECTORY)
    with monkeypatch.context() as broken:
        broken.setattr(host, "answer", lambda *_: 1 // 0)
        with pytest.raises(client.MeaningUnavailableError, match="ZeroDivisionError"):
            client.send(directory, ReadState(), 5.0)
    assert client.send(directory, ReadState(), 5.0).state is None


def test_requests_are_answered_while_the_model_is_loaded(host, settings, monkeypatch):
    directory, may_load = Path(settings.SEARCH_DIRECTORY), threading.Event()
    create = ThingsEncoder.__init__
    monkeypatch.setattr(ThingsEncoder, "__init__", lambda *args: may_load.wait(10) and create(*args))
    try:
        client.send(directory, Prepare(), 1.0)
        assert client.send(directory, ReadState(), 1.0).state is None
        # The process replies that it loads, so the question has more time than its own.
        threading.Timer(1.0, may_load.set).start()
        assert isinstance(client.send(directory, FindNearest("salary", None, [], 1), 0.25), Similarities)
    finally:
        may_load.set()


def test_states_are_read_while_every_thread_waits_for_a_slow_address(host, settings, monkeypatch):
    directory, may_answer = Path(settings.SEARCH_DIRECTORY), threading.Event()
    monkeypatch.setattr(ThingsEncoder, "encode", lambda *_: may_answer.wait(10))
    questions = [
        threading.Thread(target=client.send_now, args=[directory, FindNearest("rain", None, [], 1), 2.0])
        for _ in range(2 * server.MAX_CLIENTS)
    ]
    try:
        for question in questions:
            question.start()
        wait_until(lambda: host._client_count == len(questions))
        assert client.send(directory, ReadState(), 1.0).state is None
    finally:
        may_answer.set()
        for question in questions:
            question.join()


def test_a_process_that_cannot_start_anew_tries_again(host, monkeypatch, capsys):
    host.load()
    tries = []

    def execv(*_):
        tries.append(1)
        if len(tries) == 3:
            raise SystemExit
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(server.os, "execv", execv)
    with pytest.raises(SystemExit):
        host.start_anew_when_idle(0.05)
    assert len(tries) == 3
    assert capsys.readouterr().err.count("Cannot allocate memory") == 1


def test_a_process_that_accepts_nothing_is_waited_for_in_bounded_time(tmp_path):
    with Listener(str(tmp_path / SOCKET), "AF_UNIX", backlog=1):
        for _ in range(5):
            with pytest.raises(client.MeaningUnavailableError):
                client.send(tmp_path, ReadState(), 0.05)


def test_half_a_surrogate_pair_is_searched_as_any_text(host):
    make_tool(make_signature("issue_cheque"))
    index_all()
    assert names("salary \ud800") == ["issue_cheque"]


def test_the_process_ends_with_the_one_that_started_it(settings, tmp_path):
    process = MeaningProcess(tmp_path, "use", settings.BASE_DIR)
    if len(str(tmp_path / SOCKET)) > MAX_ADDRESS:
        pytest.skip("The directory of this run is too long for a socket.")
    assert process.ensure_running()
    process._process.stdin.close()
    assert process._process.wait(30) == 0


def test_the_process_is_not_started_again_at_once(settings, tmp_path):
    process = MeaningProcess(tmp_path, "no such model", settings.BASE_DIR)
    assert process.ensure_running()
    process._process.stdin.close()
    process._process.wait(30)
    assert not process.ensure_running()


def test_a_process_whose_socket_was_deleted_is_started_again(settings, tmp_path, monkeypatch):
    if len(str(tmp_path / SOCKET)) > MAX_ADDRESS:
        pytest.skip("The directory of this run is too long for a socket.")
    monkeypatch.setattr(process_module, "RESTART_SECONDS", 0.0)
    process = MeaningProcess(tmp_path, "use", settings.BASE_DIR)
    assert process.ensure_running()
    try:
        wait_until((tmp_path / SOCKET).exists)
        first = process._process.pid
        (tmp_path / SOCKET).unlink()
        assert process.ensure_running()
        assert process._process.pid == first
        monkeypatch.setattr(process_module, "SOCKET_SECONDS", 0.0)
        assert process.ensure_running()
        wait_until((tmp_path / SOCKET).exists)
        assert process._process.pid != first
    finally:
        process._process.stdin.close()
        process._process.wait(30)


def test_a_path_that_is_too_long_for_a_socket_starts_nothing(settings, tmp_path):
    assert not MeaningProcess(tmp_path / ("x" * MAX_ADDRESS), "use", settings.BASE_DIR).ensure_running()


def test_the_shipped_model_compares_languages(tmp_path):
    encoder = Comparison(tmp_path, tmp_path / "meaning", MODELS["use"])._encoder
    question, answer, other = encoder.encode(["Wo ist mein Paket?", "track a parcel", "create an invoice"])
    assert question.shape == (MODELS["use"].dimensions,)
    assert question @ answer > question @ other + 0.1


def test_the_name_of_a_tool_counts_beside_its_text(tmp_path):
    encoder = SentenceEncoder(tmp_path)
    text, name = "Acme cancel booking. Sends a message to the guest and frees the room.", "cancel booking"
    (question, by_text), (by_both,) = encoder.encode([name, text]), encoder.encode_tools([text], [name])
    assert np.linalg.norm(by_both) == pytest.approx(1.0, abs=1e-5)
    assert question @ by_both > question @ by_text + 0.01
    assert encoder.encode_tools([], []).shape == (0, MODELS["use"].dimensions)


def test_a_process_that_was_quiet_gives_the_memory_of_the_model_back(settings, tmp_path):
    """Its vectors remain, and the next question loads the model again."""
    if len(str(tmp_path / SOCKET)) > MAX_ADDRESS:
        pytest.skip("The directory of this run is too long for a socket.")
    process = MeaningProcess(tmp_path, "use", settings.BASE_DIR, idle_seconds=1.0)
    assert process.ensure_running()
    started = psutil.Process(process._process.pid)
    try:
        wait_until(lambda: (tmp_path / SOCKET).exists())
        assert not has_model(started)
        client.send(
            tmp_path,
            StoreTexts([1], [1], ["track a parcel"], ["track a parcel"], [], "state 1", is_start=True),
            30.0,
        )
        assert has_model(started)
        wait_until(lambda: not has_model(started))
        wait_until(lambda: client.send_now(tmp_path, ReadState(), 5.0))
        client.send(tmp_path, StoreTexts([], [], [], [], [], "state 2"), 5.0)
        assert client.send(tmp_path, ReadState(), 5.0).state == "state 2"
        assert not has_model(started)
        reply = client.send(tmp_path, FindNearest("Wo ist mein Paket?", None, [], 5), 30.0)
        assert isinstance(reply, Similarities)
        assert list(reply.nearest) == [1]
        wait_until(lambda: not has_model(started))
        wait_until(lambda: client.send_now(tmp_path, Prepare(), 5.0))
        wait_until(lambda: has_model(started))
    finally:
        process._process.stdin.close()
        process._process.wait(30)


def has_model(process):
    try:
        return any("tokens.npy" in region.path for region in process.memory_maps())
    except psutil.ZombieProcess:
        # Its first thread has ended, and the one that starts it anew takes its place.
        return False


def wait_until(is_true):
    ends = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_pages_and_rest_state_how_many_tools_have_a_vector(host, admin_api, admin_client):
    for number in range(3):
        make_tool(signature=make_signature(name=f"plane_{number}"))
    search.index_pending()
    progress = admin_api.get("/api/v1/tools/").json()["progress"]
    assert (progress["tools"], progress["compared"]) == (3, 0)
    assert b'id="meaning-progress"' in admin_client.get("/vendors/").content
    meanings.follow()
    assert admin_api.get("/api/v1/tools/").json()["progress"]["compared"] == 3
    assert b'id="meaning-progress"' not in admin_client.get("/vendors/").content


def test_an_installation_without_meanings_has_no_progress_of_them(admin_api):
    assert admin_api.get("/api/v1/tools/").json()["progress"]["compared"] is None


def test_pages_rest_and_doctor_state_why_no_vectors_are_made(host, admin_api, admin_client):
    make_tool(make_signature("issue_cheque"))
    index_all()
    host.load()._encoder.trouble = "The model <refuses> its key."
    assert (
        admin_api.get("/api/v1/tools/").json()["progress"]["meaning_trouble"]
        == "The model <refuses> its key."
    )
    page = admin_client.get("/vendors/").content
    assert b'id="meaning-trouble"' in page
    assert b"<refuses>" not in page
    (trouble,) = work.compared_meanings(DoctorLimits())
    assert "its key" in trouble.summary


def test_the_log_states_once_that_meanings_are_not_compared(caplog, monkeypatch):
    process = SimpleNamespace(ensure_running=lambda: True)
    replies = iter([client.MeaningUnavailableError("away")] * 3 + [None] * 2)

    def follow(ends):
        if error := next(replies):
            raise error
        return False

    monkeypatch.setattr(meanings, "follow", follow)
    trouble = ""
    for _ in range(5):
        _, trouble = follower._make_vectors(process, trouble)
    assert len(caplog.records) == 2
