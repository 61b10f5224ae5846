"""The whole promise of the catalog in a page of Python, and a machine that plays against it.

A vendor publishes, changes, withdraws and brings back tools; readings come and are killed; people decide,
pin, move, edit and publish. After each step the product must hold what the model holds, and nothing that
was ever seen or published may have changed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rest_framework.test import APIClient

from catalog import tasks
from catalog.enumeration import runs as enumeration_runs
from catalog.enumeration import schedule
from catalog.models import Finding, Run, Tool, ToolVersion
from catalog.models.findings import Severity
from catalog.models.runs import Trigger
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_user
from tests.faults.catalog import let_the_lease_run_out
from tests.faults.warm import Warm
from tests.vendor import Document, Vendor, tool

POINTS = ("claimed", "staging", "staged", "record-locked", "record-versions", "record-commit", "recorded")
MAY_LOSE = 30  # percent
FIRST_TOOLS = 8
_numbers = count(1)


@dataclass(frozen=True)
class Version:
    label: int
    text: str


@dataclass
class ModelTool:
    """One tool of the catalog: versions in order of first sight, and the one that is offered."""

    versions: list[Version]
    current: Version
    stopped: Version | None = None
    is_active: bool = True

    @property
    def last_listed(self) -> Version:
        return self.stopped or self.current

    def see(self, version: Version) -> None:
        """The endpoint's policy holds a new text until a user has accepted it."""
        self.is_active = True
        if version == self.last_listed or version.label < self.last_listed.label:
            return
        self.versions.append(version)
        if version.text == self.current.text:
            self.current, self.stopped = version, None
        else:
            self.stopped = version


@dataclass
class Model:
    listed: dict[int, Version] = field(default_factory=dict)
    removed: dict[int, Version] = field(default_factory=dict)
    tools: dict[int, ModelTool] = field(default_factory=dict)
    pins: dict[int, Version] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)

    def is_held(self) -> bool:
        """More would be withdrawn than a person need not confirm."""
        active = [number for number, tool in self.tools.items() if tool.is_active]
        missing = [number for number in active if number not in self.listed]
        return len(missing) * 100 > len(active) * MAY_LOSE

    def enumerate(self, *, is_confirmed: bool = False) -> None:
        if self.is_held() and not is_confirmed:
            return
        for number, version in self.listed.items():
            if number in self.tools:
                self.tools[number].see(version)
            else:
                self.tools[number] = ModelTool([version], version)
        for number, model_tool in self.tools.items():
            model_tool.is_active = number in self.listed

    def document(self) -> list[Document]:
        return [
            tool(number, version.label, description=version.text)
            for number, version in sorted(self.listed.items())
        ]

    def export(self) -> dict[str, tuple[str, str]]:
        """Return the texts and the version of each pinned tool, as a model reads them."""
        return {
            f"tool_{number}": (self.words.get(number, version.text), str(version.label))
            for number, version in self.pins.items()
        }


