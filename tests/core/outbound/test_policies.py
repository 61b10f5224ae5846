"""The private networks that are open to an address, by the role that entered it and by its purpose."""

import ast
import re
from ipaddress import ip_address
from pathlib import Path

import pytest

from core.outbound import policy
from core.outbound.policy import POLICIES, AddressSource, Door, policy_for

ROOT = Path(__file__).resolve().parents[3]
NAMES = {
    "`PEGBOARD_OUTBOUND_ALLOW`": policy.outbound_policy,
    "`PEGBOARD_CALLBACK_ALLOW`": policy.callback_policy,
    "none": policy.public_policy,
}
ROW = re.compile(r"^ *\| (?P<door>[\w ]+) \| (?P<source>\w+) \| (?P<networks>[^|]+) \|$", re.MULTILINE)


def test_the_documented_table_is_the_one_in_the_code():
    documented = {
        (Door(row["door"]), AddressSource(row["source"])): NAMES[row["networks"]]
        for row in ROW.finditer((ROOT / "docs/security.md").read_text())
        if row["networks"] in NAMES
    }
    assert documented == POLICIES


def test_what_only_vendors_may_reach_is_closed_to_every_other_role(settings):
    settings.OUTBOUND_ALLOW, settings.CALLBACK_ALLOW = "10.0.0.0/8", "192.168.0.0/16"
    for door, source in POLICIES:
        is_trusted = source in (AddressSource.ADMINISTRATOR, AddressSource.DEPLOYMENT)
        assert _opens("10.1.2.3", door, source) == is_trusted
        assert not (is_trusted and _opens("192.168.1.2", door, source))


def test_a_role_that_gives_no_address_has_no_policy():
    with pytest.raises(KeyError):
        policy_for(Door.VENDOR, AddressSource.DESIGNER)


def test_no_other_module_chooses_a_policy():
    allowed = {"core/outbound/policy.py", "pegboard/checks.py", "pegboard/startup_checks.py"}
    names = {choice.__name__ for choice in NAMES.values()}
    modules = {
        str(path.relative_to(ROOT))
        for package in (
            "core",
            "catalog",
            "protocols",
            "designer",
            "execution",
            "serving",
            "people",
            "pegboard",
        )
        for path in (ROOT / package).rglob("*.py")
        if any(name in path.read_text() for name in names)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and _name_of(node) in names
    }
    assert modules == allowed


def _name_of(node: ast.Name | ast.Attribute | ast.alias) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.alias():
            return node.name


def _opens(address: str, door: Door, source: AddressSource) -> bool:
    networks = policy_for(door, source).allow
    return any(ip_address(address) in entry.network for entry in networks)
