"""Runs that translate texts of tools with a model."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import Vendor
from designer.models.rehearsals import RehearsalJudge, RehearsalStatus


class TranslationRun(models.Model):
    """The translation of a vendor's texts into one language by an evaluation model.

    after_tool: all tools up to this primary key are done. refused: digests of texts whose translation by the
    model was no plain text. due_at: when a worker continues; attempts: how often requests failed in a row.
    """

    language = models.CharField(_("Language"), max_length=16)
    vendor = models.ForeignKey(
        Vendor, verbose_name=_("Vendor"), on_delete=models.PROTECT, related_name="+", db_index=False
    )
    judge = models.ForeignKey(
        RehearsalJudge,
        verbose_name=_("Model"),
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    model = models.CharField(max_length=200)
    status = models.CharField(max_length=10, choices=RehearsalStatus.choices, default=RehearsalStatus.QUEUED)
    tool_count = models.PositiveIntegerField(default=0)
    tools_done = models.PositiveIntegerField(default=0)
    after_tool = models.BigIntegerField(default=0)
    translated = models.PositiveIntegerField(default=0)
    refused = models.JSONField(default=list)
    message = models.TextField(blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["vendor", "language"],
                condition=models.Q(status__in=["queued", "running"]),
                name="one_translation_run_per_vendor",
            )
        ]

    def __str__(self) -> str:
        return f"{self.vendor}, {self.language}"

    @property
    def is_active(self) -> bool:
        return self.status in (RehearsalStatus.QUEUED, RehearsalStatus.RUNNING)
