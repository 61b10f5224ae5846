import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import core.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0046_let_many_calls_wait"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="on_behalf_of",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="call",
            name="resumes_when_granted",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name="credential",
            name="kind",
            field=models.CharField(
                choices=[
                    ("bearer", "Bearer token"),
                    ("header", "API key in a header"),
                    ("query", "API key in the address"),
                    ("basic", "User name and password"),
                    ("jwt", "Signed token (JWT, HS256)"),
                    ("oauth_client", "OAuth 2, as ourselves (client credentials)"),
                    ("oauth_code", "OAuth 2, after a sign-in (authorization code)"),
                    ("oauth_users", "OAuth 2, for each user of an agent (authorization code)"),
                ],
                max_length=20,
            ),
        ),
        migrations.CreateModel(
            name="EndUser",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("agent", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("sealed", core.encryption.EncryptedField()),
                ("key_id", core.encryption.KeyIdField("sealed")),
                ("first_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "digest"), name="one_row_per_end_user")
                ],
            },
        ),
        migrations.CreateModel(
            name="EndpointSecret",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=500)),
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
                    models.UniqueConstraint(fields=("endpoint", "provider"), name="one_client_per_provider")
                ],
            },
        ),
        migrations.CreateModel(
            name="UserGrant",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("provider", models.CharField(max_length=500)),
                ("scopes", models.CharField(blank=True, max_length=2000)),
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
                ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField(help_text="Until when the user may answer.", null=True)),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "message",
                    models.CharField(blank=True, help_text="What the last look at it met.", max_length=300),
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
                        fields=("end_user", "endpoint", "provider"), name="one_grant_per_user_and_provider"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["pending", "completed", "failed", "expired"])),
                        name="user_grant_state_known",
                    ),
                ],
            },
        ),
    ]
