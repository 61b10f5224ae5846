import pytest

from catalog.credentials import operations as credential_operations
from catalog.models import Credential
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db

SECRET = "s3cr3t-word"
ADDRESS = "http://127.0.0.1:9100/tools"


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def credential():
    return credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Main key", kind="bearer", url=ADDRESS, secret=SECRET
    )


def test_a_credential_is_entered_and_never_shown(admin):
    form = {"name": "Main key", "kind": "header", "url": ADDRESS, "header": "X-Api-Key", "secret": SECRET}

    response = admin.post("/credentials/new/", form, follow=True)

    assert Credential.objects.get().details == {"header": "X-Api-Key"}
    assert SECRET not in response.content.decode()


def test_a_refused_credential_is_explained_beside_its_field(admin):
    response = admin.post(
        "/credentials/new/",
        {"name": "x", "kind": "header", "url": ADDRESS, "header": "Host", "secret": SECRET},
    )

    assert response.context["form"].errors["header"]
    assert SECRET not in response.content.decode()


def test_a_secret_is_replaced(admin, credential):
    before = credential.fingerprint

    admin.post(f"/credentials/{credential.pk}/", {"secret": "another-word"})

    credential.refresh_from_db()
    assert credential.fingerprint != before


def test_a_credential_in_use_is_not_removed(admin, credential):
    make_endpoint(url=ADDRESS, credential=credential, name="Pharmacy")

    response = admin.post(f"/credentials/{credential.pk}/remove/", follow=True)

    assert "The endpoint “Pharmacy” uses it." in text_of(response)


def test_an_unused_credential_is_forgotten(admin, credential):
    admin.post(f"/credentials/{credential.pk}/remove/")

    credential.refresh_from_db()
    assert credential.sealed == ""
    assert admin.get(f"/credentials/{credential.pk}/").status_code == 404


def test_a_viewer_reads_the_state_and_not_the_secret(credential):
    page = signed_in(Role.VIEWER).get(f"/credentials/{credential.pk}/")

    assert "Bearer token, sent to http://127.0.0.1:9100 and nowhere else." in text_of(page)
    assert credential.sealed not in page.content.decode()
