"""The tokens of each request that an agent may take."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from designer.models.agents import Agent

# More than the context of any model.
MAX_TOKENS = 10_000_000


class TokenLimit(models.Model):
    """The token limit of an agent's tools and procedures. `stops`: exceeding it fails a check, which
    otherwise only warns.
    """

    agent = models.OneToOneField(
        Agent, on_delete=models.CASCADE, primary_key=True, related_name="token_limit"
    )
    tokens = models.PositiveIntegerField(
        _("Token limit of tools and procedures"),
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TOKENS)],
    )
    stops = models.BooleanField(_("Block publishing above the limit"), default=False)

    def __str__(self) -> str:
        return f"Token limit of {self.agent}"
