"""Enumeration runs named by the messages of a queue; no worker takes the messages away here."""

import json

from catalog.enumeration import runs as enumeration_runs
from core import redis_client


def told_of(queue: str) -> list[int]:
    """Return the messages in the order in which they were sent."""
    messages = [json.loads(text)["headers"] for text in redis_client.client().lrange(queue, 0, -1)]
    runs = [message["argsrepr"] for message in messages if message["task"] == enumeration_runs.TASK]
    return [json.loads(run)[0] for run in reversed(runs)]


def forget() -> None:
    redis_client.client().delete("enumeration", "slow")
