import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import catalog.notifications.kinds
import core.encryption
from core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("notifications", "0001_notices"),
        ("notifications", "0002_tell_of_reported_keys"),
        ("notifications", "0003_encrypt_addresses"),
        ("notifications", "0004_say_api_key"),
        ("notifications", "0005_say_run"),
        ("notifications", "0006_tell_of_vendor_requests"),
        ("notifications", "0007_tell_of_releases"),
        ("notifications", "0008_call_back"),
        ("notifications", "0009_name_runs_of_callbacks"),
    ]

    initial = True

    dependencies = [
        ("people", "0001_squashed_0017_erase_users"),
        ("catalog", "0001_squashed_0080_picture_tools"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Webhook",
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
                                help_text="The receiver, such as “On-call chat”.",
                                max_length=100,
                                verbose_name="Name",
                            ),
                        ),
                        (
                            "url",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Requests are sent there by POST.",
                                max_length=2048,
                                verbose_name="Address",
                            ),
                        ),
                        (
                            "events",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(
                                    choices=catalog.notifications.kinds.choices, max_length=30
                                ),
                                size=None,
                            ),
                        ),
                        ("sealed", core.encryption.EncryptedField()),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        ("is_paused", models.BooleanField(default=False, verbose_name="Paused")),
                        ("paused_why", models.CharField(blank=True, max_length=1000)),
                        (
                            "failures",
                            models.PositiveIntegerField(
                                default=0, help_text="Attempts in a row that failed."
                            ),
                        ),
                        (
                            "next_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("last_sent_at", models.DateTimeField(null=True)),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("removed_at", models.DateTimeField(null=True)),
                        ("sealed_url", core.encryption.EncryptedField(blank=True, db_default="", default="")),
                        ("url_key_id", core.encryption.KeyIdField("sealed_url")),
                        ("is_narrowed", models.BooleanField(db_default=False, default=False)),
                        (
                            "owner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="webhooks",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["name", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="MailAddress",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("address", models.EmailField(max_length=254)),
                        ("confirmed_at", models.DateTimeField(null=True)),
                        ("pause_minutes", models.PositiveIntegerField(default=5)),
                        (
                            "user",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="mail_address",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "mail address",
                    },
                ),
                migrations.CreateModel(
                    name="Notice",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("event", models.CharField(max_length=30)),
                        ("subject", models.CharField(max_length=64)),
                        ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        (
                            "due_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("settled_at", models.DateTimeField(null=True)),
                        ("told_at", models.DateTimeField(null=True)),
                        ("title", models.CharField(blank=True, max_length=300)),
                        ("says", models.TextField(blank=True)),
                        ("path", models.CharField(blank=True, max_length=300)),
                        ("facts", models.JSONField(default=dict)),
                        ("agent", models.BigIntegerField(null=True)),
                        (
                            "readers",
                            models.ManyToManyField(related_name="notices", to=settings.AUTH_USER_MODEL),
                        ),
                    ],
                    options={
                        "ordering": ["-at", "id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("settled_at", None)), fields=["due_at"], name="notice_due"
                            ),
                            models.Index(
                                condition=models.Q(("told_at__isnull", False)),
                                fields=["subject", "event", "-told_at"],
                                name="notice_last_told",
                            ),
                            models.Index(fields=["settled_at"], name="notice_by_age"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("settled_at", None)),
                                fields=("event", "subject"),
                                name="one_waiting_notice_per_subject",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Mail",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[("waiting", "Waiting"), ("sent", "Sent"), ("failed", "Given up")],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("error", models.CharField(blank=True, max_length=1000)),
                        (
                            "next_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        ("confirms", models.EmailField(blank=True, max_length=254)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("notices", models.ManyToManyField(related_name="+", to="notifications.notice")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")), fields=["next_at"], name="mail_due"
                            ),
                            models.Index(fields=["user", "-sent_at"], name="mail_by_person"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("attempts", 0), ("confirms", ""), ("state", "waiting")),
                                fields=("user",),
                                name="one_open_mail_per_person",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Subscription",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "event",
                            models.CharField(choices=catalog.notifications.kinds.choices, max_length=30),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="subscriptions",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["event", "id"],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "event"), name="one_subscription_per_event"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[("waiting", "Waiting"), ("sent", "Sent"), ("failed", "Given up")],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("error", models.CharField(blank=True, max_length=1000)),
                        (
                            "status",
                            models.PositiveSmallIntegerField(
                                default=0, help_text="Of the last answer; 0: there was none."
                            ),
                        ),
                        (
                            "notice",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="notifications.notice",
                            ),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="notifications.webhook",
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-created_at", "id"],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")),
                                fields=["webhook", "created_at"],
                                name="delivery_waiting",
                            ),
                            models.Index(fields=["webhook", "-created_at"], name="delivery_by_webhook"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("webhook", "notice"), name="one_delivery_per_notice"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Callback",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[("waiting", "Waiting"), ("sent", "Sent"), ("failed", "Given up")],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("error", models.CharField(blank=True, max_length=1000)),
                        ("sealed", core.encryption.EncryptedField(blank=True, default="")),
                        ("key_id", core.encryption.KeyIdField("sealed")),
                        (
                            "next_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                        ),
                        (
                            "call",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="callback",
                                to="catalog.call",
                            ),
                        ),
                        ("run_of", models.CharField(blank=True, db_default="", default="", max_length=36)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")),
                                fields=["next_at"],
                                name="callback_due",
                            ),
                            models.Index(fields=["created_at"], name="callback_by_age"),
                        ],
                    },
                ),
            ]
        ),
    ]
