"""Designers tune tools while their vendor changes them: random walks, and invariants of each enumeration.

Each tool takes a walk of its own: what designers and the vendor do to it is drawn for it alone. The tools of
a vendor share the readings, as they do in the product.
"""

import copy
from collections import Counter
from random import Random
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run, Tool
from catalog.models.runs import Trigger
from catalog.models.tools import ToolStatus
from catalog.review import inspector
from core.errors import DomainError
from designer.models import Pin
from designer.pins import pinned_signatures, pins, tunings
from designer.signatures.effective import Effective
from designer.signatures.words import (
    EFFECTS,
    NOTHING,
    Path,
    Words,
    from_members,
    members,
    merge_words,
    of_vendor,
)
from people.models import Role
from protocols.signature import Signature
from tests.factories import make_agent, make_endpoint, make_user
from tests.hostile.dialects import DIALECTS
from tests.hostile.shop import Shop
from tests.hostile_vendor import HostileVendor
from tests.vendor import Document

PROTOCOLS = ("a2t", "mcp")
INPUTS = {"q": "string", "unit": "enum", "limit": "int", "mode": "enum"}
VALUES, OUTPUTS = ("C", "F", "K"), ("sky", "wind", "trace")
LINES = ("Where to look.", "Takes a town.", "Or a postal code.", "Units vary.", "Days count from 1.")
PRESETS: dict[str, Any] = {"string": "Oslo", "enum": "C", "int": 3}
OF_DESIGNERS = {"tune": 4, "extend": 6, "revert": 1, "restore": 2, "settle": 6, "move": 3}
OF_THE_VENDOR = {"nothing": 3, "new version": 7, "an earlier text": 1, "withdraw": 2, "return": 3}
# Errors that an operation may raise for texts that were drawn independently of each other.
REFUSALS = {"invalid_tuning", "no_such_entry", "cannot_merge", "version_held"}


class Seen(NamedTuple):
    """`rows` is a digest of all tunings, with the transaction that wrote each; the others go by target."""

    rows: tuple[int, str]
    words: dict[str, dict[Path, Any]]
    shown: dict[str, Effective]
    stale: dict[str, set[Path]]


