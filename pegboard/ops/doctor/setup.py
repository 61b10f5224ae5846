"""Checks of settings, keys and files, which need no server."""

import os
import shutil
import stat
from collections.abc import Iterator
from email.utils import parseaddr
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.http.request import validate_host

from core import encryption
from core.encryption import KeyringError
from core.own_commands import MANAGE
from core.public_url import own_address_problems
from core.web_origins import origin_of
from pegboard import checks, startup_checks
from pegboard.ops.doctor.frame import DoctorLimits, Trouble, check

LOOPBACK_NAMES = {"127.0.0.1", "localhost", "::1", "[::1]"}


@check("secret_key", "sessions are signed with a key of this installation's own")
def secret_key(limits: DoctorLimits) -> Iterator[Trouble]:
    key = settings.SECRET_KEY
    if key.startswith(startup_checks.WELL_KNOWN) or len(key) < startup_checks.MIN_SECRET_KEY_LENGTH:
        yield Trouble(
            "PEGBOARD_SECRET_KEY is missing, too short, or a well-known one.",
            "Anyone who knows it can sign in as any user.",
            "Set it to 50 random characters or more; every user has to sign in again then.",
        )


@check("keys", "there is a usable key for secrets")
def keys(limits: DoctorLimits) -> Iterator[Trouble]:
    try:
        encryption.keyring()
    except KeyringError as exc:
        yield Trouble(
            str(exc), "No credential can be used or entered.", "Put the key back, or make the first one."
        )


@check(
    "key_file", "the file with the keys is its owner's alone, and lies apart from the data", after=("keys",)
)
def key_file(limits: DoctorLimits) -> Iterator[Trouble]:
    if not settings.KEYS_FILE:
        return
    path = Path(settings.KEYS_FILE).resolve()
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Trouble(
            f"Others than its owner may open {path}, which holds the keys of all credentials.",
            "Anyone who reads it and a backup of the database has every credential.",
            f"chmod 600 {path}",
        )
    data = Path(os.environ.get("PEGBOARD_DATA") or "/nonexistent")
    if any((parent / "PG_VERSION").exists() for parent in path.parents) or data in path.parents:
        yield Trouble(
            f"The file with the keys, {path}, lies inside the data.",
            "A copy of the data then brings its keys along, and protects nothing.",
            "Move it to another place, and let PEGBOARD_KEYS_FILE name that.",
        )


@check("debug", "Django's debug pages are off")
def debug(limits: DoctorLimits) -> Iterator[Trouble]:
    if settings.DEBUG:
        yield Trouble(
            "PEGBOARD_DEBUG is on.",
            "An error shows the inside of the program to the user who caused it.",
            "Take PEGBOARD_DEBUG out of the environment and start again.",
        )


@check("failpoints", "no failpoint is armed")
def failpoints(limits: DoctorLimits) -> Iterator[Trouble]:
    for error in checks.failpoints(None):
        yield Trouble(error.msg, "They are for tests and lose work on purpose.", str(error.hint))


@check("networks", "vendors are reached only where this installation means to", deployed=True)
def networks(limits: DoctorLimits) -> Iterator[Trouble]:
    for error in checks.open_networks(None):
        impact = (
            "An administrator could reach programs on this machine, or anything at all, through Pegboard."
        )
        yield Trouble(error.msg, impact, str(error.hint))


@check("hosts", "the product knows under which names it is reached", deployed=True)
def hosts(limits: DoctorLimits) -> Iterator[Trouble]:
    names = set(settings.ALLOWED_HOSTS)
    if "*" in names:
        yield Trouble(
            "PEGBOARD_HOSTS takes any name.",
            "Links in pages and mail can then be made to lead elsewhere.",
            "Name the hosts that people use.",
        )
    elif names <= LOOPBACK_NAMES:
        yield Trouble(
            "PEGBOARD_HOSTS names this machine's loopback only.",
            "No page opens from another machine.",
            "Set it to the host name that people use.",
        )


