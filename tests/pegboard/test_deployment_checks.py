import pytest
from django.core.checks.registry import registry

from pegboard import startup_checks
from pegboard.checks import failpoints, open_networks, proxies


def test_armed_failpoints_are_refused(monkeypatch):
    assert failpoints(None) == []
    monkeypatch.setenv("DEBUG_CRASH", "1")
    assert [error.id for error in failpoints(None)] == ["pegboard.E001"]


@pytest.mark.parametrize(
    ("count", "is_https", "ids"),
    [(0, False, []), (0, True, []), (1, True, []), (1, False, ["pegboard.W001"])],
)
def test_a_proxy_without_tls_is_warned_of(settings, count, is_https, ids):
    settings.NUM_PROXIES, settings.HTTPS = count, is_https
    assert [warning.id for warning in proxies(None)] == ids


@pytest.mark.parametrize(
    ("allow", "refused"),
    [
        ("", 0),
        ("10.20.0.0/16:443 fd12::/16", 0),
        ("127.0.0.1/32", 1),
        ("127.0.0.0/8:443", 1),
        ("::1/128:8000 0.0.0.0/0", 2),
        ("::/0", 1),
    ],
)
def test_networks_for_one_machine_are_refused_in_production(settings, allow, refused):
    for setting_name, other in (("OUTBOUND_ALLOW", "CALLBACK_ALLOW"), ("CALLBACK_ALLOW", "OUTBOUND_ALLOW")):
        setattr(settings, setting_name, allow)
        setattr(settings, other, "")
        networks_opened = open_networks(None)
        assert len(networks_opened) == refused
        assert all(problem.msg.startswith(f"PEGBOARD_{setting_name} opens ") for problem in networks_opened)
    assert open_networks in registry.get_checks(include_deployment_checks=True)


@pytest.mark.parametrize(
    ("allow", "ports"),
    [("10.20.0.0/33", ""), ("vendors.internal", ""), ("169.254.169.254", ""), ("", "https")],
)
def test_networks_that_cannot_be_read_stop_the_start(settings, allow, ports):
    settings.OUTBOUND_ALLOW, settings.OUTBOUND_PORTS = allow, ports
    assert [error.id for error in open_networks(None)] == ["pegboard.E002"]
    setting_name = "PEGBOARD_OUTBOUND_ALLOW" if allow else "PEGBOARD_OUTBOUND_PORTS"
    assert any(problem.startswith(setting_name) for problem in startup_checks.problems())


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["PUBLIC_URL", "RUNTIMES_URL"])
def test_an_address_with_a_path_stops_the_start(settings, name):
    settings.PUBLIC_URL = settings.RUNTIMES_URL = "https://pegboard.example"
    assert list(startup_checks.problems()) == []
    setattr(settings, name, "https://host.example/pegboard")
    (problem,) = startup_checks.problems()
    assert "/pegboard" in problem


@pytest.mark.parametrize(("mode", "is_ours"), [(0o1777, False), (0o1777, True), (0o755, False)])
def test_an_index_that_another_account_may_have_made_is_refused(tmp_path, monkeypatch, mode, is_ours):
    directory = tmp_path / "shared" / "pegboard-search"
    directory.mkdir(parents=True)
    directory.parent.chmod(mode)
    monkeypatch.setattr(startup_checks.os, "getuid", lambda: directory.stat().st_uid + (not is_ours))
    assert startup_checks.is_foreign(directory) == (mode == 0o1777 and not is_ours)
    assert not startup_checks.is_foreign(tmp_path / "shared" / "missing")
