"""Translations of vendors' texts for the people who read them here. No export and no model is given one."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models.tools import Tool, ToolVersion


class TranslationOrigin(models.TextChoices):
    PERSON = "person", gettext_lazy("Entered by hand")
    IMPORT = "import", gettext_lazy("Imported")
    MODEL = "model", gettext_lazy("Made by a model")


class Translation(models.Model):
    """The translation of one text into one language, for every tool and version that has this text.

    digest: the SHA-256 of the source text. A vendor's new text has another digest, and no translation yet.
    model: the name of the model that made it, "" for a person's.
    is_confirmed: a person entered, imported or confirmed it. A model's text starts without.
    """

    digest = models.CharField(max_length=64)
    language = models.CharField(max_length=16)
    text = models.TextField()
    origin = models.CharField(max_length=10, choices=TranslationOrigin.choices)
    is_confirmed = models.BooleanField(default=True, db_default=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    model = models.CharField(max_length=200, default="", db_default="", blank=True)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["digest", "language"], name="one_translation_per_language"),
            models.CheckConstraint(
                condition=models.Q(digest__regex="^[0-9a-f]{64}$"), name="translation_of_a_digest"
            ),
            models.CheckConstraint(condition=~models.Q(text=""), name="translation_has_a_text"),
            models.CheckConstraint(
                condition=models.Q(origin="model") | models.Q(is_confirmed=True),
                name="only_a_model_is_unconfirmed",
            ),
        ]
        indexes = [models.Index(fields=["language", "is_confirmed"], name="translation_by_language")]

    def __str__(self) -> str:
        return f"{self.language}: {self.text[:200]}"

    @property
    def author_name(self) -> str:
        return str(self.author) if self.author else self.model or _("Another user")


class ToolTexts(models.Model):
    """The texts of a tool's current version, read in the background (translations.scan).

    keys: the first eight bytes of the digest of each text: they find the tools that have a text.
    language: the BCP 47 code of the language that the texts are in, "" if it is not known.
    """

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="texts")
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    keys = ArrayField(models.BigIntegerField(), default=list)
    language = models.CharField(max_length=16, default="", db_default="")

    class Meta:
        indexes = [GinIndex(fields=["keys"], name="tool_by_text")]

    def __str__(self) -> str:
        return f"Texts of {self.tool}"
