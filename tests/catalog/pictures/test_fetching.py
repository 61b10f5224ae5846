"""A worker fetches each image of a vendor once, and remembers what it could not have."""

import base64
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from catalog import tasks
from catalog.models import Picture, Tool, ToolPicture
from catalog.pictures import fetching
from core.outbound import policy
from designer.models import Pin
from people.models import Role
from tests.catalog.pictures.test_drawing import image
from tests.factories import make_user
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply, resets

pytestmark = pytest.mark.django_db

PNG = image(size=(64, 64))
IN_ADDRESS = "data:image/png;base64," + base64.b64encode(PNG).decode()
AS_PNG = reply(PNG, headers={"Content-Type": "image/png"})


@pytest.fixture
def vendor():
    with HostileVendor(reply()) as vendor:
        yield vendor


@pytest.fixture(params=["mcp", "a2t"])
def bench(request, vendor):
    return Bench(vendor, DIALECTS[request.param], as_admin(), count=3)


def asked_images(bench):
    return [request for request in bench.vendor.requests if request.path.endswith((".png", ".svg"))]


def with_images(bench, *addresses):
    """Let the vendor list these images for its first tools, and read the list again."""
    for number, address in enumerate(addresses):
        member = {"icons": [{"src": address}]} if bench.dialect.name == "mcp" else {"img": address}
        bench.shop.tools[number] = bench.shop.tools[number] | member
    run = bench.enumerate()
    assert run.status == "succeeded", run.error_message
    return run


def rows(bench):
    return list(ToolPicture.objects.filter(tool__endpoint=bench.endpoint).order_by("tool"))


def fetch():
    ToolPicture.objects.filter(next_at__lte=timezone.now() + timedelta(minutes=1)).update(
        next_at=timezone.now()
    )
    tasks.fetch_pictures()


def test_an_address_that_tools_share_is_requested_once(bench):
    bench.shop.beside = AS_PNG
    address = f"{bench.vendor.url}/logo.png"
    run = with_images(bench, address, address)
    assert run.changed == 0
    fetch()
    [request] = asked_images(bench)
    assert "Authorization" not in {name.title() for name in request.headers}
    assert Picture.objects.count() == 1
    assert [row.picture_id is not None for row in rows(bench)] == [True, True]
    tasks.fetch_pictures()
    assert len(asked_images(bench)) == 1


def test_an_image_in_its_address_is_drawn_without_the_network(bench):
    with_images(bench, IN_ADDRESS)
    before = len(bench.vendor.requests)
    fetch()
    assert len(bench.vendor.requests) == before
    assert rows(bench)[0].picture_id


def test_a_new_tool_comes_with_its_image(bench):
    bench.shop.tools.append(bench.dialect.tool(9))
    with_images(bench, *[""] * 3, IN_ADDRESS)
    [row] = rows(bench)
    assert row.address == IN_ADDRESS


def test_another_image_is_no_new_version_and_takes_the_old_picture_away(bench):
    with_images(bench, IN_ADDRESS)
    fetch()
    other = "data:image/png;base64," + base64.b64encode(image(size=(8, 8))).decode()
    run = with_images(bench, other)
    tool = Tool.objects.get(pk=rows(bench)[0].tool_id)
    assert (run.changed, tool.version_count) == (0, 1)
    assert (rows(bench)[0].address, rows(bench)[0].picture_id) == (other, None)
    with_images(bench, "")
    assert rows(bench) == []


def test_the_image_of_the_version_counts_again_when_the_vendor_goes_back(bench):
    bench.shop.tools.append(bench.dialect.tool(9))
    with_images(bench, *[""] * 3, IN_ADDRESS)
    with_images(bench, *[""] * 4)
    assert rows(bench) == []
    with_images(bench, *[""] * 3, IN_ADDRESS)
    assert [row.address for row in rows(bench)] == [IN_ADDRESS]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (reply(b"no", status=404), "NOT_FOUND"),
        (reply(b"<svg/>", headers={"Content-Type": "image/svg+xml"}), "SVG"),
        (json_reply({"error": "no"}), "NO_IMAGE"),
        (reply(bytes(2 << 20)), "BODY_TOO_LARGE"),
        (reply(b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), "REDIRECT"),
        (resets, "RESET"),
    ],
)
def test_an_image_that_cannot_be_had_is_remembered(vendor, answer, code):
    bench = Bench(vendor, DIALECTS["mcp"], as_admin(), count=3)
    bench.shop.beside = answer
    with_images(bench, f"{bench.vendor.url}/logo.png")
    fetch()
    [row] = rows(bench)
    assert (row.error_code, row.failures, row.picture_id) == (code, 1, None)
    assert row.error_message
    assert row.next_at > timezone.now() + timedelta(minutes=50)
    image_requests = len(asked_images(bench))
    tasks.fetch_pictures()
    assert len(asked_images(bench)) == image_requests


