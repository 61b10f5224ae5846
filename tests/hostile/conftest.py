import pytest

from catalog.enumeration import runs as enumeration_runs


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch):
    """It would look from a connection of its own, which sees nothing of what a test rolls back."""
    monkeypatch.setattr(enumeration_runs, "HEARTBEAT_SECONDS", 3600)
