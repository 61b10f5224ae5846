"""The database and the broker are killed, wiped, full, slow and silent under the running product."""

import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import psycopg
import pytest

from tests.faults import tally
from tests.faults.catalog import change
from tests.faults.stand import Answer, Clients, Stand, lose_the_worker, wait_for
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.faults

DATABASE_BACK, BROKER_BACK = 10, 90  # seconds
PAGE = 5.0
PAGES = ["/accounts/login/", "/api/v1/tools/?q=thing", "/api/v1/agents/clerk/", "/api/v1/findings/"]
EXPORT = "/api/v1/agents/clerk/releases/1/bundle/"


@pytest.fixture(autouse=True)
def _heal(stand: Stand):
    yield
    stand.database.heal()
    stand.broker.heal()
    wait_for(lambda: stand.ask("/api/v1/agents/").status == 200, 30, "a healthy page")
    assert stand.warm.do("breaches") == []


def ask_all(stand: Stand, pages: list[str], times: int = 1) -> list[Answer]:
    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(stand.ask, pages * times))


def is_clean(answer: Answer) -> bool:
    """Accept a page, or a message that asks to come back; never a traceback."""
    if answer.status == 200:
        return True
    page_text = re.sub(r"<[^>]+>", " ", answer.body.decode())
    return (
        answer.status == 503
        and answer.headers["Retry-After"] == "5"
        and "database" in page_text
        and "Error" not in page_text
    )


def test_every_acknowledged_write_outlives_the_database(stand):
    """R1, and that errors end within ten seconds of its return."""
    with Clients(stand, 8) as clients:
        wait_for(lambda: len(clients.acknowledged) > 20, 30, "twenty writes")
        stand.kill("postgres")
        time.sleep(0.5)
        stand.begin_again("postgres")
        back = time.monotonic()
        before = len(clients.acknowledged)
        wait_for(lambda: len(clients.acknowledged) > before + 20, 30, "twenty more writes")
    stored_slugs = {slug for (slug,) in stand.query("SELECT slug FROM designer_agent")}
    assert set(clients.acknowledged) <= stored_slugs
    assert all(is_clean(answer) for _, answer in clients.others)
    assert clients.others
    assert max(when for when, _ in clients.others) - back < DATABASE_BACK


def test_while_the_database_is_gone_everybody_is_told_so(stand):
    stand.kill("postgres")
    try:
        answers = ask_all(stand, [*PAGES, EXPORT, "/", "/tools/"])
        assert stand.ask("/healthz").status == 200
        assert stand.ask("/readyz").json() == {"database": "unreachable", "queue": "ok"}
    finally:
        stand.begin_again("postgres")
    assert all(map(is_clean, answers))
    assert {answer.status for answer in answers[1:5]} == {503}
    assert answers[1].json()["code"] == "unavailable"


def test_a_slow_line_to_the_database_gives_a_page_or_a_sentence_in_time(stand):
    """R4."""
    stand.database.latency, stand.database.jitter = 0.3, 0.1
    answers = ask_all(stand, [*PAGES, EXPORT, "/tools/"], times=2)
    assert all(map(is_clean, answers))
    # One for each thread of the web server. A worker that a test before has killed may still be hanging up.
    wait_for(lambda: stand.database.open_lines <= 8, 60, "no more lines than threads")
    stand.database.heal()
    assert stand.ask(EXPORT).status == 200


def test_a_silent_line_to_the_database_costs_no_thread(stand):
    """Sixteen requests on eight threads: each is let go of, and the next one gets its turn."""
    assert {answer.status for answer in ask_all(stand, PAGES, times=2)} == {200}
    stand.database.is_silent = True
    answers = ask_all(stand, PAGES[1:], times=4)
    stand.database.heal()
    assert {answer.status for answer in answers} == {503}
    assert all(map(is_clean, answers))
    assert stand.ask(PAGES[1]).status == 200


def test_lines_that_are_cut_are_made_anew(stand):
    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            pending = [pool.submit(stand.ask, page) for page in PAGES * 3]
            time.sleep(0.05)
            stand.database.cut()
            answers = [request.result() for request in pending]
        assert all(map(is_clean, answers))
    assert {answer.status for answer in ask_all(stand, PAGES)} == {200}


def test_a_locked_table_holds_up_nobody_for_long(stand):
    with psycopg.connect(stand.environment["DATABASE_URL"]) as lock:
        lock.execute("LOCK TABLE catalog_tool IN ACCESS EXCLUSIVE MODE")
        answers = ask_all(stand, ["/api/v1/tools/?q=thing", "/api/v1/tools/", EXPORT, EXPORT], times=2)
        lock.rollback()
    assert all(map(is_clean, answers))
    assert [answer.status for answer in answers[:2]] == [503, 503]
    assert {answer.status for answer in answers[2:4]} == {200}, "a release needs no tool"
    assert max(answer.seconds for answer in answers) < 2 * PAGE


