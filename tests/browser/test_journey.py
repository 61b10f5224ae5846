"""The main job, end to end, as a newcomer does it."""

import json
import subprocess
import threading
from uuid import UUID

import pytest
from django.db import connections
from playwright.sync_api import expect

from catalog import search
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run
from catalog.review import inspector
from catalog.vendors import detection_jobs
from core import wakes
from designer.models import Release
from people.models import Role
from tests import one_door
from tests.factories import PASSWORD, make_user
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.browser


@pytest.fixture
def detecting(monkeypatch):
    """Detections run in a thread of this process, as a worker would."""

    def perform(job_id: str) -> None:
        try:
            detection_jobs.perform(UUID(job_id))
        finally:
            connections.close_all()

    def send_job(task: str, *arguments: object) -> bool:
        threading.Thread(target=perform, args=arguments, daemon=True).start()
        return True

    monkeypatch.setattr(wakes, "send_job", send_job)


def test_from_an_address_to_a_published_agent(open_browser, complaints, detecting):
    make_user(Role.ADMIN, username="ada")
    page = open_browser().new_page()
    messages = complaints(page)

    with serving(Vendor(tools(25))) as vendor:
        sign_in(page)
        connect(page, vendor.url)
        watch_the_first_reading(page)
    find_and_pin(page)
    tune(page)
    publish(page)

    assert Release.objects.get().tool_count == 1
    assert messages == []


def sign_in(page):
    page.goto("/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".step.is-now")).to_contain_text("Connect a vendor")


def connect(page, url):
    page.get_by_role("link", name="Connect a vendor").click()
    page.get_by_role("textbox", name="Address", exact=True).fill(url)
    page.get_by_role("button", name="Find its tools").click()
    expect(page.get_by_role("heading", name="A2T / N-ACT server, 25 tools")).to_be_visible()
    page.get_by_role("button", name="Save and sync tools").click()


def watch_the_first_reading(page):
    run_status = page.locator("#run .strong").first
    expect(run_status).to_contain_text("Waiting for a worker")
    run = enumeration_runs.perform(Run.objects.get().pk)
    inspector.inspect_pending(run.endpoint_id)
    search.index_pending()
    expect(run_status).to_contain_text("Read 25 tools: 25 new")


def find_and_pin(page):
    page.locator("#run .list a.name").first.click()
    page.get_by_label("Name of the new agent").fill("Travel desk")
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("heading", name="Travel desk")).to_be_visible()


def tune(page):
    page.locator("[data-row]").first.click()
    page.get_by_label("Description", exact=True).fill("Ask for the city first.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Publish the agent when you want")).to_be_visible()


def publish(page):
    page.get_by_role("link", name="Review and publish").click()
    page.get_by_label("Note").fill("The first")
    page.get_by_role("button", name="Publish and promote to live").click()
    expect(page.get_by_role("heading", name="Release 1")).to_be_visible()
    page.get_by_role("link", name="View", exact=True).first.click()
    expect(page.locator("#body")).to_contain_text("Ask for the city first.")


MAX_CLICKS = 8


def test_from_home_to_a_working_command_in_few_clicks(open_browser, detecting):
    make_user(Role.ADMIN, username="ada")
    page = open_browser().new_page()
    sign_in(page)
    clicks: list[str] = []
    page.expose_function("noteClick", lambda text: clicks.append(text))
    page.add_init_script(
        "addEventListener('click', event => event.isTrusted && noteClick(event.target.textContent), true)"
    )
    with serving(Vendor(tools(25))) as vendor:
        page.goto("/")
        connect(page, vendor.url)
        watch_the_first_reading(page)
    find_and_pin(page)
    page.get_by_role("link", name="Review and publish").click()
    page.get_by_role("button", name="Publish and promote to live").click()
    page.get_by_role("button", name="Create key").click()
    command = page.locator("#program-1").inner_text()
    with one_door.other_side():
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    (tool,) = json.loads(done.stdout)["tools"]
    assert tool["inputs"]
    assert len(clicks) <= MAX_CLICKS, clicks
