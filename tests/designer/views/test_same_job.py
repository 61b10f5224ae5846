"""Swap vendor: what is proposed, completed and bound, as a browser without a script sends it."""

import pytest
from django.urls import reverse

from catalog.models import Activity
from designer.agents import agents
from designer.environments import environments
from designer.models import Binding
from designer.releases.checks import Check
from designer.upgrades import binding_moves
from people import teams
from people.models import AuditEntry, Role
from tests.catalog.views.test_activities import mail, picks, press, row_of, user_of
from tests.catalog.views.test_definitions import Fields
from tests.factories import make_agent, make_pin
from tests.pages import signed_in, text_of

__all__ = ["mail"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def place(mail, client):
    agent = make_agent(name="Post room", slug="post-room")
    make_pin(agent, mail[0])
    return environments.create(agent, actor=user_of(client), name="test")


def url_of(tool, by=None):
    query = f"?by=tool:{by.pk}:{by.current.ordinal}" if by else ""
    return reverse("tool-same-job", args=[tool.pk]) + query


def test_likely_tools_are_offered_and_others_are_found_by_words(mail, client):
    post, notes, finder = mail
    assert "Swap vendor" in text_of(client.get(f"/tools/{post.pk}/"))
    likely = client.get(url_of(post)).content.decode()
    assert f"by=tool:{notes.pk}:1" in likely
    assert f"by=tool:{post.pk}:1" not in likely
    assert f"by=tool:{finder.pk}:1" in client.get(url_of(post) + "?q=address+book").content.decode()
    assert "No tools found" in text_of(client.get(url_of(post) + "?q=submarine"))


def test_a_refused_binding_is_repeated_with_a_reason(mail, client, place, monkeypatch):
    post, notes, _ = mail
    url = url_of(post, notes)
    page = client.get(url)
    page = press(client, url, page, "check", **{f"{row_of(page, 'message')}-otherwise": "-"})
    failed = Check(code="not_connected", severity="error", message="Nothing is connected.")
    monkeypatch.setattr(binding_moves, "_read_checks", lambda *args: [failed])
    environments.make_default(place, actor=user_of(client), is_default=True)
    refused = press(client, url, page, "bind", environment=str(place.pk))
    assert (refused.context["codes"], Activity.objects.count()) == (["not_connected"], 0)
    unexplained = press(client, url, refused, "bind", environment=str(place.pk), accept="not_connected")
    assert (unexplained.context["codes"], Activity.objects.count()) == (["not_connected"], 0)
    accepted = {"accept": "not_connected", "reason": "For a day"}
    assert press(client, url, refused, "bind", environment=str(place.pk), **accepted).status_code == 302
    assert Binding.objects.get().activity == Activity.objects.get()
    assert AuditEntry.objects.get(action="bind").why == "For a day"


def test_gaps_are_named_and_closed_by_hand_before_it_is_bound(mail, client, place):
    post, notes, _ = mail
    url = url_of(post, notes)
    page = client.get(url)
    page_text = text_of(page)
    assert "1 gap to close" in page_text
    assert "“text” is optional, and “message” is required." in page_text
    assert "similar meaning, to be checked" in page_text
    assert "disabled" in page.content.decode().partition('value="bind"')[2][:60]
    refused = press(client, url, page, "bind", environment=str(place.pk))
    assert (refused.status_code, Activity.objects.count()) == (200, 0)

    row = row_of(page, "message")
    page = press(client, url, page, "check", **{f"{row}-otherwise": "-"})
    assert "Every required input has a source." in text_of(page)
    unnamed = press(client, url, page, "bind", environment=str(place.pk), name="")
    assert "This field is required." in text_of(unnamed)
    done = press(client, url, page, "bind", environment=str(place.pk))
    binding = Binding.objects.get()
    assert (binding.environment, binding.tool, binding.activity) == (place, post, Activity.objects.get())
    activity_text = text_of(client.get(done.headers["Location"]))
    assert (
        "In test , “deliver_message” of Post room uses this implementation from the next call on."
        in activity_text
    )
    assert "do not change" in activity_text
    assert post.current.digest[:12] in activity_text


def test_what_is_not_used_and_what_does_not_come_is_said(mail, client):
    post, _, finder = mail
    url = url_of(post, finder)
    page = text_of(client.get(url))
    assert "“find_person” requires “name”. Choose its source." in page
    assert "Not sent: to , heading , text" in page
    assert "Not returned: accepted , number" in page
    assert "No agent with this tool has an environment yet." in page
    opened = client.get(url)
    saved = press(client, url, opened, "save", **{f"{row_of(opened, 'name')}-from": picks(input="to")})
    assert saved.headers["Location"] == reverse("activity", args=[Activity.objects.get().pk])


def test_a_binding_that_changed_meanwhile_is_not_written_over(mail, client, place):
    post, notes, _ = mail
    url = url_of(post, notes)
    page = client.get(url)
    environments.bind(place, post, actor=user_of(client), activity=None)
    typed = {f"{row_of(page, 'message')}-otherwise": "-", "environment": str(place.pk)}
    late = press(client, url, page, "bind", **typed)
    assert "has changed since you opened this" in text_of(late)
    assert Fields(late).sent[f"{row_of(late, 'message')}-otherwise"] == "-"
    assert not Activity.objects.exists()
    assert press(client, url, late, "bind").status_code == 302


def test_environments_of_other_teams_are_not_offered(mail, place):
    post, notes, _ = mail
    admin = signed_in(Role.ADMIN)
    closed = teams.create_team(actor=user_of(admin), name="Closed")
    agents.update_agent(place.agent, actor=user_of(admin), team=closed)
    outsider = signed_in(Role.DESIGNER)
    url = url_of(post, notes)
    page = outsider.get(url)
    assert "Post room" not in text_of(page)
    typed = {f"{row_of(page, 'message')}-otherwise": "-", "environment": str(place.pk)}
    refused = press(outsider, url, page, "bind", **typed)
    assert "Choose an environment." in text_of(refused)
    assert not Binding.objects.exists()
