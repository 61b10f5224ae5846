"""The assertions about an agent's calls of its mocks."""

from django.db import models

from designer.models.agents import Agent


class MockAssertions(models.Model):
    """The assertions about calls, in the order and form of execution/activities/mocks/assertions.py."""

    agent = models.OneToOneField(
        Agent, on_delete=models.CASCADE, primary_key=True, related_name="mock_assertions"
    )
    said = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"Assertions about the mocks of {self.agent}"
