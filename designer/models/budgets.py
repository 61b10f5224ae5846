"""How many tokens of each request an agent may take."""

from django.db import models

from designer.models.agents import Agent


class TokenLimit(models.Model):
    """The token limit of an agent's tools and procedures. `stops`: exceeding it fails a check, which
    otherwise only warns.
    """

    agent = models.OneToOneField(
        Agent, on_delete=models.CASCADE, primary_key=True, related_name="token_limit"
    )
    tokens = models.PositiveIntegerField()
    stops = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"Token limit of {self.agent}"
