"""Settings of single sign-on in the environment, and those that stop the start."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from pegboard import settings

OIDC = {
    "PEGBOARD_OIDC_ISSUER": "https://id.example.com/realms/work",
    "PEGBOARD_OIDC_CLIENT_ID": "pegboard",
    "PEGBOARD_OIDC_CLIENT_SECRET": "a-secret",
}


@pytest.fixture
def environment(monkeypatch):
    def say(**stated: str) -> None:
        for name, value in {**OIDC, **stated}.items():
            monkeypatch.setenv(name, value)

    return say


def test_without_an_issuer_there_is_none(monkeypatch):
    monkeypatch.delenv("PEGBOARD_OIDC_ISSUER", raising=False)
    assert settings._oidc() is None


def test_groups_may_hold_spaces_commas_and_equal_signs(environment):
    environment(PEGBOARD_OIDC_ROLES="cn=admins,dc=example = x=admin; our builders = designer ;staff=viewer")
    assert settings._oidc()["roles"] == {
        "cn=admins,dc=example = x": "admin",
        "our builders": "designer",
        "staff": "viewer",
    }


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"PEGBOARD_OIDC_ISSUER": "http://id.example.com"}, "must start with https"),
        ({"PEGBOARD_OIDC_ISSUER": "id.example.com"}, "must start with https"),
        ({"PEGBOARD_OIDC_CLIENT_SECRET": ""}, "CLIENT_SECRET"),
        ({"PEGBOARD_OIDC_CLIENT_ID": ""}, "CLIENT_ID"),
        ({"PEGBOARD_OIDC_ROLES": "staff=owner"}, "there is no role owner"),
        ({"PEGBOARD_OIDC_ROLES": "staff"}, "there is no role staff"),
        ({"PEGBOARD_OIDC_DEFAULT_ROLE": "root"}, "there is no role root"),
        ({"PEGBOARD_OIDC_RUNTIMES": "1"}, "off, marked or unmarked"),
        ({"PEGBOARD_OIDC_RUNTIMES": "marked", "PEGBOARD_URL": ""}, "needs PEGBOARD_URL"),
        ({"PEGBOARD_OIDC_AUDIENCES": "runs pegboard"}, "must not name"),
    ],
)
def test_what_cannot_work_stops_the_start(environment, stated, message):
    environment(**stated)
    with pytest.raises(ImproperlyConfigured, match=message):
        settings._oidc()
