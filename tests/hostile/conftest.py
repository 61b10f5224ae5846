import pytest

from catalog.enumeration import heartbeat


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch):
    """It would look from a connection of its own, which sees nothing of what a test rolls back."""
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 3600)
