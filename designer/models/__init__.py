"""What our people decided (agents, pins, tunings) and what was published (releases)."""

from designer.models.agents import AGENTS_OF_KEY, Agent, AgentAddress, AgentVendor, KeyAgent, Transfer
from designer.models.budgets import TokenLimit
from designer.models.channels import Channel, ChannelMove
from designer.models.news import Follow, WebhookAgent
from designer.models.pins import Pin, PinQuerySet, Tuning
from designer.models.procedures import (
    Procedure,
    ProcedureDraft,
    ProcedureReference,
    ProcedureVersion,
)
from designer.models.releases import (
    PUBLISHING_KEY,
    Draft,
    EffectiveVersion,
    Export,
    PublishingKey,
    Release,
    Retirement,
)
from designer.models.signing import Receipt, ReleaseSignature, SigningKey

__all__ = [
    "AGENTS_OF_KEY",
    "PUBLISHING_KEY",
    "Agent",
    "AgentAddress",
    "AgentVendor",
    "Channel",
    "ChannelMove",
    "Draft",
    "EffectiveVersion",
    "Export",
    "Follow",
    "KeyAgent",
    "Pin",
    "PinQuerySet",
    "Procedure",
    "ProcedureDraft",
    "ProcedureReference",
    "ProcedureVersion",
    "PublishingKey",
    "Receipt",
    "Release",
    "ReleaseSignature",
    "Retirement",
    "SigningKey",
    "TokenLimit",
    "Transfer",
    "Tuning",
    "WebhookAgent",
]
