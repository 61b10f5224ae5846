"""The chapter "Kubernetes" of docs/install.md: its values are rendered, its commands fit the chart."""

import argparse
import re
import shlex
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_helm_chart import (
    CHART,
    KUBERNETES_VERSIONS,
    ROOT,
    environment_of,
    of_kind,
    pods_of,
    render,
)

CHAPTER = (ROOT / "docs" / "install.md").read_text().split("\n## Kubernetes\n")[1]
VALUES_TEXT = re.search(r"```yaml\n# (\S+)\n(.+?)```", CHAPTER, flags=re.DOTALL)
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```\n(.+?)```", CHAPTER, flags=re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


def commands_of(*words):
    return [command[len(words) :] for command in COMMANDS if command[: len(words)] == list(words)]


@pytest.fixture(scope="module")
def manifests():
    """The objects that `helm install` of the manual makes."""
    (arguments,) = commands_of("helm", "install")
    parser = argparse.ArgumentParser()
    parser.add_argument("release")
    parser.add_argument("chart", type=Path)
    parser.add_argument("--values")
    options = parser.parse_args(arguments)
    assert (ROOT / options.chart).resolve() == CHART
    assert options.values == VALUES_TEXT[1]
    return render(yaml.safe_load(VALUES_TEXT[2]), options.release)


@pytest.fixture(scope="module")
def secrets():
    """The variables of each Secret that the manual creates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--from-literal", action="append")
    options = [
        parser.parse_args(command) for command in commands_of("kubectl", "create", "secret", "generic")
    ]
    return {option.name: dict(literal.split("=", 1) for literal in option.from_literal) for option in options}


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_kubernetes_accepts_what_the_manual_installs(manifests, version):
    for manifest in manifests:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_every_command_is_one_that_these_tests_know():
    assert {tuple(command[:2]) for command in COMMANDS} == {
        ("kubectl", "create"),
        ("kubectl", "exec"),
        ("helm", "install"),
    }


def test_the_manual_creates_the_secrets_that_the_pods_read(manifests, secrets):
    names = {
        source["secretRef"]["name"]
        for pod in pods_of(manifests).values()
        for source in pod["spec"]["containers"][0].get("envFrom", [])
        if "secretRef" in source
    }
    assert names == secrets.keys()


def test_the_secrets_contain_the_variables_that_the_processes_need(manifests, secrets):
    needed = {"DATABASE_URL", "REDIS_URL", "PEGBOARD_SECRET_KEY", "PEGBOARD_KEYS"}
    assert secrets["pegboard-secrets"].keys() == needed
    (migration,) = pods_of(manifests)["migrate"]["spec"]["containers"]
    assert secrets["pegboard-owner"].keys() == {"DATABASE_URL", "POSTGRES_APP_PASSWORD"}
    assert "--password-from POSTGRES_APP_PASSWORD" in " ".join(migration["args"])
    # No process that serves users may connect as the owner.
    assert secrets["pegboard-owner"]["DATABASE_URL"] != secrets["pegboard-secrets"]["DATABASE_URL"]


def test_the_address_of_the_manual_is_the_one_of_the_ingress(manifests):
    (ingress,) = of_kind(manifests, "Ingress").values()
    host = ingress["spec"]["rules"][0]["host"]
    assert environment_of(manifests, "web")["PEGBOARD_URL"] == f"https://{host}"


def test_commands_in_pods_name_a_deployment_and_a_command_of_the_product(manifests):
    commands = commands_of("kubectl", "exec")
    assert commands
    for command in commands:
        separator = command.index("--")
        (pod,) = (word for word in command[:separator] if word != "-it")
        words = command[separator + 1 :]
        kind, _, name = pod.partition("/")
        assert kind == "deploy"
        assert name in of_kind(manifests, "Deployment")
        assert words[:2] == ["python", "manage.py"]


def test_the_values_that_the_chapter_names_exist():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    names = re.findall(r"`((?:backup|ingress|networkPolicy|workloads)\.\w+(?:\.\w+)*)`", CHAPTER)
    assert len(names) > 2
    for name in names:
        value = defaults
        for member in name.replace(".NAME.", ".web.").split("."):
            assert member in value, name
            value = value[member]
