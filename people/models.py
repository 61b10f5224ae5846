"""Users, teams, API keys and the audit trail."""

import hashlib
import re
import string
import zlib
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, ClassVar

from django.apps import apps
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Lower, Upper
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from core import slugs
from core.encryption import EncryptedField, KeyIdField


class Role(models.TextChoices):
    """A role includes the rights of the roles before it."""

    VIEWER = "viewer", _("Viewer")
    DESIGNER = "designer", _("Designer")
    ADMIN = "admin", _("Administrator")

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        # Users may enter their name in any case: two names never differ by case alone.
        return self.get(username__iexact=username)

    def create_user(self, username: str, password: str | None = None, **fields: object) -> "User":
        user = self.model(username=self.model.normalize_username(username), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, username: str, password: str | None = None, **fields: object) -> "User":
        return self.create_user(username, password, **{"role": Role.ADMIN, **fields})


class User(AbstractBaseUser):
    username = models.CharField(
        _("User name"),
        max_length=150,
        unique=True,
        validators=[UnicodeUsernameValidator()],
        help_text=_("Letters, digits and @ . + - _ only."),
    )
    name = models.CharField(_("Full name"), max_length=150, blank=True)
    role = models.CharField(_("Role"), max_length=10, choices=Role.choices, default=Role.VIEWER)
    is_active = models.BooleanField(
        _("May sign in"),
        default=True,
        help_text=_("Without it their keys are revoked for good. What they built stays."),
    )
    # Of pages. Empty: the language that the browser asks for.
    language = models.CharField(
        max_length=10, blank=True, default="", db_default="", choices=settings.LANGUAGES
    )
    date_joined = models.DateTimeField(default=timezone.now)
    # A change of the user's rights increments it; sessions with an earlier number are not valid any more.
    sessions_ended = models.PositiveIntegerField(default=0, editable=False)

    objects = UserManager()
    USERNAME_FIELD = "username"

    class Meta:
        ordering = ["username"]
        verbose_name, verbose_name_plural = "person", "people"
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_known"),
            models.UniqueConstraint(
                Lower("username"),
                name="one_user_per_name",
                violation_error_message=_("Another user already signs in with this name."),
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.username

    def has_role(self, role: Role) -> bool:
        return self.is_active and Role(self.role).includes(role)

    def get_session_auth_hash(self) -> str:
        # As in Django, the password is part of it: a session with another hash is not valid.
        return self._hash_of_sessions(None)

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        return (self._hash_of_sessions(secret) for secret in settings.SECRET_KEY_FALLBACKS)

    def _hash_of_sessions(self, secret: str | bytes | None) -> str:
        value = f"{self.password}:{self.sessions_ended}"
        return salted_hmac("people.User.session", value, secret=secret, algorithm="sha256").hexdigest()

    @property
    def can_design(self) -> bool:
        return self.has_role(Role.DESIGNER)

    @property
    def can_administer(self) -> bool:
        return self.has_role(Role.ADMIN)

    @property
    def is_staff(self) -> bool:
        # Django's admin reads this attribute.
        return self.can_administer

    def has_perm(self, perm: str, obj: object | None = None) -> bool:
        return self.can_administer

    def has_module_perms(self, app_label: str) -> bool:
        return self.can_administer


MAX_TEAM_NAME_LENGTH = 120


class TeamQuerySet(models.QuerySet["Team"]):
    def live(self) -> "TeamQuerySet":
        return self.filter(removed_at=None)

    def open_to(self, user: User) -> "TeamQuerySet":
        """Return the teams whose agents `user` works on: all teams for an administrator."""
        rows = self.live()
        return rows if user.can_administer else rows.filter(pk__in=teams_of(user))


# The rule of membership, for querysets and for constant SQL.
TEAMS_OF = """
    SELECT id FROM people_team WHERE is_everyone
    UNION ALL SELECT team_id FROM people_membership WHERE user_id = %s
"""


def teams_of(user: User) -> RawSQL:
    return RawSQL(TEAMS_OF, [user.pk])  # noqa: S611 - constant text, the number as a parameter


class Team(models.Model):
    """A group of users who work on the same agents. The team `is_everyone` includes all, without rows."""

    slug = models.SlugField(_("Address"), max_length=slugs.MAX_LENGTH)
    name = models.CharField(_("Name"), max_length=MAX_TEAM_NAME_LENGTH)
    is_everyone = models.BooleanField(default=False)
    members = models.ManyToManyField(User, through="Membership", related_name="teams")
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"], condition=models.Q(removed_at=None), name="one_live_team_per_slug"
            ),
            models.UniqueConstraint(
                fields=["is_everyone"], condition=models.Q(is_everyone=True), name="one_team_of_everyone"
            ),
            models.CheckConstraint(
                condition=models.Q(is_everyone=False) | models.Q(removed_at=None), name="everyone_stays"
            ),
        ]

    def __str__(self) -> str:
        return self.name


