from django.contrib.postgres.fields import ArrayField
from django.db import models

from catalog.models.tools import Tool


class SensitiveValues(models.Model):
    """The members of a tool's calls that are masked for people, as JSON pointers into inputs and outputs.

    A designer marks them. Requests and responses of runtimes are never masked.
    """

    tool = models.OneToOneField(
        Tool, primary_key=True, on_delete=models.PROTECT, related_name="sensitive_values"
    )
    inputs = ArrayField(models.TextField(), default=list)
    outputs = ArrayField(models.TextField(), default=list)

    def __str__(self) -> str:
        return f"Sensitive values of {self.tool}"
