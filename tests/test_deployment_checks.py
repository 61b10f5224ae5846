import pytest

from pegboard.checks import crash_points, open_networks


def test_armed_crash_points_are_refused(monkeypatch):
    assert crash_points(None) == []
    monkeypatch.setenv("DEBUG_CRASH", "1")
    assert [error.id for error in crash_points(None)] == ["pegboard.E001"]


@pytest.mark.parametrize(
    ("allow", "refused"),
    [
        ("", 0),
        ("10.20.0.0/16:443 fd12::/16", 0),
        ("127.0.0.1/32", 1),
        ("::1/128:8000 0.0.0.0/0", 2),
    ],
)
def test_networks_for_one_machine_are_refused_in_production(settings, allow, refused):
    settings.OUTBOUND_ALLOW = allow
    assert len(open_networks(None)) == refused