class Machine(RuleBasedStateMachine):
    """The test sets `vendor` and `worker` on a subclass, and `tell` to be notified of each fault."""

    vendor: Vendor
    worker: Warm
    tell: Callable[[str], None] = staticmethod(lambda kind: None)

    @initialize()
    def begin(self) -> None:
        self.model, self.sealed = Model(), {}
        self.kept: dict[int, tuple[Any, ...]] = {}
        self.pin_ids: dict[int, int] = {}
        self.vendor.page_size = 1_000
        self.endpoint = make_endpoint(url=self.vendor.url, policy={"text": "hold"})
        self.agent = make_agent()
        self.api = APIClient()
        self.api.force_login(make_user(Role.ADMIN))
        for _ in range(FIRST_TOOLS):
            self.publishes_a_tool()
        self.is_read()

    # The vendor.

    @rule()
    def publishes_a_tool(self) -> None:
        number = next(_numbers)
        self.model.listed[number] = Version(1, f"Does thing {number}.")

    def _one(self, data: st.DataObject, numbers: Any) -> int:
        return data.draw(st.sampled_from(sorted(numbers)))

    @precondition(lambda self: self.model.listed)
    @rule(data=st.data(), by=st.sampled_from([-1, 0, 1]), is_new_text=st.booleans())
    def changes_a_tool(self, data: st.DataObject, by: int, is_new_text: bool) -> None:
        """A new version, one changed in place, or one that goes back."""
        number = self._one(data, self.model.listed)
        old = self.model.listed[number]
        text = f"Does thing {number} in way {next(_numbers)}." if is_new_text else old.text
        self.model.listed[number] = Version(max(1, old.label + by), text)

    @precondition(lambda self: self.model.listed)
    @rule(data=st.data())
    def withdraws_a_tool(self, data: st.DataObject) -> None:
        number = self._one(data, self.model.listed)
        self.model.removed[number] = self.model.listed.pop(number)

    @precondition(lambda self: self.model.removed)
    @rule(data=st.data())
    def brings_a_tool_back(self, data: st.DataObject) -> None:
        number = self._one(data, self.model.removed)
        self.model.listed[number] = self.model.removed.pop(number)

    # Readings.

    def _request(self) -> Run:
        self.vendor.listed = self.model.document()
        return enumeration_runs.request_run(self.endpoint, trigger=Trigger.COMMAND)

    @rule()
    def is_read(self) -> None:
        tasks.enumerate_run(self._request().pk)
        self.model.enumerate()

    @rule(point=st.sampled_from(POINTS))
    def is_read_by_a_worker_that_dies(self, point: str) -> None:
        run = self._request()
        if self.worker.start("task", run.pk, crash=point).wait().status < 0:
            self.tell("worker killed in a game")
        let_the_lease_run_out()
        schedule.tick()
        tasks.enumerate_run(run.pk)
        self.model.enumerate()

    @precondition(lambda self: self.model.is_held())
    @rule()
    def is_confirmed(self) -> None:
        self.is_read()
        held_run = Run.objects.filter(endpoint=self.endpoint).latest("pk")
        reply = self.api.post(f"/api/v1/runs/{held_run.pk}/confirm/")
        assert reply.status_code == 202, reply.content
        tasks.enumerate_run(reply.json()["run"])
        self.model.enumerate(is_confirmed=True)

    # People.

    @precondition(lambda self: any(tool.stopped for tool in self.model.tools.values()))
    @rule(data=st.data(), decision=st.sampled_from(["accept", "accept", "block"]))
    def is_decided(self, data: st.DataObject, decision: str) -> None:
        number = self._one(data, [n for n, tool in self.model.tools.items() if tool.stopped])
        tool = self.model.tools[number]
        ordinal = tool.versions.index(tool.last_listed) + 1
        about = Finding.objects.filter(
            tool__endpoint=self.endpoint, tool__name=f"tool_{number}", version__ordinal=ordinal
        )
        # A decision about the most severe finding is one about the others, too.
        finding = max(about, key=lambda finding: Severity.values.index(finding.severity))
        reply = self.api.post(f"/api/v1/findings/{finding.pk}/resolve/", {"decision": decision})
        assert reply.status_code == 200, reply.content
        if decision == "accept":
            tool.current, tool.stopped = tool.last_listed, None

    def _free(self) -> list[int]:
        return [n for n, tool in self.model.tools.items() if tool.is_active and n not in self.model.pins]

    @precondition(lambda self: self._free())
    @rule(data=st.data())
    def is_pinned(self, data: st.DataObject) -> None:
        number = self._one(data, self._free())
        row = Tool.objects.get(endpoint=self.endpoint, name=f"tool_{number}")
        reply = self.api.post(f"/api/v1/agents/{self.agent.slug}/pins/", {"tool": row.pk})
        assert reply.status_code == 201, reply.content
        self.pin_ids[number] = reply.json()["id"]
        self.model.pins[number] = self.model.tools[number].current

    def _pin(self, number: int) -> str:
        return f"/api/v1/agents/{self.agent.slug}/pins/{self.pin_ids[number]}/"

    @precondition(lambda self: self.model.pins)
    @rule(data=st.data())
    def is_moved(self, data: st.DataObject) -> None:
        number = self._one(data, self.model.pins)
        tool = self.model.tools[number]
        version = tool.versions.index(tool.current) + 1
        reply = self.api.patch(self._pin(number), {"version": version})
        assert reply.status_code == 200, reply.content
        self.model.pins[number] = tool.current

    @precondition(lambda self: self.model.pins)
    @rule(data=st.data())
    def is_edited(self, data: st.DataObject) -> None:
        number, words = self._one(data, self.model.pins), f"Our words {next(_numbers)}"
        reply = self.api.put(f"{self._pin(number)}tuning/", {"description": words})
        assert reply.status_code == 200, reply.content
        self.model.words[number] = words

    @precondition(lambda self: self.model.pins)
    @rule()
    def is_published(self) -> None:
        url = f"/api/v1/agents/{self.agent.slug}/releases/"
        reply = self.api.post(url, {})
        if reply.status_code == 409:
            assert reply.json()["code"] == "nothing_changed", reply.content
        else:
            number = reply.json()["number"]
            self.sealed[f"{url}{number}/bundle/"] = reply.json()["digest"]
        newest = self.api.get(list(self.sealed)[-1]).json()
        tools_by_name = {
            tool["signature"]["name"]: (tool["signature"]["description"], tool["version"]["label"])
            for tool in newest["tools"]
        }
        assert tools_by_name == self.model.export()

    # Invariants after every step.

    @invariant()
    def the_catalog_is_the_models(self) -> None:
        rows = Tool.objects.filter(endpoint=self.endpoint).values_list(
            *("name", "status", "current__label", "description", "stopped__label", "version_count")
        )
        facts_by_name = {name: facts for name, *facts in rows}
        assert facts_by_name == {
            f"tool_{number}": [
                "active" if tool.is_active else "withdrawn",
                str(tool.current.label),
                tool.current.text,
                str(tool.stopped.label) if tool.stopped else None,
                len(tool.versions),
            ]
            for number, tool in self.model.tools.items()
        }

    @invariant()
    def somebody_counts_the_steps(self) -> None:
        self.tell("step of a game")

    @invariant()
    def nothing_that_was_seen_has_changed(self) -> None:
        versions = ToolVersion.objects.filter(tool__endpoint=self.endpoint)
        now = {
            pk: facts for pk, *facts in versions.values_list("pk", "ordinal", "digest", "raw", "signature")
        }
        assert self.kept.items() <= now.items()
        self.kept = now

    def teardown(self) -> None:
        for url, digest in getattr(self, "sealed", {}).items():
            assert hashlib.sha256(self.api.get(url).content).hexdigest() == digest
