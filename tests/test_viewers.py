"""Viewers see texts in place of fields, and no action that their role forbids."""

import re
from html.parser import HTMLParser

from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from designer.environments import mocks
from designer.pins import tunings
from people import teams
from people.models import Role
from people.templatetags.read_only import as_text
from tests.catalog.review.test_inbox import make_finding
from tests.factories import make_user
from tests.test_roles import RANKS, routes
from tests.test_roles import table as roles
from tests.test_teams_everywhere import World, browser_of, parameters_of, world

__all__ = ["world"]

# Actions that every person may take, and controls that open on the same page.
_OWN = re.compile(r"/(accounts|theme|language|palette)/")


class _Reader(HTMLParser):
    """The offers of a page below <main>: greyed controls, addresses of its POST forms, and its links."""

    def __init__(self) -> None:
        super().__init__()
        self.is_main = False
        self.greyed: list[str] = []
        self.posts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.is_main = self.is_main or tag == "main"
        if not self.is_main:
            return
        if "disabled" in values:
            self.greyed.append(f"{tag} {values.get('name') or values.get('title') or values.get('class')}")
        if tag == "form" and values.get("method", "").lower() == "post":
            self.posts.append(values.get("action") or "")
        if tag == "a" and values.get("href", "").startswith("/"):
            self.links.append(values["href"])

    def handle_endtag(self, tag):
        self.is_main = self.is_main and tag != "main"


def _is_open(address: str, method: str) -> bool:
    try:
        name = resolve(re.split("[?#]", address)[0]).url_name
    except Resolver404:
        return True
    cell = roles().get(name or "", {}).get(method, "-")
    return cell != "-" and RANKS[cell] <= RANKS[Role.VIEWER]


def _addresses(world: World) -> list[str]:
    tool, addresses = world.pin.tool, []
    for route in routes():
        cell = roles().get(route.name, {}).get("GET", "-")
        if cell != "viewer" or route.name.startswith(("api-", "serve")) or "events" in route.name:
            continue
        ids = {}
        for parameter in parameters_of(route.name):
            of_catalog = {"vendor": tool.endpoint.vendor.slug, "endpoint": tool.endpoint_id, "tool": tool.pk}
            try:
                ids |= world.ids(route.name)
            except KeyError:
                continue
            if parameter == "pk" and not route.path.startswith("/agents/"):
                ids["pk"] = of_catalog.get(route.path.split("/")[1].rstrip("s"), 1)
            if parameter == "slug" and route.path.startswith("/vendors/"):
                ids["slug"] = of_catalog["vendor"]
        try:
            addresses.append(reverse(route.name, kwargs=ids))
        except NoReverseMatch:
            continue
    return addresses


def test_a_viewer_reads_and_is_offered_nothing_else(world):
    viewer = make_user(Role.VIEWER, username="reader")
    teams.add_member(world.team, viewer, actor=make_user(Role.ADMIN))
    mocks.save(world.pin, actor=world.insider, config={"examples": [{"outputs": {}}]})
    browser, wrong, read_count = browser_of(viewer), [], 0
    for address in _addresses(world):
        answer = browser.get(address)
        if answer.status_code != 200 or "html" not in answer.headers.get("Content-Type", ""):
            continue
        read_count += 1
        page = _Reader()
        page.feed(answer.content.decode())
        wrong += [f"{address}: greyed {control}" for control in page.greyed]
        posts = [post if post.startswith("/") else address for post in page.posts]
        wrong += [f"{address}: posts to {post}" for post in posts if not _is_open(post, "POST")]
        wrong += [
            f"{address}: links to {link}"
            for link in page.links
            if not _OWN.match(link) and not _is_open(link, "GET")
        ]
    assert not wrong, "\n".join(wrong)
    assert read_count > 40


def test_nothing_needs_a_viewer(world):
    """The agent is not published as it is, which the designer is asked to do and the viewer is not."""
    viewer = make_user(Role.VIEWER, username="reader")
    teams.add_member(world.team, viewer, actor=make_user(Role.ADMIN))
    tunings.tune(world.pin, actor=world.insider, description="Changed.")
    make_finding()
    needs = {"guide", "endpoints", "findings", "reviewed", "behind", "gone"}
    page, other = browser_of(viewer).get("/"), browser_of(world.insider).get("/")
    assert [name for name in needs if name in page.context] == []
    assert [name for name in needs if name not in other.context] == []
    assert [entry.count for _, group in page.context["navigation"] for entry in group if entry.count] == []


FORM = """<form class="panel" method="post" id="x"><fieldset class="whole"><input type="hidden" name="token">
<label for="a">Name <span class="optional">optional</span></label><input id="a" value="A &lt;b&gt;">
<p class="hint">Fill in.</p><select><optgroup label="g"><option value="1">One</option>
<option value="2" selected>Two &amp; more</option></optgroup></select><textarea>
Ask &lt;first&gt;.</textarea><input type="checkbox" checked><input type="text" value="">
<button>Save</button></fieldset></form>"""


def test_a_form_becomes_text():
    text = as_text(FORM)
    assert not re.search("<(form|input|select|option|textarea|button|label)|hint|optional|token", text)
    assert [
        word in text for word in ("A &lt;b&gt;", "Two &amp; more", "Ask &lt;first&gt;.", ">yes<", "None")
    ] == [True] * 5
    assert "One" not in text
    assert text.count("<div") == text.count("</div>")
    assert text.startswith('<div class="panel" id="x">')


def test_a_viewer_is_offered_no_form_to_fill_in(world):
    viewer = make_user(Role.VIEWER, username="reader")
    teams.add_member(world.team, viewer, actor=make_user(Role.ADMIN))
    mocks.save(world.pin, actor=world.insider, config={"examples": [{"outputs": {}}]})
    address = reverse("mock", args=[world.pin.agent.slug, world.pin.pk])

    assert b'id="write"' not in browser_of(viewer).get(address).content
    assert b'id="write"' in browser_of(world.insider).get(address).content


def test_a_viewer_finds_the_summary_on_the_page_of_an_agent(world):
    viewer = make_user(Role.VIEWER, username="reader")
    teams.add_member(world.team, viewer, actor=make_user(Role.ADMIN))
    page = browser_of(viewer).get(reverse("agent", args=[world.pin.agent.slug])).content.decode()
    main = page[page.index('id="detail"') :]

    assert reverse("agent-summary", args=[world.pin.agent.slug]) in main