def test_an_outage_leaves_the_picture_and_a_refusal_takes_it(bench):
    bench.shop.beside = in_turn(AS_PNG, resets, reply(b"gone", status=404))
    with_images(bench, f"{bench.vendor.url}/logo.png")
    fetch()
    states = []
    for _ in range(2):
        ToolPicture.objects.update(next_at=timezone.now())
        tasks.fetch_pictures()
        states.append((rows(bench)[0].error_code, rows(bench)[0].picture_id is not None))
    assert states == [("RESET", True), ("NOT_FOUND", False)]
    assert rows(bench)[0].failures == 2


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.2:9/logo.png",
        "https://127.0.0.2:9/logo.png",
        "https://localhost/logo.png",
        "https://169.254.169.254/latest/meta-data",
        "https://user:secret@a.test/logo.png",
    ],
)
def test_a_vendor_opens_no_network_by_the_address_of_an_image(bench, address):
    with_images(bench, address)
    fetch()
    [row] = rows(bench)
    assert row.error_code in ("URL", "ADDRESS")
    assert "secret" not in row.error_message


def test_what_is_not_offered_is_not_fetched(bench):
    bench.shop.beside = AS_PNG
    with_images(bench, f"{bench.vendor.url}/logo.png")
    bench.endpoint.is_paused = True
    bench.endpoint.save()
    fetch()
    assert asked_images(bench) == []
    assert rows(bench)[0].error_code == ""


def test_a_picture_of_no_tool_is_deleted_after_a_while(bench):
    with_images(bench, IN_ADDRESS)
    fetch()
    Picture.objects.bulk_create([Picture(digest="b" * 64, content=b"new")])
    Picture.objects.filter(digest="b" * 64).update(made_at=timezone.now() - fetching.CLAIM)
    Picture.objects.bulk_create([Picture(digest="c" * 64, content=b"being stored")])
    tasks.delete_old_rows()
    assert set(Picture.objects.values_list("digest", flat=True)) == {rows(bench)[0].picture_id, "c" * 64}


def test_a_browser_gets_our_picture_and_may_keep_it(bench):
    with_images(bench, IN_ADDRESS)
    fetch()
    digest = rows(bench)[0].picture_id
    client = Client()
    assert client.get(f"/pictures/{digest}.webp").status_code == 302
    client.force_login(make_user(Role.VIEWER))
    answer = client.get(f"/pictures/{digest}.webp")
    assert answer.content == bytes(Picture.objects.get().content)
    assert answer["Content-Type"] == "image/webp"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "private, max-age=31536000, immutable"
    assert client.get(f"/pictures/{'0' * 64}.webp").status_code == 404


def test_lists_tools_and_pins_show_the_picture_or_a_letter(bench):
    with_images(bench, IN_ADDRESS)
    fetch()
    address = f'src="/pictures/{rows(bench)[0].picture_id}.webp" alt=""'
    pin = Pin.objects.get(tool=rows(bench)[0].tool_id)
    for url in ("/tools/", f"/tools/{pin.tool_id}/", f"/agents/{pin.agent.slug}/pins/{pin.pk}/"):
        page = bench.pages.get(url).content.decode()
        assert address in page
        assert IN_ADDRESS not in page
    assert "data-letter=" in bench.pages.get("/tools/").content.decode()
    added = bench.pages.get(f"/agents/{pin.agent.slug}/add-tools/").content.decode()
    assert address in added


def test_the_page_of_a_tool_states_why_its_image_is_not_shown(bench):
    with_images(bench, "data:image/svg+xml;base64,PHN2Zy8+")
    fetch()
    [row] = rows(bench)
    page = bench.pages.get(f"/tools/{row.tool_id}/").content.decode()
    assert row.error_code == "SVG"
    assert row.error_message in page


def test_a_picture_outside_the_endpoints_origin_gets_the_public_policy(monkeypatch, vendor):
    bench = Bench(vendor, DIALECTS["mcp"], as_admin(), count=3)
    sources = []
    policies = dict(policy.POLICIES)

    def noted(door, source):
        sources.append((door.value, source.value))
        return policies[door, source]()

    monkeypatch.setattr(fetching, "policy_for", noted)
    with HostileVendor(AS_PNG) as other:
        with_images(bench, f"{other.url}/logo.png")
        fetch()
        assert other.requests == []
    assert ("picture", "vendor") in sources
    assert rows(bench)[0].error_code == "URL"