@check("https", "passwords and keys travel encrypted", deployed=True)
def https(limits: DoctorLimits) -> Iterator[Trouble]:
    if not settings.HTTPS:
        yield Trouble(
            "PEGBOARD_HTTPS is not set.",
            "Cookies go over plain connections too, and nothing makes browsers come back encrypted.",
            "Put a proxy that ends TLS in front, and set PEGBOARD_HTTPS=1.",
        )


@check("static_files", "the files that pages need are where they should be")
def static_files(limits: DoctorLimits) -> Iterator[Trouble]:
    act = f"Run {MANAGE} collectstatic, and set PEGBOARD_STATIC_ROOT to where it put the files."
    if settings.STATIC_ROOT:
        is_there = (Path(settings.STATIC_ROOT) / "staticfiles.json").is_file()
        where = settings.STATIC_ROOT
    else:
        is_there, where = finders.find("css/base.css") is not None, "the program's directory"
    if not is_there:
        yield Trouble(f"The style sheets are not in {where}.", "Pages have no shape, or fail.", act)


def disk_paths() -> Iterator[Path]:
    """Return one path on each disk of this machine that the product writes to or runs from."""
    data, base = os.environ.get("PEGBOARD_DATA"), settings.BASE_DIR
    devices = set()
    for path in filter(Path.exists, [Path(data) if data else base, base, Path("/tmp")]):  # noqa: S108
        if (device := path.stat().st_dev) not in devices:
            devices.add(device)
            yield path


def low_disk(path: Path, limits: DoctorLimits) -> Iterator[Trouble]:
    usage = shutil.disk_usage(path)
    free = usage.free / usage.total * 100 if usage.total else 100.0
    if free < limits.free_percent:
        yield Trouble(
            f"The disk that holds {path} has {free:.0f} % left.",
            "When it is full, nothing can be saved or read from vendors.",
            "Make room, or move the data to a larger disk.",
        )


@check("disk", "there is room on the disk")
def disk(limits: DoctorLimits) -> Iterator[Trouble]:
    for path in disk_paths():
        yield from low_disk(path, limits)


@check("address", "the address that users open is set, and is one that the product answers to", deployed=True)
def address(limits: DoctorLimits) -> Iterator[Trouble]:
    if problems := own_address_problems():
        yield Trouble(problems[0], "Web, workers and scheduler do not start.", "Correct it, and start them.")
        return
    origin = origin_of(settings.PUBLIC_URL)
    if origin is None:
        yield Trouble(
            "PEGBOARD_URL is not set.",
            "Links in mail do not work, and redirect addresses change with the name that a request uses.",
            "Set it to the address that users open, such as https://pegboard.example.com.",
        )
    elif not validate_host(origin[1], settings.ALLOWED_HOSTS):
        yield Trouble(
            f"PEGBOARD_URL names the host {origin[1]}, and PEGBOARD_HOSTS does not.",
            "Every link that Pegboard gives out is answered with 400.",
            f"Add {origin[1]} to PEGBOARD_HOSTS.",
        )
    elif settings.HTTPS and origin[0] != "https":
        yield Trouble(
            "PEGBOARD_HTTPS is 1, and PEGBOARD_URL begins with http://.",
            "Redirect addresses that authorization servers know do not fit, and links make a detour.",
            f"Write PEGBOARD_URL=https://{origin[1]}.",
        )


@check("mail", "mail that people asked for can be sent, and its links lead here")
def mail(limits: DoctorLimits) -> Iterator[Trouble]:
    if settings.MAIL_IS_SET_UP and not settings.PUBLIC_URL:
        yield Trouble(
            "PEGBOARD_MAIL_URL is set and PEGBOARD_URL is not.",
            "Links in mail lead nowhere.",
            "Set PEGBOARD_URL to the address that people open, such as https://pegboard.example.com.",
        )
    if settings.MAIL_IS_SET_UP and parseaddr(settings.MAIL_FROM)[1].endswith("@localhost"):
        yield Trouble(
            f"Mail comes from {settings.MAIL_FROM}.",
            "Mail servers refuse a sender whose domain does not exist.",
            "Set PEGBOARD_MAIL_FROM, such as Pegboard <pegboard@example.com>.",
        )
