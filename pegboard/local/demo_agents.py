"""The agents of the demo: one that answers patients, and one whose mail is sent as its environment has it.

`sendEmail` is the example of the Tool System: a prototype that the model answers, a mock in tests, and a
vendor in production, under one signature. docs/environments.md has it in words.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from catalog.models import Activity, Tool, ToolVersion
from catalog.tools import definitions
from demo import PROCEDURES
from designer.agents.agents import create_agent
from designer.environments import environments, mocks
from designer.models import Agent, Pin
from designer.pins.pins import pin_tool
from designer.procedures.editing import create_procedure
from designer.rehearsals import sentences
from designer.rehearsals.sentences import NewSentence
from designer.releases import publishing
from execution.activities import operations as activities
from people.models import User
from protocols.definition import Parts

FRONT_DESK, REMINDERS = "front-desk", "reminders"
# The tools of which a demo vendor has news.
PINNED = (
    "list_prescriptions",
    "find_stores",
    "refill_prescription",
    "check_drug_interactions",
    "book_appointment",
)
TEXT = {"type": "string"}
SEND_EMAIL = Parts(
    name="sendEmail",
    title="Send an e-mail",
    description="Send an e-mail to one person.",
    inputs={
        "type": "object",
        "properties": {
            "recipient": TEXT | {"description": "The address of who is to read it."},
            "subject": TEXT | {"description": "What it is about, in one line."},
            "text": TEXT | {"description": "The message, as plain text."},
        },
        "required": ["recipient", "subject", "text"],
    },
    output={
        "type": "object",
        "properties": {"sent": {"type": "boolean", "description": "Whether it is on its way."}},
        "required": ["sent"],
    },
)
# By the vendor's slug: the tool for the same job, our inputs by its inputs, and its output that means `sent`.
SENDERS: dict[str, tuple[str, str, Mapping[str, str], str]] = {
    "pennypost": (
        "Send by Pennypost",
        "deliver_message",
        {"To": "recipient", "Heading": "subject", "Text": "text"},
        "Accepted",
    ),
    "larkspur": (
        "Send by Larkspur",
        "Notes_SendNote",
        {"email_address": "recipient", "title": "subject", "message": "text"},
        "sent",
    ),
}
SENTENCES = (
    NewSentence("How far is refill RF-20391?", "get_refill_status", {"refill_number": "RF-20391"}),
    NewSentence("Is my refill ready to be picked up?", "get_refill_status"),
    NewSentence("Write to ada@example.com that it is ready.", "sendEmail", {"recipient": "ada@example.com"}),
    NewSentence("Send me a mail about it, please.", "sendEmail"),
)


def make_agents(designer: User) -> None:
    """Create the demo agents. Those that a user has changed or removed stay as they are."""
    if not Agent.objects.filter(slug=FRONT_DESK).exists():
        make_front_desk(designer)
    if not Agent.objects.filter(slug=REMINDERS).exists():
        make_reminders(designer)


def make_front_desk(designer: User) -> None:
    agent = create_agent(
        actor=designer,
        name="Front desk",
        slug=FRONT_DESK,
        description="Answers patients who write to the pharmacy: refills, appointments, interactions.",
    )
    for name in PINNED:
        if tool := find_demo_tool(name):
            pin_tool(agent, actor=designer, tool=tool)
    write_procedure(agent, designer, "refill", "Refill a prescription")


@transaction.atomic
def make_reminders(designer: User) -> None:
    status = find_demo_tool("get_refill_status")
    if status is None:
        return
    agent = create_agent(
        actor=designer,
        name="Reminders",
        slug=REMINDERS,
        description="Writes to patients whose refill is ready. Its environments say what sends the mail.",
    )
    mail = definitions.define(actor=designer, parts=SEND_EMAIL)
    pins = [pin_tool(agent, actor=designer, tool=tool) for tool in (status, mail)]
    write_procedure(agent, designer, "remind", "Remind a patient")
    sentences.add(agent, actor=designer, new_sentences=SENTENCES)
    bind(agent, designer, *pins)
    publishing.publish(
        agent,
        actor=designer,
        note="For the demo.",
        channel="live",
        accept=["unreviewed"],
        reason="For the demo.",
    )


def bind(agent: Agent, designer: User, status: Pin, mail: Pin) -> None:
    prototype, test, production = (
        environments.create(agent, actor=designer, name=name, is_default=name == "production")
        for name in ("prototype", "test", "production")
    )
    environments.bind(prototype, mail.tool, actor=designer, activity=None)
    examples = {
        status: [{"outputs": {"status": "READY", "drug": "Lisinopril 10 mg"}}],
        mail: [{"outputs": {"sent": True}}],
    }
    for pin, replies in examples.items():
        mocked = mocks.save(pin, actor=designer, config={"examples": replies})
        environments.bind(test, pin.tool, actor=designer, activity=mocked.activity)
    assertions = [{"is": "before", "tool": status.name, "other": mail.name}]
    mocks.set_assertions(agent, actor=designer, documents=assertions)
    senders = [sender(vendor, mail.version, designer) for vendor in SENDERS]
    if first := next(filter(None, senders), None):
        environments.bind(production, mail.tool, actor=designer, activity=first)


def sender(vendor: str, interface: ToolVersion, designer: User) -> Activity | None:
    """Return an activity by which this vendor sends the mail, None if its tool is not offered."""
    name, tool_name, inputs, output = SENDERS[vendor]
    tool = Tool.objects.filter(endpoint__vendor__slug=vendor, name=tool_name, status="active").first()
    if tool is None or tool.current is None:
        return None
    picked: dict[str, Any] = {
        vendor_name: {"input": input_name} for vendor_name, input_name in inputs.items()
    }
    step = {"tool": tool.pk, "ordinal": tool.current.ordinal, "inputs": picked}
    config = {"steps": [step], "outputs": {"sent": {"step": 1, "output": output}}}
    return activities.create(actor=designer, name=name, kind="vendor", config=config, interface=interface)


def write_procedure(agent: Agent, designer: User, name: str, title: str) -> None:
    create_procedure(
        agent,
        actor=designer,
        title=title,
        slug=name,
        body=(PROCEDURES / f"{name}.md").read_text(encoding="utf-8"),
        why="For the demo.",
    )


def find_demo_tool(name: str) -> Tool | None:
    return Tool.objects.filter(name=name, status="active").order_by("pk").first()
