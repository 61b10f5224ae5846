"""Settings, all from the environment. docs/operations.md lists every variable."""

import os
import re
import sys
import tempfile
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from core.broker_address import parse_broker_address
from core.web_origins import format_origin, origin_of
from pegboard.ops import logs
from pegboard.process_settings import process_settings
from pegboard.server_addresses import parse_address

BASE_DIR = Path(__file__).resolve().parent.parent
TESTING = "pytest" in sys.modules
DEBUG = os.environ.get("PEGBOARD_DEBUG") == "1"


def _words(name: str, default: str = "") -> list[str]:
    return os.environ.get(name, default).replace(",", " ").split()


def _oidc() -> dict[str, Any] | None:
    """Single sign-on, which an issuer switches on; None without. people/sso/ reads it."""
    issuer = os.environ.get("PEGBOARD_OIDC_ISSUER", "")
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ImproperlyConfigured("PEGBOARD_OIDC_ISSUER must start with https://")
    # Entries between semicolons, because names of groups may hold spaces and commas.
    entries = os.environ.get("PEGBOARD_OIDC_ROLES", "").split(";")
    pairs = (entry.strip().rpartition("=") for entry in entries if entry.strip())
    roles = {group.strip(): role.strip() for group, _, role in pairs}
    default = os.environ.get("PEGBOARD_OIDC_DEFAULT_ROLE", "viewer")
    if unknown := {*roles.values(), default} - {"viewer", "designer", "admin", "none"}:
        raise ImproperlyConfigured(f"PEGBOARD_OIDC_ROLES: there is no role {', '.join(unknown)}.")
    client_id = os.environ.get("PEGBOARD_OIDC_CLIENT_ID", "")
    client_secret = os.environ.get("PEGBOARD_OIDC_CLIENT_SECRET", "")
    if not client_id or not client_secret:
        raise ImproperlyConfigured("Set PEGBOARD_OIDC_CLIENT_ID and PEGBOARD_OIDC_CLIENT_SECRET too.")
    runtimes = os.environ.get("PEGBOARD_OIDC_RUNTIMES", "off")
    if runtimes not in ("off", "marked", "unmarked"):
        raise ImproperlyConfigured("PEGBOARD_OIDC_RUNTIMES is off, marked or unmarked.")
    if runtimes != "off" and not (os.environ.get("PEGBOARD_URL") or os.environ.get("PEGBOARD_RUNTIMES_URL")):
        raise ImproperlyConfigured(
            "PEGBOARD_OIDC_RUNTIMES needs PEGBOARD_URL: access tokens name the address."
        )
    if client_id in (audiences := _words("PEGBOARD_OIDC_AUDIENCES")):
        # Id tokens are for the client.
        raise ImproperlyConfigured("PEGBOARD_OIDC_AUDIENCES must not name PEGBOARD_OIDC_CLIENT_ID.")
    return {
        "issuer": issuer,
        "client_id": client_id,
        "client_secret": client_secret,
        "name": os.environ.get("PEGBOARD_OIDC_NAME", "single sign-on"),
        "scopes": " ".join(_words("PEGBOARD_OIDC_SCOPES", "openid profile email")),
        "roles_claim": os.environ.get("PEGBOARD_OIDC_ROLES_CLAIM", ""),
        "roles": roles,
        "default_role": default,
        "runtimes": runtimes,
        "audiences": audiences,
        "runtime_scopes": _words("PEGBOARD_OIDC_RUNTIME_SCOPES"),
        "domains": [domain.casefold() for domain in _words("PEGBOARD_OIDC_DOMAINS")],
    }


def _mail(url: str) -> dict[str, object]:
    """Return the settings of a mail server. Raises ImproperlyConfigured.

    url: `smtp://user:password@host:587` (STARTTLS; `?tls=off` for a relay on this machine) or `smtps://...`.
    """
    parts = parse_address("PEGBOARD_MAIL_URL", url, ("smtp", "smtps"))
    if not parts.host:
        raise ImproperlyConfigured("PEGBOARD_MAIL_URL names no host: smtp://user:password@host:587")
    if parts.path or parts.options.items() - {("tls", "off")}:
        raise ImproperlyConfigured(
            "PEGBOARD_MAIL_URL may have ?tls=off behind its host and port, and no more."
        )
    is_wrapped = parts.scheme == "smtps"
    return {
        "EMAIL_BACKEND": "core.mail_backend.EmailBackend",
        "EMAIL_HOST": parts.host,
        "EMAIL_PORT": int(parts.port or (465 if is_wrapped else 587)),
        "EMAIL_HOST_USER": parts.user,
        "EMAIL_HOST_PASSWORD": parts.password,
        "EMAIL_USE_SSL": is_wrapped,
        "EMAIL_USE_TLS": not is_wrapped and "tls" not in parts.options,
        "EMAIL_TIMEOUT": 15,
    }