class Walks:
    """Each tool's document for the next enumeration is in `says`, those before in `earlier`."""

    def __init__(self, vendor: HostileVendor, protocol: str, random: Random, count: int, first: int = 1):
        self.random, self.protocol = random, protocol
        self.done: Counter[str] = Counter()
        self.trails: dict[int, list[str]] = {}
        dialect = DIALECTS[protocol]
        self.shop = Shop(dialect, [])
        self.shop.page_size = 1_000
        vendor.script = self.shop
        self.endpoint = make_endpoint(
            protocol=protocol,
            url=vendor.url + dialect.root,
            settings=dict(dialect.settings) | ({"page_size": 1_000} if protocol == "a2t" else {}),
            requests_per_second=10_000,
        )
        numbers = range(first, first + count)
        self.says = {number: self._new_tool() for number in numbers}
        self.earlier = {number: [copy.deepcopy(document)] for number, document in self.says.items()}
        self.versions = dict.fromkeys(numbers, 1)
        self.listed = dict.fromkeys(numbers, True)
        self.designer = make_user(Role.DESIGNER)
        self._read()
        by_name = {tool.name: tool for tool in Tool.objects.filter(endpoint=self.endpoint)}
        self.tools = {number: by_name[f"tool_{number}"] for number in numbers}
        self.agent = make_agent()
        self.pins = {
            number: pins.pin_tool(self.agent, actor=self.designer, tool=tool)
            for number, tool in self.tools.items()
        }

    def walk(self, rounds: int) -> None:
        for _ in range(rounds):
            for number in self.says:
                for _ in range(self.random.choice((0, 1, 1, 2))):
                    self._designers_step(number)
            self.is_left_alone_by_a_reading()

    def is_left_alone_by_a_reading(self) -> None:
        for number in self.says:
            self._vendors_step(number)
        before = self.seen()
        self._read()
        after = self.seen()
        assert after.rows == before.rows, "a reading wrote a tuning"
        for what in ("words", "shown"):
            old, new = getattr(before, what), getattr(after, what)
            other = {target for target in old | new if old.get(target) != new.get(target)}
            trails = [self.trails.get(int(target.split()[1])) for target in other]
            assert not other, f"a reading changed {what} of {sorted(other)} after {trails}"
        for number, tool in self.tools.items():
            pin_key, tool_key = f"pin {number}", f"tool {number}"
            trail = self.trails.get(number)
            assert after.stale[pin_key] == before.stale[pin_key], f"{pin_key} after {trail}"
            expected = self._stale_words_of(tool, number)
            assert after.stale[tool_key] == expected, f"{tool_key} after {trail}"
            self.done["members became stale by a reading"] += len(expected - before.stale[tool_key])

    def seen(self) -> Seen:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*), md5(string_agg(t.xmin::text || t::text, ',' ORDER BY t.id))"
                " FROM designer_tuning t"
            )
            rows = cursor.fetchone()
        words, shown_signatures, stale = {}, {}, {}
        numbers = {tool.pk: number for number, tool in self.tools.items()}
        for pin in pinned_signatures.pins_of_agents([self.agent]).select_related("tool__current"):
            number, tool = numbers[pin.tool_id], pin.tool
            catalog = pinned_signatures.words_about(tool)
            words[f"tool {number}"] = members(catalog)
            words[f"pin {number}"] = members(merge_words(catalog, pinned_signatures.words_about(pin)))
            shown_signatures[f"pin {number}"] = pinned_signatures.effective_of(pin)
            stale[f"pin {number}"] = {stale_text.path for stale_text in pinned_signatures.stale_of(pin)}
            about = tunings.stale_of(getattr(tool, "tuning", None), tool.current.decoded())
            stale[f"tool {number}"] = {finding.path for finding in about}
        return Seen(rows, words, shown_signatures, stale)

    def _stale_words_of(self, tool: Tool, number: int) -> set[Path]:
        """Compute it from the vendor's documents, not from the rows of the product."""
        row = tunings.tuning_of(tool)
        replaced = members(tunings.replaced_words(row))
        earlier_document = self.earlier[number][-1]
        now: dict[Path, Any] = {
            ("description",): earlier_document["description"],
            ("title",): earlier_document["title"],
        }
        for name, about in earlier_document["inputs"].items():
            now["parameters", name, "description"] = about["description"]
            for value, text in about.get("values", {}).items():
                now["parameters", name, "values", value, "description"] = text
        now |= {("outputs", name, "description"): text for name, text in earlier_document["outputs"].items()}
        now |= {("effects", name): earlier_document["effects"].get(name) for name in EFFECTS}
        own_members = members(tunings.words_of(row))
        return {path for path in own_members if path in now and replaced.get(path) != now[path]}

    def _read(self) -> Run:
        self.shop.tools = [self._document(number) for number, is_listed in self.listed.items() if is_listed]
        for number, is_listed in self.listed.items():
            if is_listed and self.earlier[number][-1] != self.says[number]:
                self.earlier[number].append(copy.deepcopy(self.says[number]))
        run = enumeration_runs.perform(
            enumeration_runs.request_run(self.endpoint, trigger=Trigger.COMMAND).pk
        )
        if run.error_code in ("EMPTY_HELD", "SHRINK_HELD"):
            self.done["held readings"] += 1
            admin = make_user(Role.ADMIN)
            run = enumeration_runs.perform(enumeration_runs.confirm_held(run, actor=admin).pk)
        assert (run.status, run.rejected) == ("succeeded", 0), run.error_message
        withdrawn_count = Tool.objects.filter(endpoint=self.endpoint, status=ToolStatus.WITHDRAWN).count()
        assert withdrawn_count == list(self.listed.values()).count(False)
        inspector.inspect_pending(self.endpoint.pk)
        self.done["readings"] += 1
        self.done["new versions"] += run.changed
        return run

    # Steps of designers.

    def _designers_step(self, number: int) -> None:
        is_pin = self.random.random() < 0.5
        target = self.pins[number] if is_pin else self.tools[number]
        target.refresh_from_db()
        version = target.version if isinstance(target, Pin) else target.current
        assert version
        signature, row = version.decoded(), tunings.tuning_of(target)
        stale = [stale_text.member for stale_text in tunings.stale_of(row, signature)]
        possible = {"settle": bool(stale), "move": is_pin, "extend": bool(row), "revert": bool(row)}
        weights = [weight * possible.get(deed, True) for deed, weight in OF_DESIGNERS.items()]
        (deed,) = self.random.choices(list(OF_DESIGNERS), weights=weights)
        self.trails.setdefault(number, []).append(f"{deed} {'pin' if is_pin else 'tool'}")
        try:
            self._does(deed, target, signature, stale)
        except DomainError as error:
            if error.code not in REFUSALS:
                raise
            deed = f"{deed}, refused: {error.code}"
        self.done[deed] += 1

    def _does(self, deed: str, target: Pin | Tool, signature: Signature, stale: list[str]) -> None:
        if deed in ("tune", "extend"):
            start = tunings.words_of(tunings.tuning_of(target)) if deed == "extend" else NOTHING
            tunings.tune(target, actor=self.designer, **self._words(signature, start))
        elif deed == "revert":
            tunings.revert(target, actor=self.designer)
        elif deed == "restore":
            entries = list(tunings.history(target).values_list("pk", flat=True))
            tunings.restore(target, actor=self.designer, entry=self.random.choice(entries or [0]))
        elif deed == "settle":
            take: Any = self.random.choice(("ours", "theirs", "merged"))
            tunings.settle(target, actor=self.designer, member=self.random.choice(stale), take=take)
        elif isinstance(target, Pin):
            ordinal = self.random.randint(1, target.tool.versions.count())
            pins.move_pin(target, actor=self.designer, ordinal=ordinal)

    def _words(self, signature: Signature, start: Words) -> Any:
        own_words, vendors = members(start), of_vendor(signature)
        types = {parameter.name: parameter.type for parameter in signature.inputs}
        for path in self.random.sample(list(vendors), self.random.randint(1, 8)):
            last = path[-1]
            if last in ("title", "description"):
                own_words[path] = self.random.choice((self._text(), f"{vendors[path]}\nAnd ours.".strip()))
            elif last == "name":
                own_words[path] = f"{path[1]}_{self.random.randint(1, 9)}"
            elif last == "preset":
                own_words[path] = PRESETS[types[path[1]]]
            else:
                own_words[path] = self.random.random() < 0.7
                if last == "hidden" and path[0] == "parameters" and len(path) == 3:
                    own_words[*path[:2], "preset"] = PRESETS[types[path[1]]]
        return msgspec.to_builtins(from_members(own_words))

    # Steps of the vendor.

    def _vendors_step(self, number: int) -> None:
        (deed,) = self.random.choices(list(OF_THE_VENDOR), weights=list(OF_THE_VENDOR.values()))
        if deed in ("new version", "an earlier text"):
            self.versions[number] += 1
            if deed == "new version":
                for _ in range(self.random.randint(1, 3)):
                    self._changes(self.says[number])
            else:
                self.says[number] = copy.deepcopy(self.random.choice(self.earlier[number]))
        elif deed in ("withdraw", "return"):
            if self.listed[number] == (deed == "return"):
                return
            self.listed[number] = deed == "return"
        self.trails.setdefault(number, []).append(deed)
        self.done[f"vendor: {deed}"] += 1

    def _changes(self, document: Document) -> None:
        what = self.random.choice(("description", "title", "input", "value", "output", "effects", "shape"))
        if what in ("description", "title"):
            document[what] = self._text() if what == "description" or self.protocol == "mcp" else ""
        elif what == "input":
            document["inputs"][self.random.choice(list(document["inputs"]))]["description"] = self._text()
        elif what == "value" and "unit" in document["inputs"]:
            values = document["inputs"]["unit"]["values"]
            values[self.random.choice(list(values))] = self._text()
        elif what == "output":
            document["outputs"][self.random.choice(list(document["outputs"]))] = self._text()
        elif what == "effects" and self.protocol == "mcp":
            document["effects"] = {
                name: self.random.choice((True, False)) for name in ("read_only", "destructive")
            }
        elif what == "shape":
            new = self._new_tool()
            member = self.random.choice(("inputs", "outputs"))
            document[member] = {name: document[member].get(name, text) for name, text in new[member].items()}

    def _new_tool(self) -> Document:
        inputs: Document = {"q": {"description": self._text()}}
        for name in self.random.sample(list(INPUTS)[1:], self.random.randint(1, 3)):
            inputs[name] = {"description": self._text()}
            if INPUTS[name] == "enum":
                some = self.random.sample(VALUES, self.random.randint(2, 3))
                inputs[name]["values"] = {value: self._text() for value in some}
        some = self.random.sample(OUTPUTS, self.random.randint(1, 3))
        return {
            "description": self._text(),
            "title": self._text() if self.protocol == "mcp" else "",
            "inputs": inputs,
            "outputs": {name: self._text() for name in some},
            "effects": {},
        }

    def _text(self) -> str:
        return "\n".join(self.random.choices(LINES, k=self.random.randint(1, 3)))

    def _document(self, number: int) -> Document:
        document, tool = self.says[number], DIALECTS[self.protocol].tool(number)
        if self.protocol == "a2t":
            return tool | {
                "version": self.versions[number],
                "currentVersion": self.versions[number],
                "description": document["description"],
                "input_parameters": [
                    {"id": name, "name": name, "type": INPUTS[name], "required": name == "q"}
                    | {"description": about["description"]}
                    | ({"allowed-values": about["values"]} if "values" in about else {})
                    for name, about in document["inputs"].items()
                ],
                "output_parameters": [
                    {"id": name, "name": name, "type": "string", "description": text}
                    for name, text in document["outputs"].items()
                ],
            }
        types = {"string": "string", "enum": "string", "int": "integer"}
        takes = {
            name: {"type": types[INPUTS[name]], "description": about["description"]}
            | (
                {"oneOf": [{"const": value, "title": text} for value, text in about["values"].items()]}
                if "values" in about
                else {}
            )
            for name, about in document["inputs"].items()
        }
        gives = {name: {"type": "string", "description": text} for name, text in document["outputs"].items()}
        hints = {"read_only": "readOnlyHint", "destructive": "destructiveHint"}
        return tool | {
            "title": document["title"],
            "description": document["description"],
            "inputSchema": {"type": "object", "properties": takes, "required": ["q"]},
            "outputSchema": {"type": "object", "properties": gives},
            "annotations": {hints[name]: value for name, value in document["effects"].items()},
        }
