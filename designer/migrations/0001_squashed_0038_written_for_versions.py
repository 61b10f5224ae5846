import uuid

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import core.encryption
import people.models
from core.migration_operations import CreateModels

UNCHANGEABLE = """
CREATE TRIGGER designer_release_frozen BEFORE UPDATE OR DELETE ON designer_release
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_release_not_truncated BEFORE TRUNCATE ON designer_release
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_export_frozen BEFORE UPDATE OR DELETE ON designer_export
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_export_not_truncated BEFORE TRUNCATE ON designer_export
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_channelmove_frozen BEFORE UPDATE OR DELETE ON designer_channelmove
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_channelmove_not_truncated BEFORE TRUNCATE ON designer_channelmove
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_procedureversion_frozen BEFORE UPDATE OR DELETE ON designer_procedureversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_procedureversion_not_truncated BEFORE TRUNCATE ON designer_procedureversion
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_releasesignature_frozen BEFORE UPDATE OR DELETE ON designer_releasesignature
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_releasesignature_not_truncated BEFORE TRUNCATE ON designer_releasesignature
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_effectiveversion_frozen BEFORE UPDATE OR DELETE ON designer_effectiveversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_effectiveversion_not_truncated BEFORE TRUNCATE ON designer_effectiveversion
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
"""
# The owner of the tables may do everything anyway, and reads no key. docs/decisions/0036-proof-of-publishing.md.
PROOF_OF_PUBLISHING = """
CREATE TABLE {schema}.designer_publishingcheck (
    id integer PRIMARY KEY CHECK (id = 1), inner_key bytea NOT NULL, outer_key bytea NOT NULL
);
CREATE FUNCTION {schema}.pegboard_check_proof() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
    keys {schema}.designer_publishingcheck;
    facts text;
BEGIN
    IF pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'designer_release' THEN
        IF NEW.digest <> encode(sha256(convert_to(NEW.document, 'UTF8')), 'hex') THEN
            RAISE EXCEPTION 'a release has the digest of its document' USING ERRCODE = 'insufficient_privilege';
        END IF;
        facts := concat_ws(E'\\n', 'release', NEW.agent_id, NEW.number, NEW.digest, NEW.created_by_id);
    ELSE
        facts := concat_ws(E'\\n', 'export', NEW.release_id, NEW.format, encode(sha256(NEW.body), 'hex'));
    END IF;
    SELECT * INTO keys FROM {schema}.designer_publishingcheck WHERE id = 1;
    -- HMAC-SHA256 (RFC 2104), whose two blocks of the key are kept ready.
    IF NEW.proof IS DISTINCT FROM encode(
        sha256(keys.outer_key || sha256(keys.inner_key || convert_to(facts, 'UTF8'))), 'hex')
    THEN
        RAISE EXCEPTION 'rows of % come from publishing alone', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION {schema}.pegboard_check_proof() FROM PUBLIC;
CREATE TRIGGER designer_release_proven BEFORE INSERT ON {schema}.designer_release
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_check_proof();
CREATE TRIGGER designer_export_proven BEFORE INSERT ON {schema}.designer_export
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_check_proof();
"""