def _mail_sender() -> str:
    """Return the sender of mail: by default an address at the host of PEGBOARD_URL, where that is a name."""
    host = urlsplit(os.environ.get("PEGBOARD_URL", "")).hostname or ""
    is_name = re.search(r"\.[a-z]", host)
    sender = os.environ.get("PEGBOARD_MAIL_FROM") or f"Pegboard <pegboard@{host if is_name else 'localhost'}>"
    match = re.fullmatch(r"[^\s@<>]+@([^\s@<>]+)", parseaddr(sender)[1])
    try:
        has_domain = bool(match and match[1].encode("idna"))
    except UnicodeError:
        has_domain = False
    if not has_domain or not sender.isprintable():
        raise ImproperlyConfigured("PEGBOARD_MAIL_FROM is no address: Pegboard <pegboard@example.com>")
    return sender


def _hsts(value: str) -> dict[str, object]:
    """Return Django's settings for a value of Strict-Transport-Security (RFC 6797, section 6.1)."""
    age, *flags = [directive.strip().casefold() for directive in value.split(";")]
    seconds = age.removeprefix("max-age=")
    if seconds == age or not (seconds.isascii() and seconds.isdigit()):
        raise ImproperlyConfigured("PEGBOARD_HSTS must start with max-age=SECONDS; max-age=0 turns it off.")
    if unknown := set(flags) - {"includesubdomains", "preload"}:
        raise ImproperlyConfigured(f"PEGBOARD_HSTS: there is no directive {', '.join(sorted(unknown))}.")
    return {
        "SECURE_HSTS_SECONDS": int(seconds),
        "SECURE_HSTS_INCLUDE_SUBDOMAINS": "includesubdomains" in flags,
        "SECURE_HSTS_PRELOAD": "preload" in flags,
    }


DEFAULT_HSTS = "max-age=31536000; includeSubDomains; preload"

SECRET_KEY = os.environ.get("PEGBOARD_SECRET_KEY", "")
if not SECRET_KEY:
    # Commands that only look at the code (check, makemigrations, collectstatic) need no secret; serving does.
    SECRET_KEY = "unsafe-no-secret-key-set"  # noqa: S105
ALLOWED_HOSTS = _words("PEGBOARD_HOSTS", "127.0.0.1 localhost [::1]")
# Where users open Pegboard (core/public_url.py).
PUBLIC_URL = os.environ.get("PEGBOARD_URL", "").rstrip("/")
RUNTIMES_URL = os.environ.get("PEGBOARD_RUNTIMES_URL", "").rstrip("/")
CSRF_TRUSTED_ORIGINS = _words("PEGBOARD_ORIGINS")
if _own_origin := origin_of(PUBLIC_URL):
    CSRF_TRUSTED_ORIGINS.append(format_origin(_own_origin))
CSRF_FAILURE_VIEW = "pegboard.web.views.form_refused"

_PROCESS = process_settings(os.environ)
SERVES_PAGES: bool = _PROCESS["SERVES_PAGES"]
QUERY_DEADLINE: float | None = _PROCESS["QUERY_DEADLINE"]
BROKER_TIMEOUT: float | None = _PROCESS["BROKER_TIMEOUT"]
DATABASE_CONNECTIONS: int = _PROCESS["DATABASE_CONNECTIONS"]
DATABASES: dict[str, Any] = _PROCESS["DATABASES"]
CALLS_IN_A_PROCESS: int = _PROCESS["CALLS_IN_A_PROCESS"]
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = _PROCESS["CELERY_BROKER_TRANSPORT_OPTIONS"]
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
# Certificate authorities that are trusted beside the public ones: core/outbound/authorities.py.
CA_FILE = os.environ.get("PEGBOARD_CA_FILE", "")

