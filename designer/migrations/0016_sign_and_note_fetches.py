import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import core.encryption

FREEZE = """
CREATE TRIGGER designer_releasesignature_frozen BEFORE UPDATE OR DELETE ON designer_releasesignature
    FOR EACH ROW EXECUTE FUNCTION pegboard_refuse_change();
CREATE TRIGGER designer_releasesignature_not_truncated BEFORE TRUNCATE ON designer_releasesignature
    FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change();
"""
THAW = """
DROP TRIGGER designer_releasesignature_frozen ON designer_releasesignature;
DROP TRIGGER designer_releasesignature_not_truncated ON designer_releasesignature;
"""
ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    dependencies = [("designer", "0015_transfers"), ("people", "0013_call_keys_api_keys")]

    operations = [
        migrations.CreateModel(
            name="SigningKey",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("public", models.CharField(max_length=43, unique=True)),
                ("sealed", core.encryption.EncryptedField()),
                ("key_id", core.encryption.KeyIdField("sealed")),
                ("valid_from", models.DateTimeField(default=django.utils.timezone.now)),
                ("retired_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={"ordering": ["valid_from"]},
        ),
        migrations.CreateModel(
            name="ReleaseSignature",
            fields=[
                ("id", ID),
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
                ("id", ID),
                ("surface", models.CharField(max_length=40)),
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
        migrations.RunSQL(FREEZE, THAW),
    ]
