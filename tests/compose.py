"""docker-compose.yml as Docker Compose reads it."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
# The variables that an operator sets first, as the manual lists them.
VARIABLES = {
    "POSTGRES_PASSWORD": "owner1",
    "POSTGRES_APP_PASSWORD": "app1",
    "VALKEY_PASSWORD": "valkey1",
    "PEGBOARD_SECRET_KEY": "only-for-tests-of-containers-0123456789-abcdefghijklmnopqrstuvwxyz",
    "PEGBOARD_KEYS": "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
}
_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])([^}]*))?\})")


def compose_file() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def services() -> dict[str, Any]:
    return compose_file()["services"]


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Replace `${NAME}`, `${NAME:-default}` and `${NAME:?message}`. Raises KeyError for a required name."""

    def replace(match: re.Match[str]) -> str:
        name, operator, default = match.groups()
        if name is None:
            return "$"
        value = variables.get(name)
        is_missing = not value if operator and operator.startswith(":") else value is None
        if is_missing and operator and operator.endswith("?"):
            raise KeyError(name)
        return (default or "") if is_missing else str(value)

    return _REFERENCE.sub(replace, text)


def environment_of(service: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, str]:
    """Return what a container gets. A name without a value is passed on where the operator has set it."""
    entries = service.get("environment", {}).items()
    return {
        name: variables[name] if value is None else interpolate(str(value), variables)
        for name, value in entries
        if value is not None or name in variables
    }


def command_of(service: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Return the command of a service, [] for that of its image."""
    command = service.get("command", [])
    words = [*service.get("entrypoint", []), *(shlex.split(command) if isinstance(command, str) else command)]
    return [interpolate(word, variables) for word in words]