INSTALLED_APPS = [
    "people",  # before Django's own, whose commands about people leave no trace
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "catalog",
    "catalog.notifications",
    "execution",
    "designer",
    "pegboard",
]
_EVERY_REQUEST = [
    "pegboard.web.middleware.TraceMiddleware",
    "pegboard.web.middleware.SecurityHeadersMiddleware",
    "pegboard.web.middleware.HostMiddleware",
    "pegboard.web.middleware.ProxySignsMiddleware",
    "pegboard.web.query_deadline.QueryDeadlineMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "pegboard.web.middleware.BoundsMiddleware",
    "pegboard.web.middleware.RefuseNulMiddleware",
]
# Of requests with an API key, which serving/gateway passes to their views.
PROGRAM_MIDDLEWARE = [
    *_EVERY_REQUEST,
    "pegboard.web.middleware.DomainErrorMiddleware",
    "pegboard.web.replica_reads.ReplicaReadsMiddleware",
]
MIDDLEWARE = [
    *_EVERY_REQUEST,
    "pegboard.web.middleware.ProbeMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "pegboard.web.middleware.MethodMiddleware",
    "people.middleware.LanguageMiddleware",
    "people.middleware.RoleRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "designer.middleware.MovedAgentMiddleware",
    "designer.middleware.DeprecationMiddleware",
    "pegboard.web.middleware.DomainErrorMiddleware",
    "pegboard.web.replica_reads.ReplicaReadsMiddleware",
]
ROOT_URLCONF = "pegboard.urls"
WSGI_APPLICATION = "pegboard.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "designer.context_processors.navigation",
            ],
            "builtins": ["pegboard.web.page_addresses"],
            "libraries": {"form_fields": "pegboard.web.form_fields", "i18n": "pegboard.web.page_words"},
        },
    }
]
# `i18n` replaces Django's on purpose.
SILENCED_SYSTEM_CHECKS = ["templates.W003"]
FORM_RENDERER = "pegboard.web.form_fields.FieldRenderer"

OIDC = _oidc()
LOCAL_SIGN_IN = os.environ.get("PEGBOARD_LOCAL_SIGN_IN", "1") != "0"
if not LOCAL_SIGN_IN and OIDC is None:
    raise ImproperlyConfigured("PEGBOARD_LOCAL_SIGN_IN=0 without PEGBOARD_OIDC_ISSUER lets no user sign in.")
AUTH_USER_MODEL = "people.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The language of pages. What programs read (REST, exports, commands, logs) is English.
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["pegboard.web.formats"]
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "pegboard.web.fonts.FontFinder",
]
STATIC_ROOT = os.environ.get("PEGBOARD_STATIC_ROOT") or None  # without one, files are served where they lie
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
if STATIC_ROOT:
    # Collected once, under names that change with the content, so that browsers may keep them for ever.
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
# A tool's words make a form of hundreds of fields.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_000
DATA_UPLOAD_MAX_NUMBER_FILES = 10
MAX_BODY_BYTES = 12 * 1024**2  # where a document of 10 MB may be sent, which JSON makes longer

# TLS ends at a proxy in front, which states it in this header. Set PEGBOARD_HTTPS=1 behind one.
HTTPS = os.environ.get("PEGBOARD_HTTPS") == "1"
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
    globals().update(_hsts(os.environ.get("PEGBOARD_HSTS") or DEFAULT_HSTS))
    if os.environ.get("PEGBOARD_HSTS"):
        # `check --deploy` need not warn of what the operator chose.
        SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W005", "security.W021"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# Counted from the sign-in: activity does not make a session longer.
SESSION_COOKIE_AGE = 3600 * int(os.environ.get("PEGBOARD_SESSION_HOURS", "24"))
# The number of trusted proxies in front, each of which appends its client's address to X-Forwarded-For.
NUM_PROXIES = int(os.environ.get("PEGBOARD_PROXIES", "0"))
X_FRAME_OPTIONS = "DENY"
DEFAULT_EXCEPTION_REPORTER = "pegboard.web.error_reports.Reporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "pegboard.web.error_reports.ReportFilter"
SECURE_REFERRER_POLICY = "same-origin"

