"""A vendor's input stays text: on every page, in every reply, in logs and in mail."""

import html
import json
import logging
import re
from urllib.parse import urlsplit

import pytest
from django.core.mail import EmailMessage
from django.test import Client

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Finding, Rejection, Run, Tool
from catalog.models.runs import Trigger
from catalog.notifications import events
from catalog.review import inspector
from catalog.templatetags.display import shown
from designer.agents import agents
from designer.pins import pins, tunings
from designer.releases import publishing
from pegboard.ops.logs import JsonFormatter, LineFormatter
from people.models import Role
from tests.factories import make_endpoint, make_user, make_vendor
from tests.vendor import Vendor, serving
from tests.vendor import tool as listing
from tests.xss import ALL, PAYLOADS, hostile_vendors, short

# Runs in every page before anything of the page does.
LISTEN = """
window.__seen = [];
document.addEventListener("securitypolicyviolation", event =>
  window.__seen.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
# Whatever is there that only markup out of a text could have made.
INJECTED = """() => {
  const odd = 'iframe,object,embed,base,math,video,audio,template,noscript,plaintext,xmp,style,'
    + 'meta[http-equiv],svg script,svg a,svg animate,script:not([src]),img,'
    + '[onload],[onerror],[onclick],[onfocus],[onmouseover],[ontoggle],[onbegin],[srcdoc],[style],'
    + '[autofocus]';
  const found = [...document.querySelectorAll(odd)]
    .filter(node => !node.matches(
      'input[name=q][autofocus],input[name=username][autofocus],#palette input[autofocus]'))
    .map(node => node.outerHTML.slice(0, 200));
  for (const node of document.querySelectorAll('[href],[src],[action],[formaction],[hx-get],[hx-post]')) {
    for (const name of ['href', 'src', 'action', 'formaction', 'hx-get', 'hx-post']) {
      const value = node.getAttribute(name);
      if (value && !/^(\\/(?!\\/)|#|\\?|$|http:\\/\\/127\\.0\\.0\\.1)/.test(value)) found.push(value);
    }
  }
  return [window.__ran ? 'a script ran' : '', ...window.__seen, ...found].filter(Boolean);
}"""


def text_as_shown(payload: str) -> str:
    """Return the text as `textContent` has it, with the chips that represent invisible characters."""
    return html.unescape(re.sub(r"<[^>]*>", "", str(shown(payload))))


def flat(text: str) -> str:
    return "".join(text.split())


def on_stage() -> tuple[list[str], dict[str, Tool]]:
    """Vendors of every protocol that send nothing but payloads, read, pinned, tuned and released."""
    actor = make_user(Role.DESIGNER, username="mallory", name=short(PAYLOADS[4]))
    vendors = [make_vendor(name=short(payload)) for payload in PAYLOADS if payload.isprintable()]
    tools, addresses = {}, ["/", "/vendors/", "/review/", "/tools/", "/audit/", "/users/", "/agents/"]
    agent = agents.create_agent(actor=actor, name=short(PAYLOADS[5]), slug="desk", description=ALL[:4000])
    with hostile_vendors() as served:
        for vendor, (name, (protocol, url)) in zip(vendors, served.items(), strict=False):
            vendor.homepage = "https://vendor.example/"
            endpoint = make_endpoint(vendor=vendor, protocol=protocol, url=url, name=short(PAYLOADS[6]))
            run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
            run = enumeration_runs.perform(run.pk)
            addresses += [f"/vendors/{vendor.slug}/", f"/endpoints/{endpoint.pk}/", f"/runs/{run.pk}/"]
            if name != "failing":
                assert run.status == "succeeded", (name, run.error_message)
                tools[name] = max(
                    endpoint.tools.select_related("current"), key=lambda row: len(row.description)
                )
    for name, tool in tools.items():
        addresses += [
            f"/tools/{tool.pk}/{part}" for part in ("", "tuning/", "versions/", "findings/", "raw/", "try/")
        ]
        Finding.objects.filter(tool__endpoint=tool.endpoint).update(
            message=ALL[:2000], subject=short(PAYLOADS[1])
        )
        addresses.append(f"/tools/?vendor={tool.endpoint.vendor.slug}&q=script")
        others = tool.endpoint.tools.exclude(pk=tool.pk).order_by("pk")
        addresses += [f"/tools/{other.pk}/" for other in others[list(tools).index(name) :: 12]]
        addresses.append(f"/tools/compare/?tool={tool.pk}&tool={others[1].pk}")
    addresses += _agent_pages(agent, tools, actor)
    _odd_rows(next(iter(tools.values())).endpoint, addresses)
    return addresses, tools


def _agent_pages(agent, tools, actor) -> list[str]:
    tool = tools["a2t"]
    inspector.inspect_version(tool.current)
    Finding.objects.update(state="accepted")
    pin = pins.pin_tool(agent, actor=actor, tool=tool)
    tunings.tune(pin, actor=actor, description=ALL[:4000])
    publishing.publish(agent, actor=actor, note=short(PAYLOADS[7]))
    pages = [
        "",
        "edit/",
        "upgrades/",
        "releases/",
        "releases/1/",
        "publish/",
        "channels/live/",
        f"pins/{pin.pk}/",
    ]
    return [f"/agents/desk/{page}" for page in pages] + [f"/tools/{tool.pk}/used-by/"]


def _odd_rows(endpoint: Endpoint, addresses: list[str]) -> None:
    """A failed run with a payload in every text: only a hostile vendor can cause it."""
    run = Run.objects.create(
        endpoint=endpoint,
        status="failed",
        error_code="NOT_JSON",
        error_message=ALL[:1000],
        notes=[{"code": "ODD", "message": ALL[:1000], "count": 1}],
    )
    for payload in PAYLOADS:
        Rejection.objects.create(run=run, tool=payload.replace("\0", "")[:200], code="BAD", reason=payload)
    Endpoint.objects.filter(pk=endpoint.pk).update(failures=2, error_code="X", error_message=ALL[:1000])
    addresses += [f"/runs/{run.pk}/", f"/endpoints/{endpoint.pk}/"]


def further_pages(page):
    """Yield the query of each further page of inputs and outputs, of which each page links to the next."""
    for side in ("inputs", "outputs"):
        numbers = {1}
        while numbers:
            pattern = f"[?&]{side}=([0-9]+)"
            hrefs = page.evaluate("[...document.querySelectorAll('main a')].map(link => link.search)")
            following = {int(match[1]) for href in hrefs if (match := re.search(pattern, href))}
            numbers = {number for number in following if number > max(numbers)}
            if numbers:
                numbers = {min(numbers)}
                yield f"?{side}={min(numbers)}"


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_nothing_a_vendor_sends_does_anything_on_any_page(open_browser, live_server):
    addresses, tools = on_stage()
    context = open_browser(Role.ADMIN)
    context.add_init_script(LISTEN)
    page = context.new_page()
    requested_urls, dialogs, errors, injected_by_address = [], [], [], {}
    page.on("request", lambda request: requested_urls.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: errors.append(str(error)))
    here = urlsplit(live_server.url).netloc

    for address in dict.fromkeys(addresses):
        answer = page.goto(address, wait_until="load")
        assert answer.ok, (address, answer.status)
        injected_by_address[address] = page.evaluate(INJECTED)
        if address in {f"/tools/{tool.pk}/" for tool in tools.values()}:
            text = flat(page.evaluate("document.body.textContent"))
            for further in further_pages(page):
                page.goto(f"{live_server.url}{address}{further}", wait_until="load")
                injected_by_address[address] += page.evaluate(INJECTED)
                text += flat(page.evaluate("document.body.textContent"))
            injected_by_address[address] += [
                payload for payload in PAYLOADS if flat(text_as_shown(payload)) not in text
            ]

    assert {address: problems for address, problems in injected_by_address.items() if problems} == {}
    assert {
        url for url in requested_urls if urlsplit(url).netloc != here and not url.startswith("data:")
    } == set()
    assert (dialogs, errors) == ([], [])


@pytest.mark.django_db(transaction=True)
def test_replies_of_the_api_hold_the_texts_as_they_were_sent():
    with hostile_vendors() as served:
        protocol, url = served["a2t"]
        endpoint = make_endpoint(protocol=protocol, url=url)
        enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    client = Client()
    client.force_login(make_user(Role.VIEWER))
    tool = max(Tool.objects.all(), key=lambda row: len(row.description))
    for address in (f"/api/v1/tools/{tool.pk}/", f"/api/v1/tools/{tool.pk}/versions/1/", "/api/v1/tools/"):
        answer = client.get(address)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        texts = set(_texts(answer.json()))
        assert ALL in texts
    detail = set(_texts(client.get(f"/api/v1/tools/{tool.pk}/versions/1/").json()))
    assert set(PAYLOADS) <= detail


def _texts(value: object):
    if isinstance(value, dict):
        for name, below in value.items():
            yield name
            yield from _texts(below)
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()], ids=["lines", "json"])
def test_a_line_of_the_log_stays_one_line_and_steers_no_terminal(formatter):
    for payload in PAYLOADS:
        record = logging.LogRecord("catalog", logging.INFO, __file__, 1, "read %s", (payload,), None)
        line = formatter.format(record)
        assert line.isprintable(), payload
        if isinstance(formatter, JsonFormatter):
            assert json.loads(line)["message"].startswith("read ")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_header_is_made_of_a_text(client, payload, db):
    """A redirect and a cookie hold what a person sent; neither grows a header of its own."""
    answer = client.get("/accounts/login/", {"next": payload})
    assert answer.status_code in (200, 400)
    assert payload not in answer.content.decode() or payload.isalnum() or "<" not in payload
    for name, value in answer.headers.items():
        assert "\n" not in name + value
        assert "\r" not in name + value


def test_mail_is_plain_text_and_its_headers_are_ours(db):
    """A notice about an endpoint with a payload in every text."""
    endpoint = make_endpoint(failures=1, error_code="X")
    for payload in PAYLOADS:
        Endpoint.objects.filter(pk=endpoint.pk).update(name=short(payload), error_message=payload)
        notice_message = events.describe_broken(str(endpoint.pk))
        assert notice_message.title.isprintable()
        assert notice_message.says.isprintable()
        message = EmailMessage(notice_message.title, notice_message.says, to=["ada@example.com"]).message()
        assert message.get_content_type() == "text/plain"
        assert {"Set-Cookie", "Location", "Bcc"}.isdisjoint(message.keys())


@pytest.mark.django_db(transaction=True)
def test_image_of_a_vendor_is_fetched_by_nobody():
    vendor = Vendor([])
    with serving(vendor):
        vendor.listed = [listing(1, img=f"{vendor.url}pixel.png", description=f"![x]({vendor.url}pixel.png)")]
        endpoint = make_endpoint(url=vendor.url)
        assert (
            enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk).seen
            == 1
        )
        client = Client()
        client.force_login(make_user(Role.ADMIN))
        for page in ("", "raw/", "tuning/", "try/"):
            answer = client.get(f"/tools/{Tool.objects.get().pk}/{page}")
            assert "<img" not in answer.content.decode()
        assert {request.partition("?")[0] for request in vendor.requests} == {"/tools"}
