import uuid

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import core.encryption
import protocols
from core.migration_operations import CreateModels

# Rows that nobody changes. Other apps use the function, too.
UNCHANGEABLE = """
CREATE FUNCTION pegboard_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER catalog_toolversion_frozen BEFORE UPDATE OR DELETE ON catalog_toolversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER catalog_toolversion_not_truncated BEFORE TRUNCATE ON catalog_toolversion
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER catalog_otheranswer_frozen BEFORE UPDATE OR DELETE ON catalog_otheranswer
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER catalog_otheranswer_not_truncated BEFORE TRUNCATE ON catalog_otheranswer
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER catalog_activityversion_frozen BEFORE UPDATE OR DELETE ON catalog_activityversion
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER catalog_activitycallee_frozen BEFORE UPDATE OR DELETE ON catalog_activitycallee
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
"""
# A word with one typo shares about this part of its trigrams; the default of 0.3 misses most typos in words of five
# or six letters. The setting ends with the function, because connections are shared.
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
# Each batch counts up thousands of lexemes. With space on the page, an update adds no index entries.
SPACE_FOR_UPDATES = "ALTER TABLE catalog_searchlexeme SET (fillfactor = 70)"
# A statement that adds tools appends them at once. An update appends only tools that a search shows differently.
INDEX_QUEUE = """
CREATE FUNCTION pegboard_queue_new_tools() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id) SELECT id, endpoint_id FROM new_tools ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_queue_new AFTER INSERT ON catalog_tool
    REFERENCING NEW TABLE AS new_tools FOR EACH STATEMENT EXECUTE FUNCTION pegboard_queue_new_tools();

CREATE FUNCTION pegboard_queue_tool() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id) VALUES (NEW.id, NEW.endpoint_id);
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_tool_queue_changed AFTER UPDATE ON catalog_tool FOR EACH ROW
    WHEN (OLD.current_id IS DISTINCT FROM NEW.current_id OR OLD.worded_at IS DISTINCT FROM NEW.worded_at)
    EXECUTE FUNCTION pegboard_queue_tool();

CREATE FUNCTION pegboard_queue_tools_of_endpoint() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id)
        SELECT id, endpoint_id FROM catalog_tool WHERE endpoint_id = NEW.id ORDER BY id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_endpoint_queue_tools AFTER UPDATE ON catalog_endpoint FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.vendor_id <> NEW.vendor_id)
    EXECUTE FUNCTION pegboard_queue_tools_of_endpoint();

CREATE FUNCTION pegboard_queue_tools_of_vendor() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_indexqueueentry (tool_id, endpoint_id)
        SELECT t.id, t.endpoint_id FROM catalog_tool t JOIN catalog_endpoint e ON e.id = t.endpoint_id
        WHERE e.vendor_id = NEW.id ORDER BY t.id;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_vendor_queue_tools AFTER UPDATE ON catalog_vendor FOR EACH ROW
    WHEN (OLD.removed_at IS DISTINCT FROM NEW.removed_at OR OLD.renamed_at IS DISTINCT FROM NEW.renamed_at)
    EXECUTE FUNCTION pegboard_queue_tools_of_vendor();
"""
# A statement that changes findings first locks the decision about each tool and subject concerned, or creates it.
# Concurrent statements about the same bytes wait for each other there, and the next statements read what the
# others have committed. The order of the heaviest is `WEIGHT` of catalog/models/findings.py.
WAITING_DECISIONS = """
CREATE FUNCTION pegboard_settle_decisions(findings bigint[], tools bigint[], subjects text[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO catalog_waitingdecision (finding_id, tool_id, subject, endpoint_id, severity, code)
        SELECT finding, tool, subject, 0, '', ''
        FROM unnest(findings, tools, subjects) changed (finding, tool, subject) ORDER BY tool, subject
        ON CONFLICT (tool_id, subject) DO UPDATE SET tool_id = excluded.tool_id;
    UPDATE catalog_waitingdecision decision
        SET finding_id = heaviest.id, endpoint_id = heaviest.endpoint_id,
            severity = heaviest.severity, code = heaviest.code
        FROM (
            SELECT DISTINCT ON (finding.tool_id, finding.subject) finding.*
            FROM catalog_finding finding
            JOIN unnest(tools, subjects) changed (tool, subject)
                ON finding.tool_id = changed.tool AND finding.subject = changed.subject
            WHERE finding.state = 'open'
            ORDER BY finding.tool_id, finding.subject,
                CASE finding.severity WHEN 'high' THEN 6 WHEN 'medium' THEN 4 ELSE 2 END
                    - (finding.code = 'HELD')::int DESC,
                finding.id DESC
        ) heaviest
        WHERE decision.tool_id = heaviest.tool_id AND decision.subject = heaviest.subject;
    DELETE FROM catalog_waitingdecision decision USING unnest(tools, subjects) changed (tool, subject)
        WHERE decision.tool_id = changed.tool AND decision.subject = changed.subject
        AND NOT EXISTS (
            SELECT FROM catalog_finding finding
            WHERE finding.tool_id = changed.tool AND finding.subject = changed.subject AND finding.state = 'open'
        );
END $$;

CREATE FUNCTION pegboard_settle_new_findings() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pegboard_settle_decisions(array_agg(id), array_agg(tool_id), array_agg(subject)) FROM (
        SELECT max(id) AS id, tool_id, subject FROM new_findings WHERE state = 'open' GROUP BY tool_id, subject
    ) changed HAVING count(*) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_finding_settle_new AFTER INSERT ON catalog_finding
    REFERENCING NEW TABLE AS new_findings FOR EACH STATEMENT EXECUTE FUNCTION pegboard_settle_new_findings();

CREATE FUNCTION pegboard_settle_changed_findings() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pegboard_settle_decisions(array_agg(id), array_agg(tool_id), array_agg(subject)) FROM (
        SELECT max(id) AS id, tool_id, subject
        FROM (
            (SELECT id, tool_id, subject, state, endpoint_id, severity, code FROM new_findings
                EXCEPT SELECT id, tool_id, subject, state, endpoint_id, severity, code FROM old_findings)
            UNION ALL
            (SELECT id, tool_id, subject, state, endpoint_id, severity, code FROM old_findings
                EXCEPT SELECT id, tool_id, subject, state, endpoint_id, severity, code FROM new_findings)
        ) differing
        WHERE state = 'open' GROUP BY tool_id, subject
    ) changed HAVING count(*) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_finding_settle_changed AFTER UPDATE ON catalog_finding
    REFERENCING OLD TABLE AS old_findings NEW TABLE AS new_findings
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_settle_changed_findings();

CREATE FUNCTION pegboard_settle_deleted_findings() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pegboard_settle_decisions(array_agg(id), array_agg(tool_id), array_agg(subject)) FROM (
        SELECT max(id) AS id, tool_id, subject FROM old_findings WHERE state = 'open' GROUP BY tool_id, subject
    ) changed HAVING count(*) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER catalog_finding_settle_deleted AFTER DELETE ON catalog_finding
    REFERENCING OLD TABLE AS old_findings FOR EACH STATEMENT EXECUTE FUNCTION pegboard_settle_deleted_findings();
"""


