"""Publishing as a review: the draft beside what is live, checks, and overriding them with a reason."""

import re

import pytest
from django.test import Client

from catalog.models import Finding
from designer import exports
from designer.exports import document as release_document
from designer.models import Release
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import channels, composition, publishing
from people.models import AuditEntry, Role
from tests.clients import client_of
from tests.designer.exports.formats import raw_tools
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import text_of

AGENT = "/api/v1/agents/desk/"
PAGE = "/agents/desk/publish/"


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def sky(desk):
    return make_pin(desk, make_tool(make_signature("sky", description="Tells how the sky looks.")))


@pytest.fixture
def browser(alice):
    browser = Client()
    browser.force_login(alice)
    return browser


def hold(pin, state="open"):
    return Finding.objects.create(
        tool=pin.tool,
        version=pin.version,
        endpoint=pin.tool.endpoint,
        code="HELD",
        severity="high",
        state=state,
        subject=pin.version.digest,
        message="It waits.",
    )


def failed(answer):
    return [check["code"] for check in answer.json()["checks"] if check["severity"] == "error"]


def test_the_draft_is_compared_with_what_is_live_and_not_with_what_is_newest(api, alice, desk, sky):
    publishing.publish(desk, actor=alice, channel="live")
    tunings.tune(sky, actor=alice, description="Tells how the evening sky looks.")
    publishing.publish(desk, actor=alice)

    draft = api.get(f"{AGENT}draft/").json()

    assert (draft["against"], draft["number"], draft["is_new"]) == (1, 3, False)
    (change,) = draft["changes"]
    (member,) = change["members"]
    assert (member["path"], member["after"]) == ("description", "Tells how the evening sky looks.")
    assert draft["digest"] == release_document.digest(release_document.encode(composition.draft(desk)))
    sizes = draft["tokens"]["mcp"]
    assert sizes["after"] > sizes["before"] > 20


