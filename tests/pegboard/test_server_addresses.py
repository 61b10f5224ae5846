"""Addresses of database, broker and mail server: each works as written or is refused with a sentence."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st
from psycopg import conninfo

from pegboard.process_settings import process_settings
from pegboard.server_addresses import parse_address, parse_database_address

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s3cr3t"


def database(address: str) -> dict:
    return process_settings({"DATABASE_URL": address})["DATABASES"]["default"]


def test_several_hosts_are_given_to_the_client_of_postgresql():
    settings = database("postgresql://ada:p%40ss@one:5433,two/name?target_session_attrs=read-write")
    assert (settings["HOST"], settings["PORT"]) == ("one,two", "5433,5432")
    assert (settings["USER"], settings["PASSWORD"], settings["NAME"]) == ("ada", "p@ss", "name")
    assert settings["OPTIONS"]["target_session_attrs"] == "read-write"
    settings = database("postgresql://[::1]:5433,[fd00::1]:5434/name")
    assert (settings["HOST"], settings["PORT"]) == ("::1,fd00::1", "5433,5434")
    settings = database("postgresql://one,two/name")
    assert (settings["HOST"], settings["PORT"]) == ("one,two", "")
    settings = database("postgresql:///name?host=/run/postgresql&port=5444")
    assert (settings["HOST"], settings["PORT"]) == ("/run/postgresql", "5444")


@given(st.text(st.characters(exclude_characters="/?#@%[]", exclude_categories=("Cs",)), max_size=12))
def test_a_password_without_special_characters_is_taken_as_it_is(password):
    assert parse_address("X", f"redis://:{password}@host:1/0", ["redis"]).password == password


def test_a_password_with_an_at_sign_or_a_colon_is_taken_as_it_is():
    settings = database("postgresql://ada:p@s:s@host/name")
    assert (settings["PASSWORD"], settings["HOST"]) == ("p@s:s", "host")


ADDRESSES = [
    "postgresql://ada:p@s:s+ 1%25%2F@host:5433/na%20me?sslmode=require&options=-c%20work_mem%3D4MB",
    "postgresql://ada@one:5433,[::1]/name?target_session_attrs=read-write",
    "postgresql:///name?host=/run/post%20gresql&port=5444",
    "postgresql://ada:p@ss@/ignored?dbname=name&connect_timeout=3",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_client_gets_what_the_processes_get(address):
    settings, parameters = database(address), parse_database_address("X", address).parameters()
    for name, parameter in (
        ("HOST", "host"),
        ("PORT", "port"),
        ("USER", "user"),
        ("PASSWORD", "password"),
        ("NAME", "dbname"),
    ):
        assert parameters.get(parameter, "") == settings[name]
    stated = {"sslmode", "options", "target_session_attrs"} & settings["OPTIONS"].keys()
    assert {name: parameters[name] for name in stated} == {name: settings["OPTIONS"][name] for name in stated}
    conninfo.make_conninfo(**parameters)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_written_anew_reads_the_same(address):
    parts = parse_database_address("X", address)
    assert parse_database_address("X", parts.url()) == parts
    assert replace(parts, name="other").parameters() == parts.parameters() | {"dbname": "other"}


def test_no_client_of_postgresql_splits_an_address_by_itself():
    for path in (ROOT / "pegboard").rglob("*.py"):
        for start in re.findall(r"psycopg\.connect\((\s*\S{1,3})", path.read_text()):
            assert start.strip().startswith("**") or path.name == "embedded.py", path


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        *(("DATABASE_URL", f"postgresql://ada:{SECRET}{mark}x@host:5432/name") for mark in "/?#[]"),
        ("DATABASE_URL", f"postgresql://ada:{SECRET}@host:port/name"),
        ("DATABASE_URL", f"postgresql://ada:{SECRET}@host:70000/name"),
        ("DATABASE_URL", f"postgresql://ada:{SECRET}@host"),
        ("DATABASE_URL", f"postgresql://ada:{SECRET}@host/name?sslmod=require"),
        ("DATABASE_URL", f"mysql://ada:{SECRET}@host/name"),
        *(("REDIS_URL", f"redis://:{SECRET}{mark}x@host:6379/0") for mark in "/?#[]"),
        ("REDIS_URL", f"redis://{SECRET}@host:6379/0"),
        ("REDIS_URL", f"redis://:{SECRET}@one:6379,two:6379/0"),
        ("REDIS_URL", f"redis://:{SECRET}@host:6379/main"),
        ("REDIS_URL", f"redis://:{SECRET}@:6379/0"),
        ("REDIS_URL", f"http://:{SECRET}@host/0"),
        *(("PEGBOARD_MAIL_URL", f"smtp://ada:{SECRET}{mark}x@host:587") for mark in "/?#[]"),
        ("PEGBOARD_MAIL_URL", f"smtp://ada:{SECRET}@host:587?tls=no"),
        ("PEGBOARD_MAIL_URL", f"smtp://ada:{SECRET}@:587"),
        ("PEGBOARD_MAIL_FROM", "Pegboard"),
        ("PEGBOARD_MAIL_FROM", "Pegboard <pegboard@>"),
        ("PEGBOARD_MAIL_FROM", f"a@{'x' * 64}é.example"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_with_a_sentence(variable, address, monkeypatch):
    from pegboard import settings

    monkeypatch.setenv(variable, address)

    def read_all() -> None:
        process_settings(os.environ)
        settings._mail_sender()
        settings._mail(os.environ.get("PEGBOARD_MAIL_URL", "smtp://host"))

    with pytest.raises(ImproperlyConfigured) as refused:
        read_all()
    assert variable in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("sender", "url", "expected"),
    [
        ("", "https://pegboard.example.com/", "Pegboard <pegboard@pegboard.example.com>"),
        ("", "http://127.0.0.1:8000", "Pegboard <pegboard@localhost>"),
        ("Tools <tools@example.com>", "https://pegboard.example.com/", "Tools <tools@example.com>"),
    ],
)
def test_mail_comes_from_the_host_that_people_open(sender, url, expected, monkeypatch):
    from pegboard import settings

    monkeypatch.setenv("PEGBOARD_MAIL_FROM", sender)
    monkeypatch.setenv("PEGBOARD_URL", url)
    assert settings._mail_sender() == expected


@pytest.mark.django_db
def test_doctor_speaks_to_a_terminal_that_is_not_in_utf_8(process_environment):
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--all", "--skip", "worker"],
        cwd=ROOT,
        env=process_environment | {"PYTHONIOENCODING": "ascii", "PEGBOARD_SECRET_KEY": "short"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "(secret_key)" in done.stdout
    assert "→" not in done.stdout
