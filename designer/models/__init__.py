"""The decisions of users (agents, pins, tunings), and releases."""

from designer.models.agents import AGENTS_OF_KEY, Agent, AgentAddress, AgentVendor, KeyAgent, Transfer
from designer.models.budgets import TokenLimit
from designer.models.channels import Channel, ChannelMove
from designer.models.environments import Binding, CallEnvironment, Environment, NamedActivity
from designer.models.guides import HiddenGuide
from designer.models.mocks import MockAssertions
from designer.models.news import Follow, WebhookAgent
from designer.models.pins import Pin, PinQuerySet, Tuning
from designer.models.procedures import (
    Procedure,
    ProcedureDraft,
    ProcedureReference,
    ProcedureVersion,
)
from designer.models.rehearsals import (
    Gate,
    Rehearsal,
    RehearsalJudge,
    RehearsalPlan,
    RehearsalRun,
    RehearsalStatus,
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
from designer.models.translations import TranslationRun

__all__ = [
    "AGENTS_OF_KEY",
    "PUBLISHING_KEY",
    "Agent",
    "AgentAddress",
    "AgentVendor",
    "Binding",
    "CallEnvironment",
    "Channel",
    "ChannelMove",
    "Draft",
    "EffectiveVersion",
    "Environment",
    "Export",
    "Follow",
    "Gate",
    "HiddenGuide",
    "KeyAgent",
    "MockAssertions",
    "NamedActivity",
    "Pin",
    "PinQuerySet",
    "Procedure",
    "ProcedureDraft",
    "ProcedureReference",
    "ProcedureVersion",
    "PublishingKey",
    "Receipt",
    "Rehearsal",
    "RehearsalJudge",
    "RehearsalPlan",
    "RehearsalRun",
    "RehearsalStatus",
    "Release",
    "ReleaseSignature",
    "Retirement",
    "SigningKey",
    "TokenLimit",
    "Transfer",
    "TranslationRun",
    "Tuning",
    "WebhookAgent",
]
