"""What search reads: derived from the current versions by catalog.search, and safe to throw away.

One batch of tools makes one segment. A segment never changes; when enough of its tools have been
indexed again elsewhere, the rest moves too and the segment is dropped. docs/decisions/0008-search.md
says why the postings are arrays and why these tables, all derived, hold no foreign key constraints.
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
    """A tool as indexed. `vector` holds its words for exact scoring, see catalog.search.ranking."""

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
    """The documents of one segment that hold one lexeme, strongest impact first; `top` is the strongest."""

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
    """A tool whose document may be missing or out of date. Database triggers append the entries.

    A tool may have several entries. A worker deletes only the entries that it read before it read the tool,
    so a change that commits while the tool is indexed leaves an entry of its own.
    """

    tool_id = models.BigIntegerField()
    endpoint_id = models.BigIntegerField()
    queued_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "index queue entries"
        indexes = [models.Index(fields=["endpoint_id", "id"], name="index_queue_by_endpoint")]

    def __str__(self) -> str:
        return f"Tool {self.tool_id}"
