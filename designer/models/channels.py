"""The channels of an agent, which point runtimes to releases, and every move of them."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from designer.models.agents import Agent
from designer.models.releases import MAX_NOTE_LENGTH, Release


class Channel(models.Model):
    """A name that points to a release, such as `live`. Designers move it.

    `release` is None if it points to no release. An agent without a row for `live` has that channel all the
    same.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="channels")
    name = models.CharField(max_length=30)
    release = models.ForeignKey(Release, null=True, on_delete=models.PROTECT, related_name="channels")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="one_channel_per_name")]

    def __str__(self) -> str:
        return f"{self.name} of {self.agent}"


class ChannelMove(models.Model):
    """One move of a channel, from `before` to `release`: a trigger refuses UPDATE and DELETE."""

    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="moves")
    before = models.ForeignKey(Release, null=True, on_delete=models.PROTECT, related_name="+")
    release = models.ForeignKey(Release, null=True, on_delete=models.PROTECT, related_name="+")
    note = models.TextField(_("Note"), max_length=MAX_NOTE_LENGTH, blank=True)
    moved_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    moved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Move of {self.channel}"
