"""Changes of tools, which the search index of each host follows (catalog.search.changes)."""

from django.db import models
from django.db.models.functions import Now


class ToolChange(models.Model):
    """A change after which a search shows a tool differently. Database triggers append the rows.

    Old rows are deleted: an index that did not read them in time is built again.
    """

    tool_id = models.BigIntegerField()
    is_new_version = models.BooleanField(help_text="The tool has to be indexed to be found as it is now.")
    transaction = models.BigIntegerField(help_text="The database transaction that made it.")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["transaction"], name="tool_change_by_transaction")]

    def __str__(self) -> str:
        return f"Tool {self.tool_id}"
