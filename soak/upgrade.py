"""Code of yesterday runs beside code of today while the schema changes under both, and is then ended."""

import hashlib
import html
import re
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from soak.deploy import BACK, READINGS, SOFT_SHUTDOWN, slow_vendor
from soak.frame import Field
from tests.factories import PASSWORD
from tests.faults.stand import NO_LIMITS, Stand, wait_for
from tests.faults.warm import ROOT
from tests.vendor import Vendor, serving, tools

# Old code is that before the newest migration, before the third newest, ... It is not older than the initial
# migrations: an older version has to upgrade its databases.
STEPS_BACK = (1, 3, 6)
MORE_READINGS = 3
QUIET = 5  # seconds in which nothing is done to the crowd, to see that this machine can bear it
PAUSE = 0.1  # seconds between two requests of one visitor
CALLS = (
    *("/api/v1/tools/?q=thing", "/api/v1/tools/", "/api/v1/endpoints/", "/api/v1/runs/", "/api/v1/findings/"),
    *("/api/v1/agents/", "/api/v1/agents/clerk/", "/api/v1/agents/clerk/pins/", "/api/v1/vendors/"),
    "/api/v1/agents/clerk/releases/1/bundle/",
)
LINK = re.compile(r'href="(/(?!static/|accounts/log)[^"#]*)')


def storm(field: Field) -> None:
    added = commits_that_add("*/migrations/0*.py")
    initial = commits_that_add("*/migrations/0001_squashed_*.py")
    if not added or not initial:
        field.skip("it takes old code from the history of this repository, which is not here (git)")
        return
    added = added[: added.index(initial[0]) + 1]
    for step in STEPS_BACK[: field.times(short=1, long=len(STEPS_BACK))]:
        if step <= len(added):
            commit = added[step - 1]
            upgrade(field, step, commit[:7], git("archive", f"{commit}^"))


def commits_that_add(pattern: str) -> list[str]:
    """Return the commits that add such a file, newest first."""
    return git("log", "--no-renames", "--diff-filter=A", "--format=%H", "--", pattern).decode().split()


