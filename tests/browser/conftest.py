import shutil
import threading
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from execution.calls import invocation
from people.models import Role
from tests.factories import make_user

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
Open = Callable[..., BrowserContext]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("The browser tests need Chromium; install it from your distribution.")
    of_thread = connections["default"]
    with sync_playwright() as playwright:
        # While an event loop runs, Django looks for connections elsewhere and would open a second one: rows
        # that tests share in a transaction would then be missing, or could not be rolled back.
        connections["default"] = of_thread
        # Without a graphics card it would imitate one, which costs more than drawing.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_browser(chromium: Browser, live_server: LiveServer) -> Iterator[Open]:
    """Open a window of a user with a role, or of a stranger: `open_browser(Role.ADMIN, theme="dark")`."""
    opened = []

    def open_one(role: str | None = None, *, theme: str = "", **options: object) -> BrowserContext:
        context = chromium.new_context(
            **{"base_url": live_server.url, "viewport": DESKTOP, "reduced_motion": "reduce"} | options
        )
        context.set_default_timeout(10_000)
        # The first page of a process compiles its templates, or the document of the API reference.
        context.set_default_navigation_timeout(30_000)
        if role:
            context.add_cookies([_cookie(live_server, settings.SESSION_COOKIE_NAME, _session(role))])
        if theme:
            context.add_cookies([_cookie(live_server, "theme", theme)])
        opened.append(context)
        return context

    yield open_one
    for context in opened:
        context.close()


def _cookie(live_server: LiveServer, name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value, "url": live_server.url}


def _session(role: str) -> str:
    client = Client()
    client.force_login(make_user(role))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def complaints() -> Callable[[Page], list[str]]:
    """Collect what the browser reports about a page: errors, warnings and anything that the policy blocks."""

    def listen(page: Page) -> list[str]:
        messages: list[str] = []

        def note(message: ConsoleMessage) -> None:
            # A loaded machine paints a page later than the browser expects of a preloaded font.
            is_late_font = "was preloaded using link preload but not used" in message.text
            if message.type in ("error", "warning") and not is_late_font:
                messages.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: messages.append(str(error)))
        return messages

    return listen


@pytest.fixture
def wait_for_requests() -> Callable[[Page], Callable[[], None]]:
    """Begin to count the requests of a page. The result waits until all of them have ended.

    A page that is left earlier breaks them off, which htmx reports as an error.
    """

    def count(page: Page) -> Callable[[], None]:
        running = set()
        page.on("request", lambda request: running.add(request))
        page.on("requestfinished", lambda request: running.discard(request))
        page.on("requestfailed", lambda request: running.discard(request))

        def wait() -> None:
            while running:
                page.wait_for_timeout(20)

        return wait

    return count


@pytest.fixture
def role() -> Role:
    """The user of the window `page`; a test that needs another one uses `parametrize`."""
    return Role.VIEWER


@pytest.fixture
def page(open_browser: Open, role: Role) -> Page:
    return open_browser(role).new_page()


@pytest.fixture
def worker() -> Iterator[None]:
    """Makes the calls that wait for a worker."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            invocation.perform_due_calls()
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()
