"""The search index, which catalog.search derives from the current versions and can rebuild.

A batch of tools becomes a segment. A segment never changes. When enough of its tools were indexed again
elsewhere,
the others move too and the segment is dropped. docs/decisions/0008-search.md explains the arrays of postings
and the
missing foreign keys of these tables.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.db import models
from django.db.models.functions import Now

from catalog.models.tools import Tool, ToolVersion
from catalog.models.vendors import Endpoint


class SearchSegment(models.Model):
    id = models.AutoField(primary_key=True)
    endpoint = models.ForeignKey(
        Endpoint,
        null=True,  # shared by endpoints with few tools
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
    )
    documents = models.PositiveIntegerField(help_text="How many it was made of; some may have moved on.")

    def __str__(self) -> str:
        return f"Segment {self.pk}"


class SearchDocument(models.Model):
    """An indexed tool. `vector`: its words for exact scoring, see catalog.search.ranking."""

    id = models.AutoField(primary_key=True)
    tool = models.OneToOneField(Tool, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    version = models.ForeignKey(
        ToolVersion,
        null=True,  # of what a release before this one wanted indexed again
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    worded_at = models.DateTimeField(null=True, help_text="That of the tool whose words were indexed.")
    renamed_at = models.DateTimeField(null=True, help_text="That of the vendor whose name was indexed.")
    segment = models.ForeignKey(
        SearchSegment, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    shared_by = models.ForeignKey(
        Endpoint,
        null=True,  # its endpoint has segments of its own
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    name_key = models.TextField(db_collation="C")
    vector = models.BinaryField()

    class Meta:
        indexes = [
            models.Index(fields=["name_key"], name="search_by_name_key"),
            models.Index(
                fields=["shared_by"], condition=models.Q(shared_by__isnull=False), name="search_by_sharer"
            ),
        ]

    def __str__(self) -> str:
        return self.name_key


class SearchLexeme(models.Model):
    """A stemmed word, or `#` and a tag. `found_in` counts documents, those that have moved on included."""

    id = models.AutoField(primary_key=True)
    text = models.TextField(db_collation="C")
    found_in = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["text"], name="one_search_lexeme_per_text")]

    def __str__(self) -> str:
        return self.text


class SearchWord(models.Model):
    """A word as vendors write it: the dictionary for spelling repair and completion."""

    word = models.TextField(db_collation="C")
    lexeme = models.ForeignKey(
        SearchLexeme, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["word"], name="one_search_word")]
        indexes = [GinIndex(fields=["word"], opclasses=["gin_trgm_ops"], name="search_word_like")]

    def __str__(self) -> str:
        return self.word


class SearchPosting(models.Model):
    """The documents of a segment with one lexeme, by descending impact; `top` is the highest."""

    pk = models.CompositePrimaryKey("lexeme_id", "top", "home", "segment_id")
    lexeme = models.ForeignKey(
        SearchLexeme, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    top = models.SmallIntegerField()
    home = models.BigIntegerField(help_text="The endpoint; 0 when several share the segment.")
    segment = models.ForeignKey(
        SearchSegment, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    count = models.IntegerField()
    documents = ArrayField(models.IntegerField())
    impacts = ArrayField(models.SmallIntegerField())

    class Meta:
        indexes = [BrinIndex(fields=["segment"], pages_per_range=16, name="search_posting_segment")]

    def __str__(self) -> str:
        return f"{self.lexeme_id} in segment {self.segment_id}"


class IndexQueueEntry(models.Model):
    """A tool whose document may be missing or outdated. Database triggers append the entries.

    A tool may have several entries. A worker deletes only entries that it read before the tool, so a change
    that commits
    meanwhile leaves its own entry.
    """

    tool_id = models.BigIntegerField()
    endpoint_id = models.BigIntegerField()
    queued_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "index queue entries"
        indexes = [models.Index(fields=["endpoint_id", "id"], name="index_queue_by_endpoint")]

    def __str__(self) -> str:
        return f"Tool {self.tool_id}"
