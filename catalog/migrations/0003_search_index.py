import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations, models

# One edit in a short word, two in a longer one, leave about so much in common. The default of 0.3 would
# miss most typos in words of five or six letters and read too much for long ones. What is set here ends
# with the function, because the setting belongs to the session and sessions are shared.
SIMILAR_WORDS = """
CREATE FUNCTION catalog_similar_words(typed text, most int) RETURNS TABLE (word text, lexeme_id int)
LANGUAGE plpgsql STABLE ROWS 50 SET pg_trgm.similarity_threshold = 0.2 AS $$
DECLARE letters int := length(typed);
BEGIN
    PERFORM set_config('pg_trgm.similarity_threshold',
        greatest(0.2, 0.9 * (letters - 6) / (letters + 8))::text, true);
    RETURN QUERY SELECT w.word, w.lexeme_id FROM catalog_searchword w
        WHERE w.word % typed AND length(w.word) BETWEEN letters - 2 AND letters + 2 AND left(w.word, 1) <> '#'
        ORDER BY similarity(w.word, typed) DESC, w.word LIMIT most;
END $$;
"""
# Every batch counts up thousands of lexemes; with room in the page that needs no new index entries.
ROOM_TO_COUNT = "ALTER TABLE catalog_searchlexeme SET (fillfactor = 70)"


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0002_freeze_versions"),
    ]

    operations = [
        TrigramExtension(),
        migrations.CreateModel(
            name="SearchLexeme",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("text", models.TextField(db_collation="C")),
                ("found_in", models.IntegerField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("text",), name="one_search_lexeme_per_text")],
            },
        ),
        migrations.CreateModel(
            name="SearchSegment",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "documents",
                    models.PositiveIntegerField(help_text="How many it was made of; some may have moved on."),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.endpoint",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SearchPosting",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lexeme_id",
                        "top",
                        "home",
                        "segment_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("top", models.SmallIntegerField()),
                ("home", models.BigIntegerField(help_text="The endpoint; 0 when several share the segment.")),
                ("count", models.IntegerField()),
                (
                    "documents",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                (
                    "impacts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(), size=None
                    ),
                ),
                (
                    "lexeme",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="catalog.searchlexeme",
                    ),
                ),
                (
                    "segment",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="catalog.searchsegment",
                    ),
                ),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        fields=["segment"], name="search_posting_segment", pages_per_range=16
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("name_key", models.TextField(db_collation="C")),
                ("vector", models.BinaryField()),
                (
                    "shared_by",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.endpoint",
                    ),
                ),
                (
                    "tool",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.tool",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="catalog.toolversion",
                    ),
                ),
                (
                    "segment",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.searchsegment",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name_key"], name="search_by_name_key"),
                    models.Index(
                        condition=models.Q(("shared_by__isnull", False)),
                        fields=["shared_by"],
                        name="search_by_sharer",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchWord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("word", models.TextField(db_collation="C")),
                (
                    "lexeme",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="catalog.searchlexeme",
                    ),
                ),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["word"], name="search_word_like", opclasses=["gin_trgm_ops"]
                    )
                ],
                "constraints": [models.UniqueConstraint(fields=("word",), name="one_search_word")],
            },
        ),
        migrations.AlterField(
            model_name="tool",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tools",
                to="catalog.endpoint",
            ),
        ),
        migrations.AddIndex(
            model_name="tool", index=models.Index(fields=["endpoint", "id"], name="tool_by_endpoint")
        ),
        migrations.AddIndex(
            model_name="tool", index=models.Index(fields=["tokens", "id"], name="tool_by_tokens")
        ),
        migrations.AddIndex(
            model_name="tool",
            index=models.Index(
                condition=models.Q(("status", "withdrawn")), fields=["id"], name="tool_withdrawn"
            ),
        ),
        migrations.RunSQL(SIMILAR_WORDS, "DROP FUNCTION catalog_similar_words"),
        migrations.RunSQL(ROOM_TO_COUNT, migrations.RunSQL.noop),
    ]
