import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations, models

import core.encryption
from core.migration_operations import CreateModels

# The database links an entry to the chain when its transaction commits, so that the chain has one order and nobody
# waits for longer than a commit takes (docs/decisions/0017-audit-chain.md). The function runs as the owner of the
# tables and names its schemas: otherwise temporary tables of its caller would be found first. The owner may erase
# the names of a user from entries; everything that the chain consists of stays.
AUDIT_TRAIL = """
CREATE FUNCTION {schema}.pegboard_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
        -- An entry gets its place, once.
        IF OLD.position IS NULL AND NEW.position IS NOT NULL
            AND to_jsonb(NEW) - '{{position,previous,hash}}'::text[] = to_jsonb(OLD) - '{{position,previous,hash}}'::text[]
        THEN
            RETURN NEW;
        END IF;
        IF current_setting('pegboard.erases', true) = 'on'
            AND to_jsonb(NEW) - '{{actor_name,label,before,after,why,salt}}'::text[]
                = to_jsonb(OLD) - '{{actor_name,label,before,after,why,salt}}'::text[]
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit trail never changes' USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION {schema}.pegboard_audit_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.position := NULL;
    NEW.previous := '';
    NEW.hash := '';
    NEW.digest := encode(sha256(convert_to(NEW.id::text || E'\\n' || NEW.digest, 'UTF8')), 'hex');
    RETURN NEW;
END $$;

CREATE FUNCTION {schema}.pegboard_audit_link() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
DECLARE
    head {schema}.people_audithead;
    link text;
BEGIN
    LOOP
        SELECT * INTO head FROM {schema}.people_audithead WHERE id = 1 FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.people_audithead (id, position, hash)
            VALUES (1, 0, repeat('0', 64)) ON CONFLICT DO NOTHING;
    END LOOP;
    link := encode(
        sha256(convert_to((head.position + 1)::text || E'\\n' || head.hash || E'\\n' || NEW.digest, 'UTF8')), 'hex');
    UPDATE {schema}.people_auditentry SET position = head.position + 1, previous = head.hash, hash = link
        WHERE id = NEW.id;
    UPDATE {schema}.people_audithead SET position = head.position + 1, hash = link WHERE id = 1;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION {schema}.pegboard_audit_link() FROM PUBLIC;
REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC;

-- Each entry is updated once, when it gets its place: with room for that on its own page no index is touched.
ALTER TABLE {schema}.people_auditentry SET (fillfactor = 60);

CREATE TRIGGER people_auditentry_enter BEFORE INSERT ON {schema}.people_auditentry
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_audit_enter();
CREATE CONSTRAINT TRIGGER people_auditentry_link AFTER INSERT ON {schema}.people_auditentry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_audit_link();
CREATE TRIGGER people_auditentry_not_truncated BEFORE TRUNCATE ON {schema}.people_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
CREATE TRIGGER people_auditentry_frozen BEFORE UPDATE OR DELETE ON {schema}.people_auditentry
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
CREATE TRIGGER people_erasedentry_frozen BEFORE UPDATE OR DELETE ON {schema}.people_erasedentry
    FOR EACH ROW EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
CREATE TRIGGER people_erasedentry_not_truncated BEFORE TRUNCATE ON {schema}.people_erasedentry
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.pegboard_refuse_audit_change();
INSERT INTO {schema}.people_audithead (id, position, hash) VALUES (1, 0, repeat('0', 64));
"""