SLOW_COMMIT = """
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON designer_agent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow_commit()
"""
COMMITS_SLOWLY = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def test_a_write_whose_commit_is_not_confirmed_is_found_by_its_key(stand):
    """The connection is lost while the server commits; only a repeat can find out what became of it."""
    stand.query(SLOW_COMMIT)
    body = {"name": "Unconfirmed", "slug": "unconfirmed"}
    try:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(stand.ask, "/api/v1/agents/", body, key="once")
            wait_for(lambda: stand.query(COMMITS_SLOWLY), 30, "the beginning of the commit")
            stand.database.cut()
            lost_reply = first.result()
        saved = "SELECT 1 FROM designer_agent WHERE slug = 'unconfirmed'"
        wait_for(lambda: stand.query(saved), 10, "the commit")
        again = stand.ask("/api/v1/agents/", body, key="once")
    finally:
        stand.query("DROP FUNCTION slow_commit() CASCADE")
    assert (lost_reply.status, lost_reply.json()["code"]) == (503, "outcome_unknown")
    assert (again.status, again.json()["slug"]) == (201, "unconfirmed")
    assert again.headers["Idempotency-Replayed"] == "true"


SLOW_EXPORTS = """
CREATE FUNCTION slow_export() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
CREATE TRIGGER slow_export BEFORE INSERT ON designer_export FOR EACH ROW EXECUTE FUNCTION slow_export()
"""


def test_publishing_may_take_longer_than_a_page(stand):
    """Ten exports of half a second each: more than one statement, and all queries of a page, may take."""
    stand.query(SLOW_EXPORTS)
    try:
        edited = stand.ask("/api/v1/agents/clerk/", {"description": "Published slowly."}, method="PATCH")
        published = stand.ask("/api/v1/agents/clerk/releases/", {"note": "slow"})
    finally:
        stand.query("DROP FUNCTION slow_export() CASCADE")
    assert (edited.status, published.status) == (200, 201)
    assert published.seconds > PAGE - 1


FILL = """
INSERT INTO designer_agent SELECT (jsonb_populate_record(a, jsonb_build_object(
    'id', nextval(pg_get_serial_sequence('designer_agent', 'id')), 'slug', 'fill-' || n,
    'description', repeat('x', 3900)))).*
    FROM designer_agent a, generate_series(1, %s) n WHERE a.slug = 'clerk'
"""


def test_a_full_disk_is_said_and_reading_goes_on(stand):
    """R5. The server is not started again afterwards."""

    def make_big_agent(name: str) -> Answer:
        return stand.ask("/api/v1/agents/", {"name": name, "description": "x" * 3900})

    stand.query("ALTER TABLE designer_agent ALTER description SET STORAGE PLAIN")
    stand.query(FILL, 4300)
    stand.limit_files(16 << 20)  # a segment of the server's own log still fits, and the table does not
    try:
        # The last page of the table, or one that a vacuum emptied, may have room for one more.
        answers = (make_big_agent(f"big {number}") for number in range(5))
        refused = next(answer for answer in answers if answer.status != 201)
        pages = ask_all(stand, [*PAGES, EXPORT])
        page = stand.sign_in()
    finally:
        stand.limit_files(-1)
    assert (refused.status, refused.json()["code"]) == (503, "disk_full")
    assert {answer.status for answer in pages} == {200}
    assert page == 200
    assert make_big_agent("big").status == 201
    stand.query("DELETE FROM designer_agent WHERE slug LIKE 'fill-%'")


def status_of(stand: Stand, run: int) -> str:
    return stand.query("SELECT status FROM catalog_run WHERE id = %s", run)[0][0]


def wait_for_success(stand: Stand, run: int, seconds: float, what: str) -> float:
    try:
        return wait_for(lambda: status_of(stand, run) == "succeeded", seconds, what)
    except AssertionError as late:
        facts = "SELECT status, error_code, attempt, queued_at, sent_at, lease_until, now() FROM catalog_run"
        late.add_note(f"{stand.query(f'{facts} WHERE id = %s', run)}\n{stand.log('worker')}")
        raise


def request(stand: Stand) -> int:
    answer = stand.ask(f"/api/v1/endpoints/{stand.endpoint}/enumerate/", {})
    assert answer.status in (200, 201, 202), answer
    assert answer.seconds < PAGE
    return answer.json()["run"]


@pytest.fixture
def worker(stand: Stand):
    stand.begin_worker()
    yield
    stand.end("worker", signal.SIGKILL)


@pytest.fixture
def scheduler(stand: Stand):
    stand.begin_beat()
    yield
    stand.end("beat", signal.SIGKILL)


