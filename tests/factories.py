"""Rows for tests, one plain function for each; every field has a default that is fine."""

import json
from itertools import count
from typing import Any

from catalog.models import Endpoint, Tool, ToolVersion, Vendor
from core.canonical_json import canonical, digest
from designer.agents import transfers
from designer.models import Agent, Pin
from people.models import Role, User
from protocols.signature import Parameter, Signature, to_json

_numbers = count(1)
PASSWORD = "correct horse battery"


def make_user(role: str = Role.VIEWER, *, username: str = "", **fields: Any) -> User:
    return User.objects.create_user(username or f"{role}{next(_numbers)}", PASSWORD, role=role, **fields)


def user_of(role: str) -> User:
    """The first user of the role: made where there is none."""
    return User.objects.filter(role=role).order_by("pk").first() or make_user(role)


def make_vendor(**fields: Any) -> Vendor:
    number = next(_numbers)
    return Vendor.objects.create(**{"name": f"Vendor {number}", "slug": f"vendor-{number}"} | fields)


def make_endpoint(**fields: Any) -> Endpoint:
    if "vendor" not in fields:
        fields["vendor"] = make_vendor()
    return Endpoint.objects.create(
        **{"protocol": "a2t", "url": f"http://127.0.0.1:{9000 + next(_numbers)}/"} | fields
    )


def make_parameter(name: str = "city", **fields: Any) -> Parameter:
    defaults: dict[str, Any] = {
        "id": name,
        "name": name,
        "type": "string",
        "required": True,
        "description": f"The {name}",
    }
    return Parameter(**defaults | fields)


def make_signature(name: str = "forecast", **fields: Any) -> Signature:
    defaults: dict[str, Any] = {
        "name": name,
        "description": "Tomorrow's weather for a city",
        "inputs": (make_parameter(),),
    }
    return Signature(**defaults | fields)


def make_tool(signature: Signature | None = None, **fields: Any) -> Tool:
    """Make a tool with its first version, which is the current one."""
    number = next(_numbers)
    if "endpoint" not in fields:
        fields["endpoint"] = make_endpoint()
    signature = signature or make_signature(fields.get("name") or f"tool_{number}")
    tool = Tool.objects.create(
        **{
            "tool_id": f"tool-{number}",
            "name": signature.name,
            "title": signature.title,
            "description": signature.description,
            "tags": list(signature.tags),
            "version_count": 0,
        }
        | fields
    )
    make_version(tool, signature)
    return tool


def make_version(
    tool: Tool, signature: Signature | None = None, *, label: str = "", is_current: bool = True, **fields: Any
) -> ToolVersion:
    """Create the next version of `tool`; the current one by default."""
    ordinal = tool.version_count + 1
    signature = signature or make_signature(tool.name, description=f"Words of version {ordinal}")
    encoded = to_json(signature).decode()
    document = json.loads(encoded)
    label = label or str(ordinal)
    version = ToolVersion.objects.create(
        **{
            "tool": tool,
            "ordinal": ordinal,
            "label": label,
            "label_key": [int(label)] if label.isdigit() else [],
            "rewrite": tool.versions.filter(label=label).count(),
            "digest": digest(document),
            "signature": encoded,
            "raw": canonical(document).decode(),
        }
        | fields
    )
    tool.version_count = ordinal
    if is_current:
        tool.current = version
        tool.name, tool.title, tool.description = signature.name, signature.title, signature.description
        tool.tags = list(signature.tags)
    tool.save()
    return version


def make_agent(**fields: Any) -> Agent:
    number = next(_numbers)
    agent = Agent.objects.create(**{"name": f"Agent {number}", "slug": f"agent-{number}"} | fields)
    transfers.follow(agent)
    return agent


def make_pin(agent: Agent | None = None, tool: Tool | None = None, **fields: Any) -> Pin:
    tool = tool or make_tool()
    return Pin.objects.create(
        **{
            "agent": agent or make_agent(),
            "tool": tool,
            "version": tool.current,
            "name": tool.name.replace(" ", "_")[:64],
        }
        | fields
    )