def create_proof_of_publishing(apps, schema_editor):
    """Create the functions in the schema of the tables, which a deployment may have chosen."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
    schema_editor.execute(PROOF_OF_PUBLISHING.format(schema=schema), params=None)


class Migration(migrations.Migration):
    replaces = [
        ("designer", "0001_initial"),
        ("designer", "0002_freeze_releases"),
        ("designer", "0003_teams"),
        ("designer", "0004_never_truncated"),
        ("designer", "0005_name_agents_for_keys"),
        ("designer", "0006_prove_publishing"),
        ("designer", "0007_remember_drafts"),
        ("designer", "0008_show_tuned_words"),
        ("designer", "0009_hold_addresses"),
        ("designer", "0010_lead_from_drafts"),
        ("designer", "0011_name_keys_api_keys"),
        ("designer", "0012_channels"),
        ("designer", "0013_procedures"),
        ("designer", "0014_accept_checks"),
        ("designer", "0015_transfers"),
        ("designer", "0016_sign_and_note_fetches"),
        ("designer", "0017_widen_tunings"),
        ("designer", "0018_archive_agents"),
        ("designer", "0019_retirements"),
        ("designer", "0020_name_vendors_for_agents"),
        ("designer", "0021_limit_tokens"),
        ("designer", "0022_name_parts_of_releases"),
        ("designer", "0023_count_what_is_written"),
        ("designer", "0024_number_effective_signatures"),
        ("designer", "0025_mend_addresses"),
        ("designer", "0026_state_retries"),
        ("designer", "0027_follow_agents_and_tools"),
        ("designer", "0028_follow_vendors"),
        ("designer", "0029_choose_configurations"),
        ("designer", "0030_add_rehearsals"),
        ("designer", "0031_assert_about_mocks"),
        ("designer", "0032_environments"),
        ("designer", "0033_ask_judges"),
        ("designer", "0034_remember_used_numbers"),
        ("designer", "0035_remember_pins_of_drafts"),
        ("designer", "0036_bind_activity_versions"),
        ("designer", "0037_protect_environments"),
        ("designer", "0038_written_for_versions"),
    ]

    initial = True

    dependencies = [
        ("people", "0001_squashed_0017_erase_users"),
        ("catalog", "0001_squashed_0080_picture_tools"),
        ("notifications", "0001_squashed_0009_name_runs_of_callbacks"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Agent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "slug",
                            models.SlugField(
                                help_text="Empty: created from the name.",
                                max_length=60,
                                verbose_name="Address",
                            ),
                        ),
                        ("name", models.CharField(max_length=120, verbose_name="Name")),
                        (
                            "description",
                            models.TextField(
                                blank=True,
                                help_text="What this agent is for.",
                                max_length=4000,
                                verbose_name="Description",
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="children",
                                to="designer.agent",
                                verbose_name="Sub-agent of",
                            ),
                        ),
                        (
                            "team",
                            models.ForeignKey(
                                default=people.models.everyone_pk,
                                help_text="Members see and edit this agent. A sub-agent has its parent's team.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="agents",
                                to="people.team",
                                verbose_name="Team",
                            ),
                        ),
                        ("archived_at", models.DateTimeField(blank=True, null=True)),
                        ("limits_vendors", models.BooleanField(db_default=False, default=False)),
                        ("retry", models.JSONField(db_default={}, default=dict)),
                        ("numbers_used", models.PositiveIntegerField(db_default=0, default=0)),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("slug",),
                                name="one_live_agent_per_slug",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Pin",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "alias",
                            models.CharField(blank=True, max_length=64, verbose_name="Name for the model"),
                        ),
                        ("name", models.CharField(max_length=64)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pins",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pins",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pins",
                                to="catalog.toolversion",
                            ),
                        ),
                        ("retry", models.JSONField(db_default={}, default=dict)),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("cached", "The signature of the release"),
                                    ("fresh", "The vendor's, while it only adds to that of the release"),
                                ],
                                db_default="cached",
                                default="cached",
                                max_length=6,
                                verbose_name="When the vendor changes the tool",
                            ),
                        ),
                        (
                            "configuration",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="pins",
                                to="catalog.configuration",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("agent", "tool"),
                                name="one_pin_per_tool",
                            ),
                            models.UniqueConstraint(
                                models.F("agent"),
                                django.db.models.functions.text.Lower("name"),
                                condition=models.Q(("removed_at", None)),
                                name="one_pin_per_name",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Release",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("digest", models.CharField(max_length=64)),
                        ("document", models.TextField()),
                        ("tool_count", models.PositiveIntegerField()),
                        (
                            "note",
                            models.TextField(
                                blank=True,
                                help_text="What changed, for the people who roll this out.",
                                max_length=2000,
                                verbose_name="Note",
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="releases",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("proof", models.CharField(blank=True, db_default="", default="", max_length=64)),
                        ("accepted", models.JSONField(db_default=[], default=list)),
                        (
                            "reason",
                            models.TextField(
                                blank=True,
                                db_default="",
                                default="",
                                max_length=2000,
                                verbose_name="Why publish anyway",
                            ),
                        ),
                        ("bindings", models.JSONField(db_default={}, default=dict)),
                    ],
                    options={
                        "ordering": ["-number"],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "number"), name="one_release_per_number")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Export",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("format", models.CharField(max_length=100)),
                        ("body", models.BinaryField()),
                        (
                            "release",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="exports",
                                to="designer.release",
                            ),
                        ),
                        ("proof", models.CharField(blank=True, db_default="", default="", max_length=64)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("release", "format"), name="one_export_per_format"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Tuning",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("description", models.TextField(null=True)),
                        ("parameters", models.JSONField(default=dict)),
                        ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "against",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                        (
                            "pin",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tuning",
                                to="designer.pin",
                            ),
                        ),
                        (
                            "tool",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tuning",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "updated_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("effects", models.JSONField(db_default={}, default=dict)),
                        ("outputs", models.JSONField(db_default={}, default=dict)),
                        ("replaced", models.JSONField(db_default={}, default=dict)),
                        ("title", models.TextField(null=True)),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("pin", None), ("tool", None), _connector="XOR"),
                                name="tuning_of_a_pin_or_of_a_tool",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="KeyAgent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "api_key",
                            models.ForeignKey(
                                db_column="token_id",
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="named",
                                to="people.apikey",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("api_key", "agent"), name="one_naming_per_agent")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PublishingKey",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.UUID("5ea1ed00-0000-4000-8000-000000000002"),
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("sealed", core.encryption.EncryptedField()),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                    ],
                ),
                migrations.CreateModel(
                    name="Draft",
                    fields=[
                        (
                            "agent",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="+",
                                serialize=False,
                                to="designer.agent",
                            ),
                        ),
                        ("made_of", models.CharField(max_length=32)),
                        ("is_changed", models.BooleanField()),
                    ],
                ),
                migrations.CreateModel(
                    name="AgentAddress",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=60, unique=True)),
                        ("left_at", models.DateTimeField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="addresses",
                                to="designer.agent",
                            ),
                        ),
                        ("is_held", models.BooleanField(db_default=True, default=True)),
                    ],
                    options={
                        "ordering": ["id"],
                    },
                ),
                migrations.CreateModel(
                    name="Channel",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=30)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="channels",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "release",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="channels",
                                to="designer.release",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "name"), name="one_channel_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ChannelMove",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("note", models.TextField(blank=True, max_length=2000, verbose_name="Note")),
                        ("moved_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "before",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.release",
                            ),
                        ),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="moves",
                                to="designer.channel",
                            ),
                        ),
                        (
                            "moved_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "release",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.release",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Procedure",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=60)),
                        (
                            "title",
                            models.CharField(
                                help_text="What it is for, in a few words: “Refill a prescription”.",
                                max_length=120,
                                verbose_name="Title",
                            ),
                        ),
                        ("text", models.TextField(blank=True, verbose_name="Text")),
                        ("number", models.PositiveIntegerField(default=1)),
                        ("position", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="procedures",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "updated_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["position", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("agent", "slug"),
                                name="one_live_procedure_per_slug",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ProcedureDraft",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("title", models.CharField(max_length=120)),
                        ("text", models.TextField(blank=True)),
                        ("based_on", models.PositiveIntegerField()),
                        ("saved_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "procedure",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="drafts",
                                to="designer.procedure",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("pins_made", models.ManyToManyField(related_name="+", to="designer.pin")),
                    ],
                    options={
                        "ordering": ["-saved_at"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("procedure", "user"), name="one_draft_per_procedure_and_user"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ProcedureReference",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("line", models.PositiveIntegerField()),
                        ("column", models.PositiveIntegerField()),
                        ("kind", models.CharField(max_length=10)),
                        ("member", models.TextField(blank=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="references",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "pin",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="references",
                                to="designer.pin",
                            ),
                        ),
                        (
                            "procedure",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="references",
                                to="designer.procedure",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["procedure", "line", "column", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="ProcedureVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("title", models.CharField(max_length=120)),
                        ("text", models.TextField(blank=True)),
                        (
                            "why",
                            models.CharField(blank=True, max_length=500, verbose_name="Note for the history"),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "created_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "procedure",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="versions",
                                to="designer.procedure",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-number"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("procedure", "number"), name="one_procedure_version_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Transfer",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "alias",
                            models.CharField(blank=True, max_length=64, verbose_name="Name for the model"),
                        ),
                        ("name", models.CharField(max_length=64)),
                        (
                            "description",
                            models.TextField(
                                blank=True,
                                help_text="The model reads this with the tools. Empty: the first sentence about the sub-agent.",
                                max_length=4000,
                                verbose_name="When to transfer",
                            ),
                        ),
                        ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="transfers",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "child",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="transfer",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "updated_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                models.F("agent"),
                                django.db.models.functions.text.Lower("name"),
                                name="one_transfer_per_name",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SigningKey",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("public", models.CharField(max_length=43, unique=True)),
                        ("sealed", core.encryption.EncryptedField()),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        ("valid_from", models.DateTimeField(default=django.utils.timezone.now)),
                        ("retired_at", models.DateTimeField(null=True)),
                        ("revoked_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["valid_from"],
                    },
                ),
                migrations.CreateModel(
                    name="ReleaseSignature",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("signature", models.CharField(max_length=86)),
                        ("signed_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "key",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.signingkey",
                            ),
                        ),
                        (
                            "release",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="signatures",
                                to="designer.release",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("release", "key"), name="one_signature_per_key")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Receipt",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("surface", models.CharField(max_length=100)),
                        ("channel", models.CharField(blank=True, max_length=30)),
                        ("first_at", models.DateTimeField()),
                        ("last_at", models.DateTimeField()),
                        (
                            "key",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="receipts",
                                to="people.apikey",
                            ),
                        ),
                        (
                            "release",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="receipts",
                                to="designer.release",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-last_at", "-id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("key", "release", "surface", "channel"), name="one_receipt_per_way"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Retirement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "reason",
                            models.TextField(
                                help_text="Shown on the release, in the audit trail, and in checks of builds.",
                                max_length=2000,
                                verbose_name="Why",
                            ),
                        ),
                        (
                            "sunset_at",
                            models.DateTimeField(
                                blank=True,
                                help_text="Empty: it stays available, and each reply states that it is retired.",
                                null=True,
                                verbose_name="Available to API keys until (UTC)",
                            ),
                        ),
                        ("retired_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "release",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="retirement",
                                to="designer.release",
                            ),
                        ),
                        (
                            "retired_by",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="AgentVendor",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="named_vendors",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "vendor",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.vendor",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "vendor"), name="one_naming_per_vendor")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TokenLimit",
                    fields=[
                        (
                            "agent",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="token_limit",
                                serialize=False,
                                to="designer.agent",
                            ),
                        ),
                        (
                            "tokens",
                            models.PositiveIntegerField(
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(10000000),
                                ],
                                verbose_name="Token limit of tools and procedures",
                            ),
                        ),
                        (
                            "stops",
                            models.BooleanField(
                                default=False, verbose_name="Block publishing above the limit"
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="EffectiveVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("node", models.BigIntegerField()),
                        ("tool", models.BigIntegerField()),
                        ("child", models.BigIntegerField()),
                        ("uuid", models.UUIDField()),
                        ("number", models.PositiveIntegerField()),
                        ("dotted_name", models.CharField(max_length=400)),
                        ("semver", models.CharField(max_length=40)),
                        ("digest", models.CharField(max_length=64)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "release",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.release",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent", "node", "uuid", "number"),
                                name="one_effective_version_per_number",
                            ),
                            models.UniqueConstraint(
                                fields=("agent", "node", "dotted_name", "semver"),
                                name="one_effective_version_per_semver",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Follow",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("is_following", models.BooleanField(default=True)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "agent",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="follows",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("user", "agent"), name="one_follow_per_agent"),
                            models.UniqueConstraint(fields=("user", "tool"), name="one_follow_per_tool"),
                            models.CheckConstraint(
                                condition=models.Q(("agent", None), ("tool", None), _connector="XOR"),
                                name="follow_of_an_agent_or_of_a_tool",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="WebhookAgent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="named",
                                to="notifications.webhook",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("webhook", "agent"), name="one_naming_per_webhook"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RehearsalJudge",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "url",
                            models.CharField(
                                help_text="Such as https://api.openai.com/v1, without /chat/completions.",
                                max_length=2000,
                                verbose_name="Base address",
                            ),
                        ),
                        ("model", models.CharField(max_length=200, verbose_name="Model")),
                        (
                            "tries",
                            models.PositiveSmallIntegerField(
                                default=3,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(5),
                                ],
                                verbose_name="Attempts for each test",
                            ),
                        ),
                        ("origin", models.CharField(blank=True, max_length=300)),
                        ("sealed", core.encryption.EncryptedField(blank=True)),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        ("fingerprint", models.CharField(blank=True, max_length=16)),
                        (
                            "agent",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rehearsal_judge",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "name",
                            models.CharField(db_default="", default="", max_length=100, verbose_name="Name"),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
                        (
                            "seconds",
                            models.PositiveSmallIntegerField(
                                db_default=30,
                                default=30,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(120),
                                ],
                                verbose_name="Seconds for each answer, at most",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="RehearsalPlan",
                    fields=[
                        (
                            "agent",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                primary_key=True,
                                related_name="rehearsal_plan",
                                serialize=False,
                                to="designer.agent",
                            ),
                        ),
                        (
                            "gate",
                            models.CharField(
                                choices=[
                                    ("off", "Ignore"),
                                    ("warn", "Warn"),
                                    ("refuse", "Block publishing until accepted"),
                                ],
                                default="warn",
                                max_length=6,
                                verbose_name="If too few tests pass",
                            ),
                        ),
                        (
                            "at_least",
                            models.PositiveIntegerField(
                                blank=True,
                                help_text="Empty: no minimum.",
                                null=True,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(200),
                                ],
                                verbose_name="Tests that must pass",
                            ),
                        ),
                        (
                            "on_flips",
                            models.BooleanField(
                                default=True,
                                verbose_name="Also if a test fails that passed in the last release",
                            ),
                        ),
                        (
                            "judge",
                            models.CharField(
                                default="built-in", max_length=20, verbose_name="Evaluation model"
                            ),
                        ),
                        ("looked_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("asked_at", models.DateTimeField(null=True)),
                        ("made_of", models.CharField(blank=True, max_length=64)),
                        (
                            "asks",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="plans",
                                to="designer.rehearsaljudge",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Rehearsal",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("says", models.TextField(max_length=1000, verbose_name="What a user says")),
                        ("inputs", models.JSONField(default=dict)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rehearsals",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "child",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.tool",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("tool", None), ("child", None), _connector="XOR"),
                                name="rehearsal_of_a_tool_or_a_transfer",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RehearsalRun",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("judge", models.CharField(max_length=20)),
                        ("model", models.CharField(blank=True, max_length=200)),
                        ("digest", models.CharField(max_length=64)),
                        ("release", models.PositiveIntegerField(null=True)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("succeeded", "Done"),
                                    ("failed", "Failed"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("message", models.TextField(blank=True)),
                        ("results", models.JSONField(default=list)),
                        ("right", models.PositiveIntegerField(default=0)),
                        ("total", models.PositiveIntegerField(default=0)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rehearsal_runs",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "asked_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "asks",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.rehearsaljudge",
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(db_default=0, default=0)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("input_tokens", models.PositiveBigIntegerField(null=True)),
                        ("output_tokens", models.PositiveBigIntegerField(null=True)),
                        ("payload", models.JSONField(db_default={}, default=dict)),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [models.Index(fields=["agent", "-id"], name="rehearsal_runs_of_agent")],
                    },
                ),
                migrations.CreateModel(
                    name="MockAssertions",
                    fields=[
                        (
                            "agent",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="mock_assertions",
                                serialize=False,
                                to="designer.agent",
                            ),
                        ),
                        ("said", models.JSONField(default=list)),
                    ],
                ),
                migrations.CreateModel(
                    name="Environment",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                help_text="Such as “prototype”, “test” or “production”.",
                                max_length=30,
                                verbose_name="Name",
                            ),
                        ),
                        (
                            "is_default",
                            models.BooleanField(
                                default=False, verbose_name="Use it when no environment is selected"
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "agent",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="environments",
                                to="designer.agent",
                            ),
                        ),
                        ("is_protected", models.BooleanField(db_default=False, default=False)),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent", "name"), name="one_environment_per_name"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("is_default", True)),
                                fields=("agent",),
                                name="one_default_environment",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Binding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "activity",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.activity",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "environment",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="bindings",
                                to="designer.environment",
                            ),
                        ),
                        (
                            "activity_version",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.activityversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "tool"), name="one_binding_per_tool"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="NamedActivity",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=150)),
                        (
                            "activity_version",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.activityversion",
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="designer.agent",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.tool",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent", "tool", "name"), name="one_named_activity_per_tool"
                            )
                        ],
                    },
                ),
            ]
        ),
        # Old code knew these columns. They stay in the database until a later release drops them.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(
                    model_name="rehearsaljudge",
                    name="agent",
                ),
            ],
        ),
        migrations.RunSQL(UNCHANGEABLE),
        migrations.RunPython(create_proof_of_publishing),
    ]