def test_without_the_broker_nothing_but_the_next_reading_waits(stand, worker, scheduler):
    """R2, and point 24: it is killed while a run is under way, comes back empty, and is full at last."""
    run = request(stand)
    wait_for_success(stand, run, BROKER_BACK, "a run with the broker")

    def script(number: int, document: object) -> None:
        stand.vendor.script = None
        stand.kill("valkey")
        time.sleep(1)

    stand.vendor.script = script
    under_way = request(stand)
    wait_for_success(stand, under_way, 60, "the end of the run that was under way")
    assert {answer.status for answer in ask_all(stand, [*PAGES, EXPORT])} == {200}
    assert stand.sign_in() == 200
    waiting = request(stand)
    stand.begin_again("valkey")
    stand.valkey().flushall()
    wait_for_success(stand, waiting, BROKER_BACK, "the run that waited")

    stand.valkey().config_set("maxmemory", "1mb")
    waiting = request(stand)
    assert {answer.status for answer in ask_all(stand, [*PAGES, EXPORT])} == {200}
    assert stand.sign_in() == 200
    stand.valkey().config_set("maxmemory", "0")
    wait_for_success(stand, waiting, BROKER_BACK, "the run of the full broker")
    unfinished = stand.query("SELECT count(*) FROM catalog_run WHERE status <> 'succeeded'")
    assert unfinished == [(0,)]


def test_a_worker_outlives_a_message_that_a_full_broker_does_not_let_it_take(stand, worker, scheduler):
    """It reads the message, and cannot note there that it has it: the message is lost, and sent again."""
    wait_for_success(stand, request(stand), BROKER_BACK, "a run with the broker")
    process = psutil.Process(stand.processes["worker"].pid)
    process.suspend()
    # The broker would hand the message to a blocking pop that the worker sent before it was suspended.
    wait_for(lambda: stand.valkey().info("clients")["blocked_clients"] == 0, 10, "the pop's own time limit")
    waiting = request(stand)
    wait_for(lambda: stand.valkey().llen("enumeration"), 10, "a message in the queue")
    stand.valkey().config_set("maxmemory", "1mb")
    process.resume()
    wait_for(lambda: "OutOfMemoryError" in stand.log("worker"), 20, "a refusal of the broker")
    stand.valkey().config_set("maxmemory", "0")
    wait_for_success(stand, waiting, BROKER_BACK, "the run of the full broker")
    assert process.is_running()


def test_without_a_scheduler_a_run_is_taken_up_within_a_minute_of_its_workers_death(stand, worker):
    """D4, and R3: workers look around too. The broker is no help, for it delivers a message once.

    The lease is made to end at once; the storm `servers` waits for a real one, and holds it to a minute.
    """
    run = lose_the_worker(stand)
    stand.query("UPDATE catalog_run SET lease_until = now() WHERE id = %s", run)
    stand.begin_worker()
    took = wait_for_success(stand, run, 60, "the run")
    tally.recovery("worker killed", took)
    assert stand.query("SELECT attempt FROM catalog_run WHERE id = %s", run) == [(2,)]


def test_a_deployment_in_the_middle_of_a_reading_loses_nothing(stand, worker):
    """R6, for one version of the code; the storm `upgrade` has two, with a migration between them."""

    paths = [*PAGES, EXPORT]
    answers: list[int] = []
    under_way, over = threading.Event(), threading.Event()

    def script(number: int, document: object) -> None:
        under_way.set()
        time.sleep(0.3)

    def read_pages() -> None:
        while not over.wait(0.05):
            answers.append(stand.ask(paths[len(answers) % len(paths)]).status)

    stand.vendor.script = script
    reader = threading.Thread(target=read_pages)
    reader.start()
    try:
        run = request(stand)
        assert under_way.wait(60)
        for name, begin in (("web", stand.begin_web), ("worker", stand.begin_worker)):
            stand.end(name)
            begin()
        wait_for_success(stand, run, 60, "the run")
        count = len(answers)
        wait_for(lambda: len(answers) > count + 5, 30, "answers of the successor")
    finally:
        over.set()
        reader.join()
        stand.vendor.script = None
    assert set(answers) == {200}


def test_a_slow_or_silent_broker_holds_up_no_page(stand):
    for fault in ("latency", "is_silent"):
        stand.broker.heal()
        setattr(stand.broker, fault, 0.5)
        stand.query("UPDATE catalog_run SET status = 'succeeded', finished_at = now(), lease_until = NULL")
        request(stand)
        assert {answer.status for answer in ask_all(stand, [*PAGES, EXPORT])} == {200}
        assert stand.sign_in() == 200
    stand.query("UPDATE catalog_run SET status = 'succeeded', finished_at = now(), lease_until = NULL")


def test_a_database_that_is_killed_at_the_commit_has_all_of_a_run_or_nothing(stand):
    """Point 23."""
    with serving(Vendor(tools(25))) as vendor, serving(Vendor(tools(25))) as twin:
        endpoint, other = stand.warm.do("connect", vendor.url), stand.warm.do("connect", twin.url)
        change(vendor)
        change(twin)
        undisturbed = stand.warm.do("request", other, stand.ada)
        stand.warm.do("task", undisturbed)
        run = stand.warm.do("request", endpoint, stand.ada)
        child = stand.warm.start("task", run, crash="record-commit:1:SIGSTOP")
        wait_for(child.is_stopped, 30, "the commit")
        stand.kill("postgres")
        stand.begin_again("postgres")
        child.kill(signal.SIGCONT)
        assert child.wait().status != 0, stand.warm.words()
        assert status_of(stand, run) == "running"
        stand.warm.do("take_up", run)
        assert stand.warm.do("the_catalog_of", endpoint) == stand.warm.do("the_catalog_of", other)