def git(*words: str) -> bytes:
    """Return the output of git; nothing if git, the repository or the commit is missing."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""


def upgrade(field: Field, step: int, commit: str, tree: bytes) -> None:
    which = f"from before {commit}, {step} back"
    place = field.directory / f"old-{step}"
    with tarfile.open(fileobj=BytesIO(tree)) as archive:
        archive.extractall(place, filter="data")
    environment = field.environment | database(field, f"old_{step}") | NO_LIMITS
    stand = Stand(field.servers, environment, field.directory)
    stand.code = place
    try:
        with ExitStack() as served:
            vendors = [
                served.enter_context(serving(slow_vendor())) for _ in range(READINGS + 2 * MORE_READINGS)
            ]
            stand.vendor = served.enter_context(serving(Vendor(tools(25))))
            set_up_stand(stand)
            with Crowd(stand, field.random) as crowd:
                time.sleep(QUIET)
                if crowd.wrong:
                    field.skip(f"this machine is too busy: before anything changed, {crowd.wrong[0]}")
                    return
                replace(field, stand, vendors, which)
            check(field, stand, crowd, which)
    finally:
        stand.stop()


def database(field: Field, name: str) -> dict[str, str]:
    """A fresh one for the old code's schema."""
    url = field.environment["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return {"DATABASE_URL": urllib.parse.urlsplit(url)._replace(path=f"/{name}").geturl()}


def manage(stand: Stand, *words: str, code: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=code,
        env=stand.environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def set_up_stand(stand: Stand) -> None:
    """By commands and REST alone, because old code knows nothing of our helpers."""
    manage(stand, "migrate", "--noinput", code=stand.code)
    words = ("createsuperuser", "--noinput", "--username", "ada")
    manage(stand, *words, code=stand.code, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
    stand.token = manage(stand, "token", "storm", "--user", "ada", code=stand.code)
    stand.begin_web()
    wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
    stand.begin_worker()
    stand.begin_beat()
    first = add(stand, stand.vendor)
    wait_for(lambda: done(stand, [first]), 60, "the first reading")
    post(stand, "/api/v1/agents/", {"name": "Clerk", "slug": "clerk"})
    post(stand, "/api/v1/agents/clerk/pins/", {"tool": tool_ids(stand)[0]})
    post(stand, "/api/v1/agents/clerk/releases/", {})


def post(stand: Stand, path: str, body: object) -> Any:
    """Post, and repeat after a 503 up to ten times: only the crowd counts the answers of a busy machine."""
    answer = stand.ask(path, body)
    for _ in range(10):
        if answer.status != 503:
            break
        time.sleep(2)
        answer = stand.ask(path, body)
    assert answer.status in (200, 201, 202), f"{path} answered {answer.status}: {answer.body[:300]!r}"
    return answer.json()


def add(stand: Stand, vendor: Vendor) -> int:
    """An endpoint of a vendor of its own; the run that a user requests at once."""
    slug = f"vendor-{vendor.url.rpartition(':')[2].strip('/')}"
    post(stand, "/api/v1/vendors/", {"name": slug, "slug": slug})
    fields = {"vendor": slug, "protocol": "a2t", "url": f"{vendor.url}tools"}
    endpoint = post(stand, "/api/v1/endpoints/", fields)["id"]
    run: int = post(stand, f"/api/v1/endpoints/{endpoint}/enumerate/", {})["run"]
    return run


def done(stand: Stand, runs: list[int]) -> bool:
    query = "SELECT count(*) FROM catalog_run WHERE id = ANY(%s) AND status = 'succeeded'"
    return stand.query(query, runs) == [(len(runs),)]


def tool_ids(stand: Stand) -> list[int]:
    return [tool["id"] for tool in stand.ask("/api/v1/tools/?limit=25").json()["results"]]


def replace(field: Field, stand: Stand, vendors: list[Vendor], which: str) -> None:
    """Old code; old code on the new schema; both; new code. Readings are asked for in each."""
    runs = [add(stand, vendor) for vendor in vendors[:READINGS]]
    wait_for(lambda: stand.query("SELECT count(*) FROM catalog_run WHERE status = 'running'") != [(0,)], 60)
    began = time.monotonic()
    manage(stand, "migrate", "--noinput", code=ROOT)
    field.fault("schema changed under old code", which, recovery=time.monotonic() - began)
    runs += [add(stand, vendor) for vendor in vendors[READINGS:-MORE_READINGS]]
    time.sleep(3)
    stand.code = ROOT
    stand.begin_web("web-new")
    stand.begin_worker("worker-new")
    stand.begin_beat("beat-new")
    wait_for(lambda: "Booting worker" in stand.log("web-new"), 60, "the new web server")
    runs += [add(stand, vendor) for vendor in vendors[-MORE_READINGS:]]
    time.sleep(5)
    field.fault("old and new code side by side", which)
    began = time.monotonic()
    for name in ("web", "worker", "beat"):
        stand.end(name, patience=2 * SOFT_SHUTDOWN)
    field.fault("old code told to end", which, recovery=time.monotonic() - began, limit=SOFT_SHUTDOWN)
    wait_for(lambda: done(stand, runs), 180, f"{len(runs)} readings")
    field.fault("readings of both finished", which, recovery=time.monotonic() - began, limit=BACK)
    time.sleep(2)


@dataclass
class Crowd:
    """People on pages, programs on the API and a writer. `wrong` is what they were not to see."""

    stand: Stand
    random: Random
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    sealed: dict[str, str] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Crowd":
        self.tools = tool_ids(self.stand)
        jobs = (self._call, self._browse, self._write)
        self.threads = [threading.Thread(target=self._work, args=(n, job)) for n, job in enumerate(jobs)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _work(self, number: int, job: Callable[[Random], None]) -> None:
        try:
            job(Random(self.random.random()))
        except Exception as exc:  # noqa: BLE001 - the thread that fails says why
            self.wrong.append(f"visitor {number} gave up: {type(exc).__name__}: {exc}")

    def _note(self, who: str, status: int, is_wrong: bool, what: str) -> None:
        self.answers[f"{who} {status}"] += 1
        if is_wrong:
            self.wrong.append(what[:300])

    def _call(self, random: Random) -> None:
        while not self.over.wait(PAUSE):
            path = random.choice(CALLS)
            answer = self.stand.ask(path)
            self._note(
                "calls", answer.status, answer.status != 200, f"{path}: {answer.status} {answer.body!r}"
            )

    def _browse(self, random: Random) -> None:
        """Signs in, and follows one link after the other."""
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        root = f"http://127.0.0.1:{self.stand.port}"
        with browser.open(f"{root}/accounts/login/", timeout=30) as page:
            token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())[0]
        form = {"username": "ada", "password": PASSWORD, "csrfmiddlewaretoken": token}
        browser.open(f"{root}/accounts/login/", urllib.parse.urlencode(form).encode(), timeout=30).close()
        links = ["/"]
        while not self.over.wait(PAUSE):
            path = random.choice(links)
            try:
                with browser.open(urllib.request.Request(root + path), timeout=30) as page:
                    status, where = page.status, page.url
                    text = page.read().decode(errors="replace")
            except urllib.error.HTTPError as error:
                with error:
                    status, where, text = error.code, path, error.read().decode(errors="replace")
            except OSError as exc:
                status, where, text = 0, path, str(exc)
            is_thrown_out = "/accounts/login/" in where
            is_wrong = status in (0, 403) or status >= 500 or is_thrown_out
            self._note("pages", status, is_wrong, f"{path}: {status}{' signed out' if is_thrown_out else ''}")
            links = sorted({*links[:400], "/", *map(html.unescape, LINK.findall(text))})

    def _write(self, random: Random) -> None:
        """One agent after the other: created, pinned, tuned, published. Acknowledged writes have to stay."""
        number = 0
        while not self.over.wait(PAUSE):
            number += 1
            agent = f"/api/v1/agents/agent-{number}/"
            if not self._send("/api/v1/agents/", {"name": f"Agent {number}", "slug": f"agent-{number}"}):
                continue
            pin = self._send(f"{agent}pins/", {"tool": random.choice(self.tools)})
            if pin:
                words = {"description": f"Our words {number}"}
                self._send(f"{agent}pins/{pin['id']}/tuning/", words, "PUT")
            release = self._send(f"{agent}releases/", {})
            if release:
                self.sealed[f"{agent}releases/{release['number']}/bundle/"] = release["digest"]

    def _send(self, path: str, body: object, method: str = "") -> Any:
        answer = self.stand.ask(path, body, method=method)
        is_wrong = answer.status not in (200, 201)
        self._note("writes", answer.status, is_wrong, f"{path}: {answer.status} {answer.body!r}")
        return None if is_wrong else answer.json()


def check(field: Field, stand: Stand, crowd: Crowd, which: str) -> None:
    for observation, count in Counter(crowd.wrong).most_common(20):
        field.violation(f"{which}: {count} times {observation}")
    for path, digest in crowd.sealed.items():
        is_unchanged = hashlib.sha256(stand.ask(path).body).hexdigest() == digest
        field.expect(is_unchanged, f"{which}: {path} was acknowledged and is another now")
    field.expect(len(crowd.sealed) > 10, f"{which}: only {len(crowd.sealed)} releases were published")
    for breach in stand.warm.do("breaches"):
        field.violation(f"{which}: {breach}")
    field.figure(f"answers {which}", ", ".join(f"{n:,} {what}" for what, n in sorted(crowd.answers.items())))
    field.figure(f"releases published {which}", len(crowd.sealed))