def test_tokens_of_a_draft_are_those_of_the_tools_in_the_export(api, alice, desk, sky):
    token_counts = api.get(f"{AGENT}draft/").json()["tokens"]
    publishing.publish(desk, actor=alice)
    for name, size in token_counts.items():
        body = api.get(f"{AGENT}releases/1/tools/?format={name}").content
        (tool,) = raw_tools(body, exports.get(name))
        assert (size["before"], size["after"]) == (None, -(-len(tool) // 4))


def test_an_agent_without_tools_has_an_empty_draft(api, desk):
    draft = api.get(f"{AGENT}draft/").json()
    assert (draft["changes"], draft["checks"], draft["is_new"], draft["against"]) == ([], [], False, None)


def test_a_held_version_is_published_only_by_its_code_and_says_so_ever_after(api, alice, desk, sky):
    hold(sky)
    refused = api.post(f"{AGENT}releases/", {"accept": ["tuning_does_not_fit"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "checks_failed")
    assert failed(refused) == ["version_held"]
    assert not Release.objects.exists()
    published = api.post(f"{AGENT}releases/", {"accept": ["version_held"], "reason": "The demo is at noon"})
    assert published.status_code == 201
    release_body = api.get(f"{AGENT}releases/1/").json()
    assert [check["code"] for check in release_body["accepted"]] == ["version_held"]
    assert release_body["reason"] == "The demo is at noon"
    entry = AuditEntry.objects.get(action="publish")
    assert entry.after["reason"] == entry.why == "The demo is at noon"
    assert "waits for review" in entry.after["accepted"][0]


def test_what_an_administrator_blocked_is_not_for_a_designer_to_accept(api, desk, sky):
    hold(sky, state="blocked")
    payload = {"accept": ["version_blocked"], "reason": "I like it"}
    refused = api.post(f"{AGENT}releases/", payload)
    assert (refused.status_code, failed(refused)) == (409, ["version_blocked"])
    admin = client_of(make_user(Role.ADMIN))
    assert admin.post(f"{AGENT}releases/", payload).status_code == 201


def test_a_reason_without_a_failed_check_is_not_kept(api, desk, sky):
    release_body = api.post(f"{AGENT}releases/", {"accept": ["version_held"], "reason": "None needed"}).json()
    assert (release_body["accepted"], release_body["reason"]) == ([], "")


def test_a_move_that_breaks_what_is_live_is_a_warning(api, alice, desk, sky):
    publishing.publish(desk, actor=alice, channel="live")
    newer = make_version(sky.tool, make_signature("sky", inputs=(make_parameter(), make_parameter("planet"))))
    pins.move_pin(sky, actor=alice, ordinal=newer.ordinal)
    warned = [check for check in api.get(f"{AGENT}draft/").json()["checks"] if check["severity"] == "warning"]
    assert [check["code"] for check in warned] == ["breaking_move", "another_tool_id"]
    for check in warned:
        assert "planet" in check["message"]
        assert check["where"] == f"/agents/desk/pins/{sky.pk}/"
    assert api.post(f"{AGENT}releases/").status_code == 201


def test_the_page_marks_the_words_that_change(browser, alice, desk, sky):
    publishing.publish(desk, actor=alice, channel="live")
    tunings.tune(sky, actor=alice, description="Tells how the evening sky looks.")
    page = browser.get(PAGE).content.decode()
    assert "Tells how the <ins>evening </ins>sky looks." in page
    assert "1 tool changed since release 1 , which is live · +2 tokens" in text_of(browser.get(PAGE))


@pytest.mark.parametrize(("count", "rows"), [(3, 3), (4, 1)])
def test_tools_in_no_procedure_are_one_row_with_their_names(browser, api, alice, desk, sky, count, rows):
    editing.create_procedure(desk, actor=alice, title="Look up", body="Call sky().")
    names = [f"tool_{number}" for number in range(count)]
    for name in names:
        make_pin(desk, make_tool(make_signature(name)))
    answer = browser.get(PAGE)
    warned = re.findall(r'<li class="is-warn">.*?</div></li>', answer.content.decode(), re.DOTALL)
    matching = [row for row in warned if "no procedure" in row]
    assert len(matching) == rows
    page_text = "".join(matching).replace("<wbr>", "")
    assert all(name in page_text for name in names)
    assert ("4 pinned tools are in no procedure" in text_of(answer)) is (rows == 1)
    assert 'href="/agents/desk/procedures/"' in matching[0]
    checks = api.get(f"{AGENT}draft/").json()["checks"]
    assert len([check for check in checks if check["code"] == "never_referenced"]) == count


def test_what_was_typed_and_not_saved_is_said_to_the_user_who_typed_it(browser, api, alice, desk, sky):
    bob = make_user(Role.DESIGNER)
    procedure = editing.create_procedure(desk, actor=alice, title="Look up", body="Call sky().")
    typed = {"title": "Look up", "based_on": procedure.number}
    editing.keep_draft(procedure, user=bob, body="Call sky() twice.", **typed)
    editing.keep_draft(procedure, user=alice, body="Call sky().", **typed)

    def warned():
        checks = api.get(f"{AGENT}draft/").json()["checks"]
        return [check["severity"] for check in checks if check["code"] == "unsaved_text"]

    assert warned() == []
    editing.keep_draft(procedure, user=alice, body="Call sky() at noon.", **typed)
    assert warned() == ["warning"]
    page = browser.get(PAGE)
    assert "“Look up” has changes that are not saved" in text_of(page)
    assert f'href="/agents/desk/procedures/{procedure.slug}/"' in page.content.decode()
    editing.discard_draft(procedure, user=alice)
    assert warned() == []


def test_one_press_publishes_and_another_promotes_too(browser, api, alice, desk, sky):
    page = browser.get(PAGE)
    form = {"seen": page.context["review"].digest, "led_to": "0", "channel": ""}
    answer = text_of(browser.post(PAGE, form, follow=True))
    assert "Release 1 is published. No channel points to it yet" in answer
    assert channels.state(desk, "live").release is None
    assert "Promote release 1 to live" in text_of(browser.get(PAGE))
    tunings.tune(sky, actor=alice, description="Another")
    answer = text_of(browser.post(PAGE, {"led_to": "0", "channel": "live"}, follow=True))
    assert "Release 2 is published, and “live” points to it." in answer
    assert channels.state(desk, "live").number == 2


def test_the_page_takes_a_failed_check_with_a_reason_and_not_without(browser, desk, sky):
    hold(sky)
    assert "1 check failed. To publish anyway, enter a reason" in text_of(browser.get(PAGE))
    bare = browser.post(PAGE, {"accept": ["version_held"], "note": "Mine", "led_to": "0"})
    assert (bare.status_code, Release.objects.count()) == (409, 0)
    assert "Enter why the agent is published with failed checks." in text_of(bare)
    assert "Mine" in bare.content.decode()
    done = browser.post(
        PAGE, {"accept": ["version_held"], "reason": "The demo is at noon", "led_to": "0"}, follow=True
    )
    assert "Published although 1 check failed" in text_of(done)
    assert "The demo is at noon" in text_of(done)


def test_two_who_publish_to_live_at_once_do_not_overwrite_each_other(browser, bobs_api, alice, desk, sky):
    publishing.publish(desk, actor=alice, channel="live")
    tunings.tune(sky, actor=alice, description="Another")
    digest = browser.get(PAGE).context["review"].digest
    make_pin(desk)
    assert bobs_api.post(f"{AGENT}releases/", {"channel": "live"}).status_code == 201
    late = browser.post(PAGE, {"seen": digest, "led_to": "1", "channel": "live", "note": "Mine"})
    assert late.status_code == 409
    assert Release.objects.count() == 2


def test_a_viewer_reads_the_review_and_decides_nothing(desk, sky):
    viewer = Client()
    viewer.force_login(make_user(Role.VIEWER))
    assert 'id="publish"' not in viewer.get(PAGE).content.decode()
    assert viewer.post(PAGE, {"led_to": "0"}).status_code == 403


def test_any_two_releases_are_compared_the_older_one_at_the_left(browser, alice, desk, sky):
    publishing.publish(desk, actor=alice)
    assert "fewer than two releases" in text_of(browser.get("/agents/desk/releases/compare/"))
    for words in ("Second words", "Third words"):
        tunings.tune(sky, actor=alice, description=words)
        publishing.publish(desk, actor=alice)
    for query in ("?from=1&to=3", "?from=3&to=1"):
        page = text_of(browser.get(f"/agents/desk/releases/compare/{query}"))
        assert "Release 1 → 3" in page
        assert page.index("Before: Tells how the sky looks.") < page.index("After: Third words")
    assert "Release 2 → 3" in text_of(browser.get("/agents/desk/releases/compare/"))
    assert "Choose two different" in text_of(browser.get("/agents/desk/releases/compare/?from=2&to=2"))