def create_audit_trail(apps, schema_editor):
    """Create the functions in the schema of the tables, which a deployment may have chosen."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema()), quote_ident(current_database())")
        schema, database = cursor.fetchone()
    schema_editor.execute(AUDIT_TRAIL.format(schema=schema, database=database), params=None)


def create_team_of_everyone(apps, schema_editor):
    apps.get_model("people", "Team").objects.create(slug="everyone", name="Everyone", is_everyone=True)


class Migration(migrations.Migration):
    replaces = [
        ("people", "0001_initial"),
        ("people", "0002_freeze_audit"),
        ("people", "0003_limit_sign_in_and_index_audit"),
        ("people", "0004_teams_and_what_is_chained"),
        ("people", "0005_chain_audit"),
        ("people", "0006_end_sessions_and_know_identities"),
        ("people", "0007_narrow_keys"),
        ("people", "0008_report_keys"),
        ("people", "0009_fix_search_path_of_the_chain"),
        ("people", "0010_limit_calls_of_keys"),
        ("people", "0011_chain_ids"),
        ("people", "0012_say_api_key"),
        ("people", "0013_call_keys_api_keys"),
        ("people", "0014_let_many_calls_wait"),
        ("people", "0015_run_keys_in_environments"),
        ("people", "0016_remember_idempotent_writes"),
        ("people", "0017_erase_users"),
    ]

    initial = True

    dependencies = []

    operations = [
        TrigramExtension(),
        CreateModels(
            [
                migrations.CreateModel(
                    name="User",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("password", models.CharField(max_length=128, verbose_name="password")),
                        (
                            "last_login",
                            models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                        ),
                        (
                            "username",
                            models.CharField(
                                help_text="Letters, digits and @ . + - _ only.",
                                max_length=150,
                                unique=True,
                                validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                                verbose_name="User name",
                            ),
                        ),
                        ("name", models.CharField(blank=True, max_length=150, verbose_name="Full name")),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("viewer", "Viewer"),
                                    ("designer", "Designer"),
                                    ("admin", "Administrator"),
                                ],
                                default="viewer",
                                max_length=10,
                                verbose_name="Role",
                            ),
                        ),
                        (
                            "is_active",
                            models.BooleanField(
                                default=True,
                                help_text="Without it their keys are revoked for good. What they built stays.",
                                verbose_name="May sign in",
                            ),
                        ),
                        ("date_joined", models.DateTimeField(default=django.utils.timezone.now)),
                        ("sessions_ended", models.PositiveIntegerField(default=0, editable=False)),
                    ],
                    options={
                        "ordering": ["username"],
                        "verbose_name": "person",
                        "verbose_name_plural": "people",
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("role__in", ["viewer", "designer", "admin"])),
                                name="user_role_known",
                            ),
                            models.UniqueConstraint(
                                django.db.models.functions.text.Lower("username"),
                                name="one_user_per_name",
                                violation_error_message="Another user already signs in with this name.",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                        ("actor_name", models.CharField(max_length=150)),
                        ("action", models.CharField(max_length=50)),
                        ("kind", models.CharField(max_length=30)),
                        ("object_id", models.CharField(max_length=64)),
                        ("label", models.CharField(max_length=300)),
                        ("before", models.JSONField(null=True)),
                        ("after", models.JSONField(null=True)),
                        (
                            "actor",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("agent", models.BigIntegerField(null=True)),
                        ("digest", models.CharField(default="", editable=False, max_length=64)),
                        ("hash", models.CharField(default="", editable=False, max_length=64)),
                        ("position", models.BigIntegerField(editable=False, null=True)),
                        ("previous", models.CharField(default="", editable=False, max_length=64)),
                        ("why", models.TextField(blank=True)),
                        ("salt", models.CharField(db_default="", default="", editable=False, max_length=32)),
                    ],
                    options={
                        "verbose_name_plural": "audit entries",
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["kind", "object_id", "-id"], name="audit_by_object"),
                            models.Index(fields=["kind", "-id"], name="audit_by_kind"),
                            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
                            django.contrib.postgres.indexes.GinIndex(
                                django.contrib.postgres.indexes.OpClass(
                                    django.db.models.functions.text.Upper("label"), name="gin_trgm_ops"
                                ),
                                name="audit_by_label",
                            ),
                            models.Index(fields=["agent", "-id"], name="audit_by_agent"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FailedSignIn",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("username", models.CharField(max_length=150)),
                        ("address", models.CharField(max_length=45)),
                        ("at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["username", "address", "at"], name="failed_sign_in"),
                            models.Index(fields=["at"], name="failed_sign_in_by_age"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AuditHead",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("position", models.BigIntegerField()),
                        ("hash", models.CharField(max_length=64)),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_audit_head")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Identity",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("issuer", models.CharField(max_length=500)),
                        ("subject", models.CharField(max_length=255)),
                        ("linked_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="identities",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "identities",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("issuer", "subject"), name="one_person_per_subject"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ApiKey",
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
                                help_text="The program that uses it, such as “Order agent, production”.",
                                max_length=100,
                                verbose_name="Name",
                            ),
                        ),
                        ("prefix", models.CharField(max_length=20)),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        (
                            "scopes",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(
                                    choices=[
                                        ("read", "Read everything its owner may read"),
                                        ("design", "Read, and edit agents, pins, tunings and releases"),
                                        ("admin", "Everything its owner may do"),
                                        ("runtime", "Read releases only"),
                                        (
                                            "invoke",
                                            "Run the tools in the releases of the agents that are named for it",
                                        ),
                                    ],
                                    max_length=10,
                                ),
                                size=None,
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("last_used_at", models.DateTimeField(blank=True, null=True)),
                        ("revoked_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="api_keys",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("is_narrowed", models.BooleanField(db_default=False, default=False)),
                        ("reported_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "calls_at_once",
                            models.PositiveSmallIntegerField(
                                db_default=250,
                                default=250,
                                help_text="More concurrent calls of tools are refused.",
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(1000),
                                ],
                                verbose_name="Concurrent calls",
                            ),
                        ),
                        (
                            "environment",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="An environment of all selected agents. Its implementations are used.",
                                max_length=30,
                                verbose_name="Environment",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "verbose_name": "API key",
                        "db_table": "people_apitoken",
                        "indexes": [models.Index(fields=["user", "-id"], name="token_by_user")],
                    },
                ),
                migrations.CreateModel(
                    name="IdempotentWrite",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("caller", models.CharField(max_length=40)),
                        ("key", models.CharField(max_length=255)),
                        ("request_digest", models.CharField(max_length=64)),
                        ("sealed", core.encryption.EncryptedField(db_default="", default="")),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        (
                            "created_at",
                            models.DateTimeField(db_index=True, default=django.utils.timezone.now),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("caller", "key"), name="one_write_per_idempotency_key"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ErasedEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("entry", models.BigIntegerField()),
                        ("erasure", models.BigIntegerField()),
                        ("digest", models.CharField(max_length=64)),
                        ("covers_id", models.BooleanField()),
                    ],
                    options={
                        "verbose_name_plural": "erased entries",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("entry", "erasure"), name="one_row_per_erased_entry"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Membership",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "team",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to="people.team",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("user", "team"), name="one_membership")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Team",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=60, verbose_name="Address")),
                        ("name", models.CharField(max_length=120, verbose_name="Name")),
                        ("is_everyone", models.BooleanField(default=False)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "members",
                            models.ManyToManyField(
                                related_name="teams", through="people.Membership", to=settings.AUTH_USER_MODEL
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("slug",),
                                name="one_live_team_per_slug",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("is_everyone", True)),
                                fields=("is_everyone",),
                                name="one_team_of_everyone",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("is_everyone", False), ("removed_at", None), _connector="OR"
                                ),
                                name="everyone_stays",
                            ),
                        ],
                    },
                ),
            ]
        ),
        migrations.RunPython(create_team_of_everyone),
        migrations.RunPython(create_audit_trail),
    ]
