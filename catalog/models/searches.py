"""The searches of users by day, without the users: an installation measures its own search with them."""

from django.db import models

from catalog.models.tools import Tool
from catalog.models.vendors import Vendor


class RecordedSearch(models.Model):
    """The searches of one day with the same words.

    asked: how often they were searched.
    unmet: how often nothing that was found fitted well.
    vendor: the vendor that later brought a tool that fits.
    """

    day = models.DateField()
    words = models.CharField(max_length=200)
    asked = models.PositiveIntegerField(default=0)
    unmet = models.PositiveIntegerField(default=0)
    vendor = models.ForeignKey(Vendor, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        verbose_name_plural = "recorded searches"
        constraints = [models.UniqueConstraint(fields=["day", "words"], name="one_search_per_day_and_words")]
        indexes = [
            models.Index(fields=["words"], condition=models.Q(unmet__gt=0), name="search_without_a_fit"),
        ]

    def __str__(self) -> str:
        return self.words


class SearchChoice(models.Model):
    """A tool that people opened or pinned after one question, how often on one day."""

    day = models.DateField()
    words = models.CharField(max_length=200)
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="+")
    opened = models.PositiveIntegerField(default=0)
    pinned = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["day", "words", "tool"], name="one_choice_per_day_words_and_tool")
        ]

    def __str__(self) -> str:
        return f"{self.words}: {self.tool_id}"
