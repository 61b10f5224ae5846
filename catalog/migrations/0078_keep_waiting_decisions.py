import django.db.models.deletion
from django.db import migrations, models

# A statement that changes findings first locks the decision about each tool and subject concerned, or creates it.
# Concurrent statements about the same bytes wait for each other there, and the next statements read what the
# others have committed. The order of the heaviest is `WEIGHT` of catalog/models/findings.py.
TRIGGERS = """
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

SELECT pegboard_settle_decisions(array_agg(id), array_agg(tool_id), array_agg(subject)) FROM (
    SELECT max(id) AS id, tool_id, subject FROM catalog_finding WHERE state = 'open' GROUP BY tool_id, subject
) waiting HAVING count(*) > 0;
"""
NO_TRIGGERS = """
DROP TRIGGER catalog_finding_settle_deleted ON catalog_finding;
DROP TRIGGER catalog_finding_settle_changed ON catalog_finding;
DROP TRIGGER catalog_finding_settle_new ON catalog_finding;
DROP FUNCTION pegboard_settle_deleted_findings();
DROP FUNCTION pegboard_settle_changed_findings();
DROP FUNCTION pegboard_settle_new_findings();
DROP FUNCTION pegboard_settle_decisions(bigint[], bigint[], text[]);
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0077_run_spoken_protocol")]

    operations = [
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
                        choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")], max_length=10
                    ),
                ),
                ("code", models.CharField(max_length=40)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tool", "subject"], name="one_waiting_decision_per_subject"
                    )
                ],
                "indexes": [
                    models.Index(
                        fields=["endpoint", "severity", "code", "finding"], name="waiting_decision_groups"
                    )
                ],
            },
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