# For one key; for all keys and browsers of one user together, twice as many. More than a program that polls
# needs, and less than one that calls in a loop makes.
CALLS_PER_MINUTE = int(os.environ.get("PEGBOARD_CALLS_PER_MINUTE", "6000"))
WRITES_PER_MINUTE = int(os.environ.get("PEGBOARD_WRITES_PER_MINUTE", "600"))
# The time for which a tool that was fetched from its vendor counts as current.
FRESH_SECONDS = int(os.environ.get("PEGBOARD_FRESH_SECONDS", "60"))
RELEASE_IN_USE_DAYS = int(os.environ.get("PEGBOARD_RELEASE_IN_USE_DAYS", "30"))
# For how long enumeration runs without changes and calls of tools are stored; 0: for ever.
KEEP_RUNS_DAYS = int(os.environ.get("PEGBOARD_KEEP_RUNS_DAYS", "90"))
KEEP_CALLS_DAYS = int(os.environ.get("PEGBOARD_KEEP_CALLS_DAYS", "90"))
# For how long searches are recorded, without the people; 0: they are not.
KEEP_SEARCHES_DAYS = int(os.environ.get("PEGBOARD_KEEP_SEARCHES_DAYS", "90"))
# Each host has an index of its own, which all of its processes share and which may be lost.
SEARCH_ENGINE = os.environ.get("PEGBOARD_SEARCH_ENGINE", "tantivy")
SEARCH_DIRECTORY = os.environ.get("PEGBOARD_SEARCH_DIRECTORY") or str(
    Path(tempfile.gettempdir()) / f"pegboard-search-{os.getuid()}"
)
# The model that compares meanings: "use", "none", or the address above OpenAI's `/embeddings`, with the name
# of a model, its key and the length of its vectors. It runs in one process of each host.
SEARCH_MEANING = os.environ.get("PEGBOARD_SEARCH_MEANING", "use")
SEARCH_MEANING_MODEL = os.environ.get("PEGBOARD_SEARCH_MEANING_MODEL", "")
SEARCH_MEANING_KEY = os.environ.get("PEGBOARD_SEARCH_MEANING_KEY", "")
SEARCH_MEANING_DIMENSIONS = int(os.environ.get("PEGBOARD_SEARCH_MEANING_DIMENSIONS") or 1536)
# Pages and logs show the address.
if "://" in SEARCH_MEANING and ("@" in SEARCH_MEANING or "?" in SEARCH_MEANING):
    raise ImproperlyConfigured(
        "PEGBOARD_SEARCH_MEANING must contain no user or query. Set PEGBOARD_SEARCH_MEANING_KEY."
    )
if not 1 <= SEARCH_MEANING_DIMENSIONS <= 8_192:
    raise ImproperlyConfigured("PEGBOARD_SEARCH_MEANING_DIMENSIONS is from 1 to 8192.")
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "designer.api.authentication.ReleaseAuthentication",
        "people.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["people.permissions.RolePermission"],
    "DEFAULT_THROTTLE_CLASSES": ["people.throttling.CallLimit"],
    "DEFAULT_PARSER_CLASSES": ["pegboard.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "pegboard.api.pagination.KeysetPagination",
    "DEFAULT_SCHEMA_CLASS": "pegboard.api.schema.Schema",
    "EXCEPTION_HANDLER": "pegboard.api.errors.exception_handler",
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Pegboard",
    "DESCRIPTION": "The design-time tool catalog for AI agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [],
    "COMPONENT_SPLIT_REQUEST": True,
}

# The directory where `manage.py backup` writes and `manage.py doctor --restore` looks.
BACKUPS = os.environ.get("PEGBOARD_BACKUPS", "")

try:
    _BROKER = parse_broker_address(REDIS_URL, CA_FILE)
except ValueError as exc:
    raise ImproperlyConfigured(f"{exc}.") from exc
