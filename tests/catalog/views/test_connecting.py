import re

import pytest

from catalog.models import Credential, Endpoint, Run, Vendor
from people.models import Role
from tests.factories import make_endpoint, make_vendor
from tests.hostile_vendor import HostileVendor, json_reply
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db

FORM = {
    "vendor": "",
    "vendor_name": "Apothecary",
    "protocol": "a2t",
    "url": "http://127.0.0.1:9100/tools",
    "credential": "",
    "interval_minutes": "60",
    "a2t-page_size": "50",
}


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def test_one_form_connects_a_vendor_and_leads_to_its_first_reading(admin):
    response = admin.post("/endpoints/new/", FORM)

    endpoint = Endpoint.objects.get()
    assert response["Location"] == f"/runs/{Run.objects.get().pk}/"
    assert (endpoint.vendor.name, endpoint.url, endpoint.settings) == (
        "Apothecary",
        FORM["url"],
        {"page_size": 50},
    )


def test_a_second_endpoint_goes_to_the_chosen_vendor(admin):
    vendor = make_vendor(name="Apothecary", slug="apothecary")

    admin.post("/endpoints/new/", FORM | {"vendor": "apothecary", "vendor_name": ""})

    assert Endpoint.objects.get().vendor == vendor


def test_a_new_secret_is_encrypted_for_the_address_it_was_entered_with(admin):
    admin.post("/endpoints/new/", FORM | {"credential": "new", "kind": "bearer", "secret": "s3cr3t-word"})

    credential = Credential.objects.get()
    assert Endpoint.objects.get().credential == credential
    assert credential.origin == "http://127.0.0.1:9100"
    assert "s3cr3t-word" not in credential.sealed


def test_an_address_that_is_refused_is_explained_beside_the_field_and_nothing_is_kept(admin):
    response = admin.post("/endpoints/new/", FORM | {"url": "ftp://example.com/tools"})

    assert response.context["form"].errors["url"]
    assert not Vendor.objects.exists()
    assert not Endpoint.objects.exists()


def test_a_refused_form_keeps_what_was_typed_but_never_the_secret(admin):
    response = admin.post(
        "/endpoints/new/",
        FORM | {"url": "nowhere", "credential": "new", "kind": "bearer", "secret": "s3cr3t-word"},
    )

    assert "Apothecary" in response.content.decode()
    assert "s3cr3t-word" not in response.content.decode()


@pytest.mark.parametrize(
    ("missing", "field"), [({"vendor_name": ""}, "vendor_name"), ({"credential": "new"}, "secret")]
)
def test_what_a_choice_makes_necessary_is_asked_for(admin, missing, field):
    response = admin.post("/endpoints/new/", FORM | missing)

    assert response.context["form"].errors[field]
    assert not Endpoint.objects.exists()


def test_settings_are_changed_on_the_page_of_the_endpoint(admin):
    endpoint = make_endpoint()

    admin.post(
        f"/endpoints/{endpoint.pk}/",
        {
            "name": "Sandbox",
            "url": endpoint.url,
            "credential": "",
            "interval_minutes": "5",
            "setting-page_size": "7",
        },
    )

    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.interval_minutes, endpoint.settings) == ("Sandbox", 5, {"page_size": 7})


def test_an_interval_that_was_set_elsewhere_stays_on_offer(admin):
    endpoint = make_endpoint(interval_minutes=37)

    assert "Every 37 minutes" in text_of(admin.get(f"/endpoints/{endpoint.pk}/?tab=settings"))


def test_an_endpoint_is_paused_and_resumed(admin):
    endpoint = make_endpoint()

    for expected in (True, False):
        admin.post(f"/endpoints/{endpoint.pk}/pause/")
        endpoint.refresh_from_db()
        assert endpoint.is_paused is expected


def test_a_removed_endpoint_leads_back_to_its_vendor(admin):
    endpoint = make_endpoint()

    response = admin.post(f"/endpoints/{endpoint.pk}/remove/")

    assert response["Location"] == f"/vendors/{endpoint.vendor.slug}/"
    assert admin.get(f"/endpoints/{endpoint.pk}/").status_code == 404


def test_a_viewer_sees_no_button_that_does_not_work():
    endpoint = make_endpoint()

    page = signed_in(Role.VIEWER).get(f"/endpoints/{endpoint.pk}/").content.decode()

    assert 'method="post"' not in page.split("<main", 1)[1]


def test_a_failing_endpoint_says_what_happened(admin):
    endpoint = make_endpoint(failures=3, error_code="TIMEOUT", error_message="The vendor did not answer.")

    page_text = text_of(admin.get(f"/endpoints/{endpoint.pk}/"))

    assert (
        "The last 3 syncs failed The vendor did not answer. Try again Change the settings TIMEOUT"
        in page_text
    )
    assert "Try again" in page_text


def acp_vendor(authentication):
    """An agent behind a key, whose manifest is open."""
    option = {"type": "remote_service", "protocol": {"type": "ACP", "authentication": authentication}}
    manifest = {"metadata": {}, "deployment": {"deployment_options": [option]}}

    def answer(line, request):
        is_open = request.path == "/manifest.json"
        return (json_reply(manifest) if is_open else json_reply({}, status=401))(line, request)

    return HostileVendor(answer)


@pytest.mark.parametrize(
    ("authentication", "kind", "field", "name"),
    [
        ({"type": "apiKey", "in": "header", "name": "x-agent:key"}, "header", "header", "x-agent:key"),
        ({"type": "apiKey", "in": "query", "name": "k"}, "query", "parameter", "k"),
        ({"type": "http", "scheme": "basic"}, "basic", "header", "X-Api-Key"),
    ],
)
def test_what_a_manifest_says_that_calls_need_is_filled_in(admin, authentication, kind, field, name):
    with acp_vendor(authentication) as vendor:
        address = {"protocol": "acp", "url": vendor.url, "acp-manifest_url": f"{vendor.url}/manifest.json"}
        typed = FORM | address
        page = admin.post("/endpoints/new/preview/", typed, headers={"HX-Request": "true"})
        assert "From the vendor's manifest:" in text_of(page)
        (button,) = re.findall(
            r'name="enter" value="([^"]+)" formaction="[^"]+" formnovalidate>.*?Enter the credential',
            page.content.decode(),
        )
        page = admin.post("/endpoints/new/", typed | {"enter": button, "header": "X-Api-Key"})
    form = page.context["form"]
    assert (form["credential"].value(), form["kind"].value(), form[field].value()) == ("new", kind, name)


def test_a_manifest_without_a_kind_of_ours_fills_nothing_in(admin, admin_api):
    with acp_vendor({"type": "apiKey", "in": "cookie", "name": "k"}) as vendor:
        address = {"protocol": "acp", "url": vendor.url}
        settings = {"manifest_url": f"{vendor.url}/manifest.json"}
        response = admin_api.post(
            "/api/v1/endpoints/preview/", address | {"settings": settings}, format="json"
        )
    assert (response.json()["error"]["code"], response.json()["wanted"]) == ("AUTH", None)


@pytest.mark.parametrize("button", ["bearer:X-Key", "oauth_code:x", "no-kind:x", "header:", ":x"])
def test_a_forged_button_for_a_credential_fills_in_no_field(admin, button):
    page = admin.post("/endpoints/new/", {"url": "https://a.example/", "enter": button})
    assert page.status_code == 200
    assert "X-Key" not in page.context["form"].data.values()