def everyone() -> Team:
    """Return the team of all users. Create it in an empty database."""
    team = Team.objects.filter(is_everyone=True).first()
    if team is None:
        team, _ = Team.objects.get_or_create(
            is_everyone=True, defaults={"slug": "everyone", "name": "Everyone"}
        )
    return team


def everyone_pk() -> int:
    return everyone().pk


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Identity(models.Model):
    """A user's identity at an identity provider: issuer and subject, which never pass to another user."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    linked_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_person_per_subject")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class FailedSignIn(models.Model):
    """A wrong password, stored for as long as it counts against the next try."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=45)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [
            models.Index(fields=["username", "address", "at"], name="failed_sign_in"),
            models.Index(fields=["at"], name="failed_sign_in_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"


class KeyScope(models.TextChoices):
    """A set of API calls that a key may make."""

    READ = "read", _("Read everything its owner may read")
    DESIGN = "design", _("Read, and edit agents, pins, tunings and releases")
    ADMIN = "admin", _("Everything its owner may do")
    RUNTIME = "runtime", _("Read releases only")
    INVOKE = "invoke", _("Run the tools in the releases of the agents that are named for it")


# The scopes of runtimes: a key that names agents has no others.
RUNTIME_SCOPES = frozenset({KeyScope.RUNTIME, KeyScope.INVOKE})


CALLS_AT_ONCE, MAX_CALLS_AT_ONCE = 250, 1_000


KEY_PREFIX = "pgb_"
KEY_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
# Public id and secret have fixed lengths, so that secret scanners recognize a key by its form.
KEY_SHAPE = re.compile(KEY_PREFIX + r"[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")


def key_checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _digit in range(6):
        number, remainder = divmod(number, len(KEY_ALPHABET))
        digits = KEY_ALPHABET[remainder] + digits
    return digits


class ApiKey(models.Model):
    """An API key. Only its SHA-256 is stored: the key has 190 random bits, so a slow hash adds nothing.

    is_narrowed: the key reaches only the agents of its `designer.models.KeyAgent` rows.
    calls_at_once: how many tool calls may run at once with the key.
    environment: the only environment in which the key runs tools; "" for the default of each agent.

    A row for clients that its owner signs in with an access token of the identity provider has no secret: its
    `digest` starts with SIGNED_IN and is not a digest.
    """

    SIGNED_IN: ClassVar[str] = "signed-in:"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(
        _("Name"),
        max_length=100,
        help_text=_("The program that uses it, such as “Order agent, production”."),
    )
    prefix = models.CharField(max_length=20)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=10, choices=KeyScope.choices))
    is_narrowed = models.BooleanField(default=False, db_default=False)
    calls_at_once = models.PositiveSmallIntegerField(
        _("Concurrent calls"),
        default=CALLS_AT_ONCE,
        db_default=CALLS_AT_ONCE,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_CALLS_AT_ONCE)],
        help_text=_("More concurrent calls of tools are refused."),
    )
    environment = models.CharField(
        _("Environment"),
        max_length=30,
        blank=True,
        default="",
        db_default="",
        help_text=_("An environment of all selected agents. Its implementations are used."),
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "people_apitoken"  # earlier releases read the table by this name
        ordering = ["-id"]
        verbose_name = "API key"
        indexes = [models.Index(fields=["user", "-id"], name="token_by_user")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_usable(self, now: datetime) -> bool:
        return is_key_usable(self.revoked_at, self.expires_at, now)

    @property
    def state(self) -> str:
        if self.revoked_at:
            return "revoked"
        return "active" if self.is_usable(timezone.now()) else "expired"

    @property
    def is_of_signed_in(self) -> bool:
        return self.digest.startswith(self.SIGNED_IN)

    @staticmethod
    def digest_of(key: str) -> str:
        return hashlib.sha256(key.encode()).hexdigest()

    @staticmethod
    def is_well_formed(key: str) -> bool:
        return KEY_SHAPE.fullmatch(key) is not None and key_checksum(key[:-6]) == key[-6:]


def is_key_usable(revoked_at: datetime | None, expires_at: datetime | None, now: datetime) -> bool:
    return not revoked_at and (expires_at is None or expires_at > now)


# Audit entries never change, so entries that are older than the name `ApiKey` have the second kind.
KEY_KINDS = ("apikey", "apitoken")


@cache
def kind_names() -> dict[str, str]:
    """Return the name on pages for each `kind` of audit entry."""
    names = {model.__name__.lower(): str(model._meta.verbose_name) for model in apps.get_models()}
    return names | dict.fromkeys(KEY_KINDS, names[KEY_KINDS[0]])


VERSION_MEMBERS = ("version", "against", "current")


class AuditEntry(models.Model):
    """A change by a user or a worker, written in the transaction of the change. An entry never changes.

    agent: id of the agent that the change concerns; no foreign key, because `designer` is above this package.
    why: the note of a user, or the run or the rule that made a worker do it.
    digest: of the content.
    position, previous, hash: the link of the chain, which the database writes when the transaction commits
    (people.audit.hash_chain).
    salt: part of the digest. After an erasure deleted it, nobody can confirm a guessed name by the digest
    (people.audit.erasure).
    """

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=50)
    kind = models.CharField(max_length=30)
    object_id = models.CharField(max_length=64)
    label = models.CharField(max_length=300)
    agent = models.BigIntegerField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    why = models.TextField(blank=True)
    salt = models.CharField(max_length=32, default="", db_default="", editable=False)
    digest = models.CharField(max_length=64, default="", editable=False)
    position = models.BigIntegerField(null=True, editable=False)
    previous = models.CharField(max_length=64, default="", editable=False)
    hash = models.CharField(max_length=64, default="", editable=False)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["kind", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["kind", "-id"], name="audit_by_kind"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["agent", "-id"], name="audit_by_agent"),
            GinIndex(OpClass(Upper("label"), name="gin_trgm_ops"), name="audit_by_label"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.action} {self.label}"

    @property
    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return `before` and `after` for pages, in which ordinals of versions are marked."""
        return _with_ordinals(self.before or {}), _with_ordinals(self.after or {})

    @property
    def kind_name(self) -> str:
        return kind_names().get(self.kind, self.kind)


def _with_ordinals(facts: dict[str, Any]) -> dict[str, Any]:
    # Entries that are older than the vendors' labels of versions contain an ordinal in place of a label.
    ordinals = {name for name in VERSION_MEMBERS if isinstance(facts.get(name), int)}
    return {f"{name} (ordinal)" if name in ordinals else name: value for name, value in facts.items()}


class ErasedEntry(models.Model):
    """An audit entry from which a user's names were erased, with the digest of the remaining content.

    entry, erasure: ids of audit entries; `erasure` records the erasure and a digest of all its rows here.
    covers_id: the digest of the entry covers its id.
    """

    entry = models.BigIntegerField()
    erasure = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    covers_id = models.BooleanField()

    class Meta:
        verbose_name_plural = "erased entries"
        constraints = [models.UniqueConstraint(fields=["entry", "erasure"], name="one_row_per_erased_entry")]

    def __str__(self) -> str:
        return f"Entry {self.entry}, erased by {self.erasure}"


class AuditHead(models.Model):
    """The end of the chain: one row, which only a trigger of the database writes.

    Its lock puts commits into one order, and it proves that the last entries are not missing.
    """

    position = models.BigIntegerField()
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_audit_head")]

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"


class IdempotentWrite(models.Model):
    """A write with an Idempotency-Key, and its response: people/idempotent_writes.py.

    caller: `key:` or `user:` with a primary key. request_digest: the SHA-256 of the request.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    caller = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    sealed = EncryptedField(default="", db_default="")
    key_id = KeyIdField("sealed")
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="one_write_per_idempotency_key")
        ]

    def __str__(self) -> str:
        return f"Write of {self.caller}"