CELERY_BROKER_URL = _BROKER.celery_url
CELERY_BROKER_USE_SSL = dict(_BROKER.tls) or None
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A broker without room refuses to note what a worker takes. The worker connects anew, and does not end.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# A message counts as done when it is received, because the broker is not what brings work back: a run has a
# lease in PostgreSQL. With a message under way, kombu 5.7 ends the worker when the broker goes away.
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_DISABLE_PREFETCH = True
# Without it, the message that the scheduler sends each second would keep all processes of a burst.
CELERY_WORKER_AUTOSCALER = "pegboard.autoscaler:BusyAutoscaler"
# The message is a hint, which the scheduler repeats; a page must not wait for a broker that is away.
CELERY_TASK_PUBLISH_RETRY = False
# The truth is in the database; nothing waits for a result.
CELERY_TASK_IGNORE_RESULT = True
# Longer than an enumeration in one piece may take; what runs on is ended, not left to hold a worker.
CELERY_TASK_SOFT_TIME_LIMIT = 360
CELERY_TASK_TIME_LIMIT = 390
CELERY_TASK_SERIALIZER = "json"
# Nothing that could run code when it is read.
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "enumeration"
# Calls of tools have workers of their own: a user waits for each, and an enumeration may take minutes.
# So have enumerations of slow vendors, which would hold up the others. A worker that is given no queue takes
# from all of them.
CALLS_QUEUE, SLOW_QUEUE = "calls", "slow"
CELERY_TASK_QUEUES = [
    Queue(name, Exchange(name), routing_key=name)
    for name in (CELERY_TASK_DEFAULT_QUEUE, CALLS_QUEUE, SLOW_QUEUE)
]
CELERY_TASK_ROUTES = {"catalog.tasks.perform_call": {"queue": CALLS_QUEUE}}
# The pool starts processes as there is work for them. On a busy machine that takes longer than the usual 4 s,
# after which a process is killed that has not reported yet.
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 60
# Kilobytes. A process that once read a huge list gives its memory back by ending.
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 300_000
# Seconds in which a task under way may end when the worker is stopped.
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "pegboard.beat:InProcessScheduler"
CELERY_BEAT_SCHEDULE = {
    "tick": {"task": "catalog.enumeration.schedule.tick", "schedule": 5.0},
    "inspect": {"task": "catalog.tasks.inspect_pending", "schedule": 60.0, "options": {"expires": 60}},
    "calls": {"task": "execution.calls.queue.sweep", "schedule": 5.0},
    "grants": {"task": "execution.calls.challenges.tick", "schedule": 5.0},
    "resumed calls": {"task": "serving.resumed_calls.tick", "schedule": 5.0},
    "index": {"task": "catalog.tasks.index_pending", "schedule": 60.0, "options": {"expires": 60}},
    "pictures": {"task": "catalog.tasks.fetch_pictures", "schedule": 60.0, "options": {"expires": 60}},
    "looks": {"task": "catalog.tasks.second_looks", "schedule": 60.0, "options": {"expires": 60}},
    "tokens": {"task": "catalog.tasks.renew_tokens", "schedule": 30.0, "options": {"expires": 30}},
    "call ids": {
        "task": "catalog.tasks.forget_call_ids",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "old rows": {
        "task": "catalog.tasks.delete_old_rows",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "threads": {
        "task": "catalog.tasks.forget_threads",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "end users": {
        "task": "catalog.tasks.forget_end_users",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "notifications": {"task": "catalog.notifications.dispatch.tick", "schedule": 5.0},
    "rehearsals": {"task": "designer.rehearsals.schedule.tick", "schedule": 5.0},
    "translations": {"task": "designer.translations.runs.tick", "schedule": 5.0},
    "old notifications": {
        "task": "catalog.notifications.tasks.forget_old",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "ending keys": {
        "task": "catalog.notifications.tasks.announce_ending_keys",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    # The scheduler counts from its own start; a day would never pass on a machine that is off at night.
    "sessions": {"task": "people.tasks.forget_sessions", "schedule": 3600.0, "options": {"expires": 3600}},
    "idempotent writes": {
        "task": "people.tasks.forget_idempotent_writes",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
}
# As often as the most frequent entry above.
CELERY_BEAT_MAX_LOOP_INTERVAL = 5

# Networks vendors may live in although they are private: a deployment setting, never an administrator's.
OUTBOUND_ALLOW = os.environ.get("PEGBOARD_OUTBOUND_ALLOW", "")
# The same for addresses that are notified of the end of a call, which keys of runtimes set.
CALLBACK_ALLOW = os.environ.get("PEGBOARD_CALLBACK_ALLOW", "")
# Ports of public vendors, instead of the usual ones; entries of OUTBOUND_ALLOW have ports of their own.
OUTBOUND_PORTS = os.environ.get("PEGBOARD_OUTBOUND_PORTS", "")
# The path of outbound requests: core/outbound/egress.py. The proxy's address may hold a password.
OUTBOUND_PROXY = os.environ.get("PEGBOARD_OUTBOUND_PROXY", "")
OUTBOUND_DIRECT = os.environ.get("PEGBOARD_OUTBOUND_DIRECT", "")
OUTBOUND_PROXY_RESOLVES = os.environ.get("PEGBOARD_OUTBOUND_PROXY_RESOLVES", "")
# Keys for secrets at rest, or the file they lie in: core/encryption.py.
KEYS = _words("PEGBOARD_KEYS")
KEYS_FILE = os.environ.get("PEGBOARD_KEYS_FILE", "")

# Set by `make run`: one person on one machine, where much is fine that is not for others.
LOCAL = os.environ.get("PEGBOARD_LOCAL") == "1"
MAIL_FROM = DEFAULT_FROM_EMAIL = _mail_sender()
MAIL_IS_SET_UP = bool(os.environ.get("PEGBOARD_MAIL_URL"))
if MAIL_IS_SET_UP:
    globals().update(_mail(os.environ["PEGBOARD_MAIL_URL"]))

LOGGING = logs.configuration()
if TESTING:
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    CELERY_TASK_ALWAYS_EAGER = False
