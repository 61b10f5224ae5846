"""Groups of everyday words that administrators add to the shipped ones."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class CustomWordGroup(models.Model):
    """Words that mean the same in this organization: a search for one finds tools with another.

    revision: rises with each change, so that each process notices it.
    """

    words = ArrayField(models.TextField())
    revision = models.PositiveIntegerField(default=1, db_default=1)

    class Meta:
        verbose_name = "group of words"
        verbose_name_plural = "groups of words"

    def __str__(self) -> str:
        return ", ".join(self.words[:3])