class Migration(migrations.Migration):
    replaces = [
        ("catalog", "0001_initial"),
        ("catalog", "0002_freeze_versions"),
        ("catalog", "0003_search_index"),
        ("catalog", "0004_tell_workers_and_know_pages"),
        ("catalog", "0005_drop_spare_indexes"),
        ("catalog", "0006_drop_run_by_lease"),
        ("catalog", "0007_endpoint_memory"),
        ("catalog", "0008_credential_query_and_token"),
        ("catalog", "0009_hold_versions"),
        ("catalog", "0010_calls"),
        ("catalog", "0011_drop_indexed_version"),
        ("catalog", "0012_keep_documents_apart"),
        ("catalog", "0013_signatures_as_text"),
        ("catalog", "0014_key_ids_and_fingerprints"),
        ("catalog", "0015_count_tools_from_an_index"),
        ("catalog", "0016_oauth_grants"),
        ("catalog", "0017_reaching_endpoints"),
        ("catalog", "0018_note_use_of_credentials"),
        ("catalog", "0019_never_truncated"),
        ("catalog", "0020_keep_last_replies"),
        ("catalog", "0021_read_at_the_vendors_own_speed"),
        ("catalog", "0022_know_where_tokens_are_revoked"),
        ("catalog", "0023_look_a_second_time"),
        ("catalog", "0024_calls_of_runtimes"),
        ("catalog", "0025_keep_replies"),
        ("catalog", "0026_put_runs_aside"),
        ("catalog", "0027_name_versions"),
        ("catalog", "0028_count_rewrites"),
        ("catalog", "0029_wait_tool_by_tool"),
        ("catalog", "0030_remember_call_ids"),
        ("catalog", "0031_bound_readings"),
        ("catalog", "0032_ask_for_more_scope"),
        ("catalog", "0033_show_tuned_words"),
        ("catalog", "0034_weigh_findings"),
        ("catalog", "0035_find_runs_with_changes"),
        ("catalog", "0036_compare_names_of_vendors"),
        ("catalog", "0037_keep_alarms"),
        ("catalog", "0038_call_keys_api_keys"),
        ("catalog", "0039_name_clients"),
        ("catalog", "0040_name_passes"),
        ("catalog", "0041_turn_second_looks_on"),
        ("catalog", "0042_name_parts_of_runs"),
        ("catalog", "0043_call_for_sub_agents"),
        ("catalog", "0044_ask_for_vendors"),
        ("catalog", "0045_count_versions_when_asked"),
        ("catalog", "0046_let_many_calls_wait"),
        ("catalog", "0047_act_for_users"),
        ("catalog", "0048_state_retries"),
        ("catalog", "0049_call_in_background"),
        ("catalog", "0050_keep_sites_of_calls"),
        ("catalog", "0051_find_calls_that_go_on"),
        ("catalog", "0052_widen_grants"),
        ("catalog", "0053_keep_threads"),
        ("catalog", "0054_find_calls_of_threads"),
        ("catalog", "0055_read_one_tool"),
        ("catalog", "0056_note_read_revision"),
        ("catalog", "0057_configure_tools"),
        ("catalog", "0058_sign_with_keys"),
        ("catalog", "0059_keep_reasoning"),
        ("catalog", "0060_read_lists_once"),
        ("catalog", "0061_keep_marks"),
        ("catalog", "0062_activities"),
        ("catalog", "0063_find_calls_of_activities"),
        ("catalog", "0064_mark_own_vendor"),
        ("catalog", "0065_activities_of_administrators"),
        ("catalog", "0066_count_calls_under_way"),
        ("catalog", "0067_remove_calls"),
        ("catalog", "0068_add_token_note"),
        ("catalog", "0069_queue_tools_for_the_index"),
        ("catalog", "0070_queue_what_is_not_indexed"),
        ("catalog", "0071_pin_callees"),
        ("catalog", "0072_own_keys_of_calls"),
        ("catalog", "0073_unknown_outcomes"),
        ("catalog", "0074_add_listed_document"),
        ("catalog", "0075_find_versions_by_label"),
        ("catalog", "0076_indexes_of_the_queue"),
        ("catalog", "0077_run_spoken_protocol"),
        ("catalog", "0078_keep_waiting_decisions"),
        ("catalog", "0079_lease_of_history"),
        ("catalog", "0080_picture_tools"),
    ]

    initial = True

    dependencies = [
        ("people", "0001_squashed_0017_erase_users"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Credential",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                help_text="So that others recognise it.", max_length=100, verbose_name="Name"
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("bearer", "Bearer token"),
                                    ("header", "API key in a header"),
                                    ("query", "API key in the address"),
                                    ("basic", "User name and password"),
                                    ("jwt", "Signed token (JWT, HS256)"),
                                    ("oauth_client", "OAuth 2, as ourselves (client credentials)"),
                                    ("oauth_code", "OAuth 2, after a sign-in (authorization code)"),
                                    (
                                        "oauth_users",
                                        "OAuth 2, for each user of an agent (authorization code)",
                                    ),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("header", models.CharField(blank=True, max_length=64)),
                        ("username", models.CharField(blank=True, max_length=200)),
                        (
                            "origin",
                            models.CharField(
                                help_text="The only origin this may be sent to.", max_length=300
                            ),
                        ),
                        ("sealed", core.encryption.EncryptedField()),
                        ("fingerprint", models.CharField(max_length=16)),
                        ("set_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "set_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("audience", models.CharField(blank=True, max_length=200)),
                        ("issuer", models.CharField(blank=True, max_length=200)),
                        ("lifetime_seconds", models.PositiveIntegerField(null=True)),
                        ("parameter", models.CharField(blank=True, max_length=64)),
                        ("subject", models.CharField(blank=True, max_length=200)),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        (
                            "refused_at",
                            models.DateTimeField(
                                help_text="Since when the vendor answers 401 to it.", null=True
                            ),
                        ),
                        (
                            "used_at",
                            models.DateTimeField(help_text="About when it was last sent.", null=True),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="Vendor",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("slug", models.SlugField(max_length=60, verbose_name="Address")),
                        ("name", models.CharField(max_length=120, verbose_name="Name")),
                        (
                            "homepage",
                            models.URLField(
                                blank=True,
                                help_text="Where a person can read about them.",
                                max_length=500,
                                verbose_name="Homepage",
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "renamed_at",
                            models.DateTimeField(
                                editable=False, help_text="What the search index compares.", null=True
                            ),
                        ),
                        ("is_own", models.BooleanField(db_default=False, default=False, editable=False)),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("slug",),
                                name="one_live_vendor_per_slug",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("is_own", True)),
                                fields=("is_own",),
                                name="one_home_of_definitions",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SearchLexeme",
                    fields=[
                        ("id", models.AutoField(primary_key=True, serialize=False)),
                        ("text", models.TextField(db_collation="C")),
                        ("found_in", models.IntegerField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("text",), name="one_search_lexeme_per_text")
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
                migrations.CreateModel(
                    name="FingerprintKey",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.UUID("5ea1ed00-0000-4000-8000-000000000001"),
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
                    name="Grant",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "token_url",
                            models.CharField(
                                help_text="The token endpoint. The client secret is sent only to this address.",
                                max_length=2048,
                                verbose_name="Token address",
                            ),
                        ),
                        (
                            "authorization_url",
                            models.CharField(
                                blank=True,
                                help_text="Where your browser goes to sign in (the authorization endpoint).",
                                max_length=2048,
                                verbose_name="Sign-in address",
                            ),
                        ),
                        (
                            "issuer",
                            models.CharField(
                                blank=True,
                                help_text="The identifier of the authorization server. Pegboard compares it exactly.",
                                max_length=500,
                                verbose_name="Issuer",
                            ),
                        ),
                        (
                            "states_issuer",
                            models.BooleanField(
                                default=False,
                                help_text="The server promises to name itself in the reply to a sign-in (RFC 9207).",
                                verbose_name="Refuse a reply that does not name the issuer",
                            ),
                        ),
                        ("client_id", models.CharField(max_length=500, verbose_name="Client id")),
                        (
                            "client_authentication",
                            models.CharField(
                                choices=[
                                    ("basic", "In a header (client_secret_basic)"),
                                    ("post", "In the request's body (client_secret_post)"),
                                    ("key", "With a signed statement (private_key_jwt)"),
                                    ("none", "Not at all: a public client without a secret"),
                                ],
                                default="basic",
                                max_length=10,
                                verbose_name="How the client proves who it is",
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                blank=True,
                                help_text="With spaces between them.",
                                max_length=2000,
                                verbose_name="Scopes",
                            ),
                        ),
                        (
                            "resource",
                            models.CharField(
                                blank=True,
                                help_text="What the tokens are for (RFC 8707), usually the vendor's address.",
                                max_length=2048,
                                verbose_name="Resource",
                            ),
                        ),
                        (
                            "audience",
                            models.CharField(
                                blank=True,
                                help_text="If the vendor requires it.",
                                max_length=500,
                                verbose_name="Audience",
                            ),
                        ),
                        (
                            "parameters",
                            models.JSONField(
                                blank=True,
                                default=dict,
                                help_text="One name=value on each line, as the vendor documents them.",
                                verbose_name="More parameters",
                            ),
                        ),
                        ("generation", models.PositiveIntegerField(default=0)),
                        ("access_token", core.encryption.EncryptedField(blank=True)),
                        ("access_key_id", core.encryption.KeyIdField("access_token")),
                        ("refresh_token", core.encryption.EncryptedField(blank=True)),
                        ("refresh_key_id", core.encryption.KeyIdField("refresh_token")),
                        ("obtained_at", models.DateTimeField(null=True)),
                        (
                            "expires_at",
                            models.DateTimeField(
                                help_text="Empty with a token: it lives until it is refused.", null=True
                            ),
                        ),
                        ("renew_at", models.DateTimeField(null=True)),
                        ("used_at", models.DateTimeField(null=True)),
                        ("granted_scope", models.CharField(blank=True, max_length=4000)),
                        ("signed_in_at", models.DateTimeField(null=True)),
                        ("lease", models.UUIDField(null=True)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("retry_at", models.DateTimeField(null=True)),
                        ("failed_at", models.DateTimeField(null=True)),
                        ("error_code", models.CharField(blank=True, max_length=40)),
                        ("error_message", models.CharField(blank=True, max_length=1000)),
                        (
                            "ended_at",
                            models.DateTimeField(
                                help_text="Since when a person has to sign in again.", null=True
                            ),
                        ),
                        (
                            "refused_at",
                            models.DateTimeField(
                                help_text="Since when a person has to look at this.", null=True
                            ),
                        ),
                        (
                            "credential",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="grant",
                                to="catalog.credential",
                            ),
                        ),
                        (
                            "signed_in_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "registered_at",
                            models.DateTimeField(
                                help_text="When the server made this client because we asked it to (RFC 7591).",
                                null=True,
                            ),
                        ),
                        (
                            "revocation_url",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Notified when Pegboard deletes tokens (RFC 7009). At the same host as the token address, or empty.",
                                max_length=2048,
                                verbose_name="Revocation address",
                            ),
                        ),
                        (
                            "secret_expires_at",
                            models.DateTimeField(help_text="Of a client that we registered.", null=True),
                        ),
                        (
                            "wanted_scope",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="What the vendor wants a token to have beyond that (RFC 6750, insufficient_scope).",
                                max_length=2000,
                            ),
                        ),
                        (
                            "public_key",
                            models.JSONField(
                                help_text="What the server knows us by that signs what we say (RFC 7517).",
                                null=True,
                            ),
                        ),
                        (
                            "token_note",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="What was odd in the reply that brought the token.",
                                max_length=300,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ended_at", None), ("refused_at", None)),
                                fields=["renew_at"],
                                name="grant_to_renew",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SignIn",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("session_digest", models.CharField(max_length=64)),
                        ("state_digest", models.CharField(max_length=64, unique=True)),
                        ("verifier", core.encryption.EncryptedField()),
                        ("verifier_key_id", core.encryption.KeyIdField("verifier")),
                        ("redirect_uri", models.CharField(max_length=2048)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "credential",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="sign_ins",
                                to="catalog.credential",
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
                        (
                            "scope",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="What is asked for this time.",
                                max_length=2000,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["created_at"], name="sign_in_created")],
                    },
                ),
                migrations.CreateModel(
                    name="CallId",
                    fields=[
                        ("key", models.UUIDField(primary_key=True, serialize=False)),
                        ("digest", models.CharField(max_length=64)),
                        (
                            "made_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(), db_index=True
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="EndUser",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("agent", models.BigIntegerField()),
                        ("digest", models.CharField(max_length=64)),
                        ("sealed", core.encryption.EncryptedField()),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        (
                            "first_seen_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("last_seen_at", models.DateTimeField(help_text="To the day.", null=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "digest"), name="one_row_per_end_user")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="IndexQueueEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("tool_id", models.BigIntegerField()),
                        ("endpoint_id", models.BigIntegerField()),
                        (
                            "queued_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "index queue entries",
                        "indexes": [
                            models.Index(fields=["endpoint_id", "id"], name="index_queue_by_endpoint")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Picture",
                    fields=[
                        ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                        ("content", models.BinaryField()),
                        ("made_at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                ),
                migrations.CreateModel(
                    name="Endpoint",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "protocol",
                            models.CharField(
                                choices=protocols.choices, max_length=20, verbose_name="Protocol"
                            ),
                        ),
                        ("url", models.CharField(max_length=2048, verbose_name="Address")),
                        (
                            "name",
                            models.CharField(
                                blank=True,
                                help_text="To tell it apart when a vendor has several.",
                                max_length=120,
                                verbose_name="Name",
                            ),
                        ),
                        ("settings", models.JSONField(blank=True, default=dict)),
                        (
                            "interval_minutes",
                            models.PositiveIntegerField(
                                default=60,
                                help_text="How often Pegboard looks for new and changed tools.",
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(10080),
                                ],
                                verbose_name="Sync interval",
                            ),
                        ),
                        ("is_paused", models.BooleanField(default=False)),
                        ("next_due_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("error_code", models.CharField(blank=True, max_length=40)),
                        ("error_message", models.TextField(blank=True)),
                        ("last_success_at", models.DateTimeField(blank=True, null=True)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "credential",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="endpoints",
                                to="catalog.credential",
                            ),
                        ),
                        (
                            "held_run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="catalog.run",
                            ),
                        ),
                        (
                            "vendor",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="endpoints",
                                to="catalog.vendor",
                            ),
                        ),
                        ("memory", models.JSONField(blank=True, default=dict, editable=False)),
                        ("policy", models.JSONField(blank=True, default=dict)),
                        (
                            "authorities",
                            models.TextField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="For a vendor with a certificate of a private authority, in PEM format. The endpoint then trusts no other authority. Empty: the well-known authorities.",
                                max_length=65536,
                                verbose_name="Certificates of your own authority",
                            ),
                        ),
                        (
                            "requests_at_once",
                            models.PositiveSmallIntegerField(
                                db_default=100,
                                default=100,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(1000),
                                ],
                                verbose_name="Requests at once, at most",
                            ),
                        ),
                        (
                            "requests_per_second",
                            models.PositiveSmallIntegerField(
                                db_default=300,
                                default=300,
                                help_text="For all workers together. Enter the limit of the vendor, if there is one.",
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(1000),
                                ],
                                verbose_name="Requests per second, at most",
                            ),
                        ),
                        (
                            "max_megabytes",
                            models.PositiveIntegerField(
                                db_default=256,
                                default=256,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(4096),
                                ],
                                verbose_name="Megabytes of all replies of one sync",
                            ),
                        ),
                        (
                            "max_minutes",
                            models.PositiveIntegerField(
                                db_default=60,
                                default=60,
                                help_text="Pegboard syncs a long list in parts.",
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(1440),
                                ],
                                verbose_name="Minutes for a sync, at most",
                            ),
                        ),
                        (
                            "max_reply_megabytes",
                            models.PositiveIntegerField(
                                db_default=32,
                                default=32,
                                help_text="One page of the list, or the whole document.",
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(256),
                                ],
                                verbose_name="Megabytes of one reply",
                            ),
                        ),
                        (
                            "max_tools",
                            models.PositiveIntegerField(
                                db_default=100000,
                                default=100000,
                                validators=[
                                    django.core.validators.MinValueValidator(1),
                                    django.core.validators.MaxValueValidator(1000000),
                                ],
                                verbose_name="Tools in the list, at most",
                            ),
                        ),
                        ("retry", models.JSONField(blank=True, db_default={}, default=dict)),
                        (
                            "read_revision",
                            models.PositiveSmallIntegerField(
                                db_default=1,
                                default=1,
                                editable=False,
                                help_text="Of the reader of the last complete run.",
                            ),
                        ),
                        ("history_lease_until", models.DateTimeField(blank=True, editable=False, null=True)),
                    ],
                    options={
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("is_paused", False), ("removed_at", None)),
                                fields=["next_due_at"],
                                name="endpoint_due",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("queued", "Waiting to start"),
                                    ("running", "Reading"),
                                    ("succeeded", "Done"),
                                    ("failed", "Failed"),
                                ],
                                default="queued",
                                max_length=10,
                            ),
                        ),
                        (
                            "trigger",
                            models.CharField(
                                choices=[
                                    ("schedule", "On schedule"),
                                    ("person", "Started by a user"),
                                    ("command", "Started from the command line"),
                                    ("runtime", "Requested by a runtime, one tool"),
                                ],
                                default="schedule",
                                max_length=10,
                            ),
                        ),
                        (
                            "may_withdraw",
                            models.PositiveIntegerField(
                                help_text="A person has confirmed that up to this many tools may go.",
                                null=True,
                            ),
                        ),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("lease_until", models.DateTimeField(null=True)),
                        (
                            "queued_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("pages", models.PositiveIntegerField(default=0)),
                        ("seen", models.PositiveIntegerField(default=0)),
                        ("added", models.PositiveIntegerField(default=0)),
                        ("changed", models.PositiveIntegerField(default=0)),
                        ("unchanged", models.PositiveIntegerField(default=0)),
                        ("withdrawn", models.PositiveIntegerField(default=0)),
                        ("would_withdraw", models.PositiveIntegerField(default=0)),
                        ("returned", models.PositiveIntegerField(default=0)),
                        ("rejected", models.PositiveIntegerField(default=0)),
                        ("notes", models.JSONField(default=list)),
                        ("error_code", models.CharField(blank=True, max_length=40)),
                        ("error_message", models.TextField(blank=True)),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="catalog.endpoint",
                            ),
                        ),
                        (
                            "requested_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "inspected",
                            models.PositiveSmallIntegerField(
                                default=0,
                                help_text="The revision of the rules that its versions were inspected with.",
                            ),
                        ),
                        (
                            "reached",
                            models.JSONField(
                                db_default=models.Value({}, output_field=models.JSONField()),
                                default=dict,
                                help_text="Private addresses that were dialled, and the deployment's entry that opens each.",
                            ),
                        ),
                        (
                            "in_parts",
                            models.BooleanField(
                                db_column="put_aside",
                                db_default=False,
                                default=False,
                                help_text="A part of it has been read, and it goes on among the slow runs.",
                            ),
                        ),
                        (
                            "passes",
                            models.JSONField(
                                db_column="readings",
                                db_default=models.Value([], output_field=models.JSONField()),
                                default=list,
                                help_text="A digest of what each whole pass over a list saw that seems to have changed meanwhile.",
                            ),
                        ),
                        (
                            "inspecting",
                            models.PositiveSmallIntegerField(
                                db_default=0,
                                default=0,
                                help_text="The revision of the inspection that has begun and has not ended.",
                            ),
                        ),
                        (
                            "inspected_through",
                            models.BigIntegerField(
                                db_default=0,
                                default=0,
                                help_text="The last version that this inspection has covered.",
                            ),
                        ),
                        (
                            "spoken_protocol",
                            models.CharField(blank=True, db_default="", default="", max_length=20),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["endpoint", "-id"], name="run_by_endpoint"),
                            models.Index(
                                condition=models.Q(
                                    ("status", "succeeded"),
                                    models.Q(("added__gt", 0), ("changed__gt", 0), _connector="OR"),
                                ),
                                fields=["inspected", "id"],
                                name="run_to_inspect",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("added__gt", 0),
                                    ("changed__gt", 0),
                                    ("withdrawn__gt", 0),
                                    ("returned__gt", 0),
                                    _connector="OR",
                                ),
                                fields=["endpoint", "-id"],
                                name="run_with_changes",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("status__in", ["queued", "running"])),
                                fields=("endpoint",),
                                name="one_active_run_per_endpoint",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("status__in", ["queued", "running", "succeeded", "failed"])
                                ),
                                name="run_status_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Rejection",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("tool", models.CharField(max_length=300)),
                        ("code", models.CharField(max_length=40)),
                        ("reason", models.TextField()),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rejections",
                                to="catalog.run",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                    },
                ),
                migrations.CreateModel(
                    name="KnownPage",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("reader", models.CharField(max_length=40)),
                        ("cursor", models.TextField()),
                        ("next_cursor", models.TextField(null=True)),
                        ("etag", models.TextField(blank=True)),
                        ("body_digest", models.CharField(max_length=64)),
                        (
                            "tool_ids",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), size=None
                            ),
                        ),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="known_pages",
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                models.F("endpoint"),
                                django.db.models.functions.text.MD5("cursor"),
                                name="one_known_page_per_cursor",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SearchSegment",
                    fields=[
                        ("id", models.AutoField(primary_key=True, serialize=False)),
                        (
                            "documents",
                            models.PositiveIntegerField(
                                help_text="How many it was made of; some may have moved on."
                            ),
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
                        (
                            "home",
                            models.BigIntegerField(
                                help_text="The endpoint; 0 when several share the segment."
                            ),
                        ),
                        ("count", models.IntegerField()),
                        (
                            "documents",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.IntegerField(), size=None
                            ),
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
                    name="EndpointDocument",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=40)),
                        ("text", models.TextField()),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="stored_documents",
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("endpoint", "name"), name="one_document_per_setting"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Circuit",
                    fields=[
                        (
                            "endpoint",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="circuit",
                                serialize=False,
                                to="catalog.endpoint",
                            ),
                        ),
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("open_until", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="LastReply",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("method", models.CharField(max_length=10)),
                        ("url", models.TextField()),
                        ("status", models.PositiveSmallIntegerField()),
                        ("headers", models.JSONField(default=dict)),
                        ("body", models.TextField(blank=True)),
                        (
                            "run",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="last_reply",
                                to="catalog.run",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "last replies",
                    },
                ),
                migrations.CreateModel(
                    name="SecondLook",
                    fields=[
                        (
                            "endpoint",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="second_look",
                                serialize=False,
                                to="catalog.endpoint",
                            ),
                        ),
                        ("is_off", models.BooleanField(db_default=False, default=False)),
                        ("due_at", models.DateTimeField()),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("tries", models.PositiveSmallIntegerField(default=0)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("looked_at", models.DateTimeField(null=True)),
                        (
                            "result",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("same", "Same for other clients"),
                                    ("other", "Different for other clients"),
                                    ("unsure", "Not clear"),
                                    ("nothing", "Nothing to compare"),
                                    ("failed", "Failed"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("says", models.TextField(blank=True)),
                        (
                            "requested_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("is_on", models.BooleanField(db_default=False, default=False)),
                        (
                            "other_name",
                            models.CharField(blank=True, db_default="", default="", max_length=100),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["due_at"], name="second_look_due")],
                    },
                ),
                migrations.CreateModel(
                    name="KeptReply",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("reader", models.CharField(max_length=40)),
                        ("request", models.CharField(max_length=64)),
                        ("url", models.TextField()),
                        ("status", models.PositiveSmallIntegerField()),
                        ("headers", models.JSONField()),
                        ("body", models.BinaryField(help_text="Compressed with zlib.")),
                        ("since", models.DateTimeField()),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="kept_replies",
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "kept replies",
                        "indexes": [models.Index(fields=["since"], name="kept_reply_since")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("endpoint", "request"), name="one_kept_reply_per_request"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="VendorRequest",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("protocol", models.CharField(max_length=20, verbose_name="Protocol")),
                        (
                            "url",
                            models.CharField(
                                help_text="The address of the vendor's tools, without keys and passwords. An administrator adds them.",
                                max_length=2048,
                                verbose_name="Address",
                            ),
                        ),
                        ("address", models.CharField(max_length=2048)),
                        ("vendor_name", models.CharField(max_length=120, verbose_name="Name of the vendor")),
                        (
                            "reason",
                            models.TextField(
                                help_text="The administrator who decides reads this.",
                                max_length=2000,
                                verbose_name="Reason for the request",
                            ),
                        ),
                        ("asked_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("approved", "Connected"),
                                    ("declined", "Declined"),
                                ],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("answer", models.TextField(blank=True, max_length=2000, verbose_name="Reason")),
                        ("answered_at", models.DateTimeField(null=True)),
                        (
                            "answered_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
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
                            "endpoint",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "vendor request",
                        "ordering": ["-id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state", "waiting")),
                                fields=("protocol", "address"),
                                name="one_waiting_request_per_address",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EndpointSecret",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "name",
                            models.CharField(
                                help_text="The name that tools use for the secret.",
                                max_length=500,
                                verbose_name="Name",
                            ),
                        ),
                        ("sealed", core.encryption.EncryptedField()),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        ("fingerprint", models.CharField(max_length=16)),
                        ("origin", models.CharField(max_length=300)),
                        ("set_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="secrets",
                                to="catalog.endpoint",
                            ),
                        ),
                        (
                            "set_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name"],
                        "constraints": [
                            models.UniqueConstraint(fields=("endpoint", "name"), name="one_secret_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ProviderClient",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("provider", models.CharField(max_length=500)),
                        (
                            "credential",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="provider_clients",
                                to="catalog.credential",
                            ),
                        ),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="provider_clients",
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["provider"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("endpoint", "provider"), name="one_client_per_provider"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ListFetch",
                    fields=[
                        ("claim", models.UUIDField(null=True)),
                        ("claimed_until", models.DateTimeField(null=True)),
                        ("read_at", models.DateTimeField(null=True)),
                        ("next_at", models.DateTimeField(null=True)),
                        ("error_code", models.CharField(blank=True, max_length=40)),
                        ("error_message", models.TextField(blank=True)),
                        (
                            "endpoint",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="last_fetch",
                                serialize=False,
                                to="catalog.endpoint",
                            ),
                        ),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Tool",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("tool_id", models.CharField(max_length=255)),
                        (
                            "status",
                            models.CharField(
                                choices=[("active", "Active"), ("withdrawn", "Withdrawn")],
                                default="active",
                                max_length=10,
                            ),
                        ),
                        ("name", models.TextField()),
                        ("title", models.TextField(blank=True)),
                        ("description", models.TextField(blank=True)),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), default=list, size=None
                            ),
                        ),
                        ("tokens", models.PositiveIntegerField(default=0)),
                        ("version_count", models.PositiveIntegerField(default=1)),
                        ("first_seen_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("versions_read_at", models.DateTimeField(null=True)),
                        (
                            "endpoint",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tools",
                                to="catalog.endpoint",
                            ),
                        ),
                        (
                            "current",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="current_of",
                                to="catalog.toolversion",
                            ),
                        ),
                        (
                            "stopped",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="stopped_of",
                                to="catalog.toolversion",
                            ),
                        ),
                        ("is_tuned", models.BooleanField(db_default=False, default=False)),
                        ("worded_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["id"],
                        "indexes": [
                            models.Index(
                                django.db.models.functions.text.Lower(
                                    django.db.models.functions.text.Left("name", 100)
                                ),
                                models.F("id"),
                                name="tool_by_name",
                            ),
                            models.Index(fields=["-changed_at", "-id"], name="tool_by_change"),
                            django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="tool_by_tag"),
                            models.Index(fields=["tokens", "id"], name="tool_by_tokens"),
                            models.Index(
                                condition=models.Q(("status", "withdrawn")),
                                fields=["id"],
                                name="tool_withdrawn",
                            ),
                            models.Index(
                                fields=["endpoint", "id"], include=("status",), name="tool_by_endpoint"
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("is_tuned", True), ("worded_at__isnull", False), _connector="OR"
                                ),
                                fields=["-worded_at"],
                                name="tool_by_words",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("endpoint", "tool_id"), name="one_tool_per_vendor_id"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ToolVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("ordinal", models.PositiveIntegerField()),
                        ("label", models.CharField(blank=True, max_length=100)),
                        (
                            "label_key",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), default=list, size=None
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                        ("signature", models.TextField()),
                        ("raw", models.TextField()),
                        ("tokens", models.PositiveIntegerField(db_default=0, default=0)),
                        ("first_seen_at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "run",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="versions",
                                to="catalog.run",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="versions",
                                to="catalog.tool",
                            ),
                        ),
                        ("rewrite", models.PositiveSmallIntegerField(db_default=0, default=0)),
                        ("alarms", models.TextField(editable=False, null=True)),
                    ],
                    options={
                        "ordering": ["-label_key", "-ordinal"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("label", ""), _negated=True),
                                fields=["label", "id"],
                                name="version_by_label",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tool", "ordinal"), name="one_version_per_ordinal"
                            ),
                            models.UniqueConstraint(
                                fields=("tool", "label", "digest"), name="one_version_per_content"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Finding",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("code", models.CharField(max_length=40)),
                        (
                            "severity",
                            models.CharField(
                                choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                                max_length=10,
                            ),
                        ),
                        ("subject", models.CharField(max_length=100)),
                        ("message", models.TextField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "Waiting for review"),
                                    ("accepted", "Accepted"),
                                    ("blocked", "Blocked"),
                                    ("noted", "Noted"),
                                ],
                                default="open",
                                max_length=10,
                            ),
                        ),
                        ("note", models.TextField(blank=True)),
                        ("raised_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("resolved_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="findings",
                                to="catalog.endpoint",
                            ),
                        ),
                        (
                            "resolved_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="findings",
                                to="catalog.run",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="findings",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="findings",
                                to="catalog.toolversion",
                            ),
                        ),
                        (
                            "against",
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
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "open")), fields=["-id"], name="finding_open"
                            ),
                            models.Index(
                                models.OrderBy(
                                    models.Case(
                                        models.When(severity="high", code="HELD", then=5),
                                        models.When(severity="high", then=6),
                                        models.When(severity="medium", code="HELD", then=3),
                                        models.When(severity="medium", then=4),
                                        models.When(code="HELD", then=1),
                                        default=2,
                                        output_field=models.SmallIntegerField(),
                                    ),
                                    descending=True,
                                ),
                                models.OrderBy(models.F("id"), descending=True),
                                name="finding_by_weight",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tool", "code", "subject"), name="one_finding_per_subject"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Withdrawal",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField(default=django.utils.timezone.now)),
                        (
                            "returned_run",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="returns",
                                to="catalog.run",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="withdrawals",
                                to="catalog.run",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="withdrawals",
                                to="catalog.tool",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("returned_run", None)),
                                fields=("tool",),
                                name="one_open_withdrawal_per_tool",
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
                        (
                            "worded_at",
                            models.DateTimeField(
                                help_text="That of the tool whose words were indexed.", null=True
                            ),
                        ),
                        (
                            "renamed_at",
                            models.DateTimeField(
                                help_text="That of the vendor whose name was indexed.", null=True
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
                    name="Likeness",
                    fields=[
                        (
                            "tool",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="likeness",
                                serialize=False,
                                to="catalog.tool",
                            ),
                        ),
                        ("spelling", models.BigIntegerField()),
                        ("skeleton", models.BigIntegerField(db_index=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Example",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=100)),
                        ("arguments", models.JSONField(default=dict)),
                        ("created_name", models.CharField(max_length=150)),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
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
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="examples",
                                to="catalog.tool",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("tool", "name"), name="one_example_per_name")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OtherAnswer",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "client",
                            models.CharField(
                                choices=[
                                    ("stranger", "a client without our credential"),
                                    ("client", "another client than Pegboard"),
                                ],
                                db_column="guise",
                                max_length=10,
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                        ("signature", models.TextField()),
                        ("raw", models.TextField()),
                        (
                            "finding",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="other_answer",
                                to="catalog.finding",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="ToolCircuit",
                    fields=[
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("open_until", models.DateTimeField(null=True)),
                        (
                            "tool",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="circuit",
                                serialize=False,
                                to="catalog.tool",
                            ),
                        ),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Thread",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False)),
                        ("agent", models.BigIntegerField(db_index=True, null=True)),
                        ("release", models.PositiveIntegerField(null=True)),
                        ("sub_agent", models.CharField(blank=True, max_length=60)),
                        ("requested_name", models.CharField(max_length=150)),
                        ("remote_id", models.CharField(blank=True, max_length=255)),
                        ("metadata", models.JSONField(default=dict)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("idle", "Idle"),
                                    ("busy", "Busy"),
                                    ("interrupted", "Waits for an answer"),
                                    ("error", "Failed"),
                                ],
                                default="idle",
                                max_length=12,
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "used_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
                        (
                            "api_key",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="people.apikey",
                            ),
                        ),
                        (
                            "requested_by",
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
                                related_name="threads",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-id"],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("status__in", ["idle", "busy", "interrupted", "error"])),
                                name="thread_status_known",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("agent__isnull", False)),
                                fields=("agent", "key"),
                                name="one_thread_per_key_in_agent",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("agent__isnull", True)),
                                fields=("requested_by", "key"),
                                name="one_tried_thread_per_key",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ToolFetch",
                    fields=[
                        (
                            "tool",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="last_fetch",
                                serialize=False,
                                to="catalog.tool",
                            ),
                        ),
                        ("claim", models.UUIDField(null=True)),
                        ("claimed_until", models.DateTimeField(null=True)),
                        ("read_at", models.DateTimeField(null=True)),
                        ("next_at", models.DateTimeField(null=True)),
                        ("error_code", models.CharField(blank=True, max_length=40)),
                        ("error_message", models.TextField(blank=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Configuration",
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
                                help_text="Saving other values under the same name adds a version.",
                                max_length=60,
                                verbose_name="Name",
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("values", models.JSONField()),
                        ("created_name", models.CharField(max_length=150)),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
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
                                related_name="configurations",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "-number"],
                        "constraints": [
                            models.UniqueConstraint(
                                models.F("tool"),
                                django.db.models.functions.text.Lower("name"),
                                models.F("number"),
                                name="one_configuration_per_number",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ListedDocument",
                    fields=[
                        (
                            "tool",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="listed",
                                serialize=False,
                                to="catalog.tool",
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                        ("raw", models.TextField()),
                        ("listed_at", models.DateTimeField()),
                    ],
                ),
                migrations.CreateModel(
                    name="WaitingDecision",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "finding",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="waiting_decision",
                                to="catalog.finding",
                            ),
                        ),
                        (
                            "tool",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="catalog.tool",
                            ),
                        ),
                        ("subject", models.CharField(max_length=100)),
                        (
                            "endpoint",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="catalog.endpoint",
                            ),
                        ),
                        (
                            "severity",
                            models.CharField(
                                choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                                max_length=10,
                            ),
                        ),
                        ("code", models.CharField(max_length=40)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["endpoint", "severity", "code", "finding"],
                                name="waiting_decision_groups",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tool", "subject"), name="one_waiting_decision_per_subject"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ToolPicture",
                    fields=[
                        (
                            "tool",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="tool_picture",
                                serialize=False,
                                to="catalog.tool",
                            ),
                        ),
                        ("address", models.TextField()),
                        (
                            "next_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                default=django.utils.timezone.now,
                            ),
                        ),
                        ("failures", models.PositiveSmallIntegerField(db_default=0, default=0)),
                        ("error_code", models.CharField(blank=True, db_default="", max_length=40)),
                        ("error_message", models.TextField(blank=True, db_default="")),
                        (
                            "picture",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="tool_pictures",
                                to="catalog.picture",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["next_at"], name="tool_picture_by_time")],
                    },
                ),
                migrations.CreateModel(
                    name="Call",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                        ("requested_name", models.CharField(max_length=150)),
                        ("arguments", models.JSONField(default=dict)),
                        ("answers", models.JSONField(default=dict)),
                        ("deadline_seconds", models.PositiveIntegerField(default=30)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("queued", "Waiting for a worker"),
                                    ("running", "Running"),
                                    ("finished", "Done"),
                                ],
                                default="queued",
                                max_length=10,
                            ),
                        ),
                        (
                            "queued_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("gives_up_at", models.DateTimeField()),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("outcome", models.CharField(blank=True, max_length=24)),
                        ("error_code", models.CharField(blank=True, max_length=60)),
                        ("duration_ms", models.PositiveIntegerField(null=True)),
                        ("result", models.TextField(blank=True)),
                        (
                            "continues",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="continued_by",
                                to="catalog.call",
                            ),
                        ),
                        (
                            "requested_by",
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
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="calls",
                                to="catalog.tool",
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                        ("agent", models.BigIntegerField(null=True)),
                        ("release", models.PositiveIntegerField(null=True)),
                        (
                            "api_key",
                            models.ForeignKey(
                                db_column="token_id",
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="people.apikey",
                            ),
                        ),
                        ("sub_agent", models.CharField(blank=True, db_default="", default="", max_length=60)),
                        (
                            "on_behalf_of",
                            models.CharField(blank=True, db_default="", default="", max_length=64),
                        ),
                        ("resumes_when_granted", models.BooleanField(db_default=False, default=False)),
                        ("retry", models.JSONField(db_default={}, default=dict)),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("wait", "Waited for"),
                                    ("async", "In the background"),
                                    ("stream", "Followed as it goes"),
                                ],
                                db_default="wait",
                                default="wait",
                                max_length=10,
                            ),
                        ),
                        (
                            "remote_run",
                            models.CharField(blank=True, db_default="", default="", max_length=255),
                        ),
                        ("site", models.TextField(blank=True, db_default="", default="")),
                        (
                            "thread",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="calls",
                                to="catalog.thread",
                            ),
                        ),
                        ("reasoning", models.TextField(blank=True, db_default="", default="")),
                        ("mark", models.CharField(blank=True, db_default="", default="", max_length=255)),
                        (
                            "activity",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="calls",
                                to="catalog.activityversion",
                            ),
                        ),
                        (
                            "environment",
                            models.CharField(blank=True, db_default="", default="", max_length=60),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="steps",
                                to="catalog.call",
                            ),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
                        ("idempotency_key", models.CharField(max_length=255, null=True)),
                    ],
                    options={
                        "ordering": ["-id"],
                        "indexes": [
                            models.Index(fields=["tool", "-id"], name="call_by_tool"),
                            models.Index(
                                condition=models.Q(("status__in", ["queued", "running"])),
                                fields=["gives_up_at"],
                                name="call_active",
                            ),
                            models.Index(
                                condition=models.Q(("resumes_when_granted", True)),
                                fields=["agent", "on_behalf_of"],
                                name="call_resumes",
                            ),
                            models.Index(
                                condition=models.Q(("thread__isnull", False)),
                                fields=["thread", "-id"],
                                name="call_by_thread",
                            ),
                            models.Index(
                                condition=models.Q(("activity__isnull", False)),
                                fields=["activity", "-id"],
                                name="call_by_activity",
                            ),
                            models.Index(
                                condition=models.Q(("parent__isnull", False)),
                                fields=["parent"],
                                name="call_by_parent",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("parent__isnull", True), ("status__in", ["queued", "running"])
                                ),
                                fields=["requested_by"],
                                name="call_under_way",
                            ),
                            models.Index(
                                condition=models.Q(("idempotency_key__isnull", False)),
                                fields=["idempotency_key", "-id"],
                                name="call_by_idempotency_key",
                            ),
                            models.Index(
                                django.db.models.functions.comparison.Coalesce(
                                    "api_key",
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("requested_by"), "*", models.Value(-1)
                                    ),
                                    models.Value(0),
                                ),
                                models.F("queued_at"),
                                models.F("id"),
                                condition=models.Q(("status", "queued")),
                                name="call_by_owner",
                            ),
                            models.Index(
                                condition=models.Q(("sent_at__isnull", False), ("status", "running")),
                                fields=["gives_up_at"],
                                name="call_at_worker",
                            ),
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("status__in", ["queued", "running", "finished"])),
                                name="call_status_known",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("status__in", ["queued", "running"])),
                                fields=("continues",),
                                name="one_active_continuation_per_call",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    (
                                        "outcome__in",
                                        [
                                            "",
                                            "ok",
                                            "tool_error",
                                            "invalid_arguments",
                                            "needs_authorization",
                                            "needs_input",
                                            "unavailable",
                                            "refused",
                                            "cancelled",
                                            "latent",
                                            "unknown",
                                        ],
                                    )
                                ),
                                name="call_outcome_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UserGrant",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("provider", models.CharField(max_length=500)),
                        ("scopes", models.TextField(blank=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "Waiting for the user"),
                                    ("completed", "Authorized"),
                                    ("failed", "Refused"),
                                    ("expired", "Not answered in time"),
                                ],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("url", models.CharField(blank=True, max_length=2048)),
                        ("check_url", models.CharField(blank=True, max_length=2048)),
                        (
                            "opened_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "expires_at",
                            models.DateTimeField(help_text="Until when the user may answer.", null=True),
                        ),
                        ("settled_at", models.DateTimeField(null=True)),
                        (
                            "message",
                            models.CharField(
                                blank=True, help_text="What the last look at it met.", max_length=300
                            ),
                        ),
                        ("next_check_at", models.DateTimeField(null=True)),
                        ("checks", models.PositiveIntegerField(default=0)),
                        ("resumes", models.BooleanField(default=False)),
                        ("link_digest", models.CharField(blank=True, db_index=True, max_length=64)),
                        ("state_digest", models.CharField(blank=True, max_length=64)),
                        ("verifier", core.encryption.EncryptedField(blank=True)),
                        ("verifier_key_id", core.encryption.KeyIdField("verifier")),
                        ("access_token", core.encryption.EncryptedField(blank=True)),
                        ("access_key_id", core.encryption.KeyIdField("access_token")),
                        ("refresh_token", core.encryption.EncryptedField(blank=True)),
                        ("refresh_key_id", core.encryption.KeyIdField("refresh_token")),
                        ("token_expires_at", models.DateTimeField(null=True)),
                        ("generation", models.PositiveIntegerField(default=0)),
                        ("lease_until", models.DateTimeField(null=True)),
                        (
                            "call",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="catalog.call",
                            ),
                        ),
                        (
                            "credential",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.credential",
                            ),
                        ),
                        (
                            "end_user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="grants",
                                to="catalog.enduser",
                            ),
                        ),
                        (
                            "endpoint",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="user_grants",
                                to="catalog.endpoint",
                            ),
                        ),
                        ("asked", models.PositiveIntegerField(db_default=0, default=0)),
                        ("granted_scopes", models.TextField(null=True)),
                        ("sent_scopes", models.TextField(null=True)),
                    ],
                    options={
                        "ordering": ["-opened_at", "id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "pending")),
                                fields=["next_check_at"],
                                name="user_grant_to_check",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("end_user", "endpoint", "provider"),
                                name="one_grant_per_user_and_provider",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("state__in", ["pending", "completed", "failed", "expired"])
                                ),
                                name="user_grant_state_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Activity",
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
                                help_text="Shown in lists and environments, such as “Send mail with Larkspur”.",
                                max_length=150,
                                verbose_name="Name",
                            ),
                        ),
                        ("agent", models.BigIntegerField(null=True)),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
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
                            "current",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.activityversion",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("agent", None), ("removed_at", None)),
                                fields=("name",),
                                name="one_live_activity_per_name",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("agent__isnull", False), ("removed_at", None)),
                                fields=("agent", "tool"),
                                name="one_live_activity_per_tool_in_agent",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ActivityVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("kind", models.CharField(max_length=20)),
                        ("config", models.JSONField(default=dict)),
                        ("digest", models.CharField(max_length=64)),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "activity",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="versions",
                                to="catalog.activity",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "interface",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.toolversion",
                            ),
                        ),
                        ("is_by_administrator", models.BooleanField(db_default=False, default=False)),
                    ],
                    options={
                        "ordering": ["-number"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("activity", "number"), name="one_activity_version_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ActivityCallee",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "callee",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="catalog.activityversion",
                            ),
                        ),
                        (
                            "caller",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="callees",
                                to="catalog.activityversion",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("caller", "callee"), name="one_activity_callee_per_caller"
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
                    model_name="toolversion",
                    name="tokens",
                ),
                migrations.RemoveField(
                    model_name="secondlook",
                    name="is_off",
                ),
            ],
        ),
        migrations.RunSQL(UNCHANGEABLE),
        migrations.RunSQL(SIMILAR_WORDS),
        migrations.RunSQL(SPACE_FOR_UPDATES),
        migrations.RunSQL(INDEX_QUEUE),
        migrations.RunSQL(WAITING_DECISIONS),
    ]
