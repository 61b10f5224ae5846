"""Bellwether: two agents, one that writes letters and one that plans journeys.

An agent receives an input and a configuration and returns a result, a question or a failure. Its caller
stores what the agent needs to continue after a question.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from demo.fake_data import number, pick, today
from demo.worlds import world

WORLD = world("bellwether")
TOWNS: list[str] = WORLD["records"]["towns"]


@dataclass(frozen=True, slots=True)
class RunResult:
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunInterrupt:
    kind: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFailure:
    code: int
    text: str


Step = RunResult | RunInterrupt | RunFailure
Values = dict[str, Any]


class AgentDescription:
    """The description of an agent, from `about`, its part of the vendor's world."""

    about: dict[str, Any]
    id: str
    name: str
    version: str
    description: str
    specs: dict[str, Any]

    def __init_subclass__(cls) -> None:
        cls.id, cls.name, cls.version = (cls.about[member] for member in ("id", "name", "version"))
        cls.description, cls.specs = cls.about["description"], cls.about["specs"]


class LetterWriter(AgentDescription):
    about = WORLD["agents"]["letters"]

    def start(self, values: Values, config: Values) -> Step:
        return self._show_draft(values, config)

    def resume(self, values: Values, config: Values, answer: Values) -> Step:
        if answer.get("approved") is True:
            arrives = today() + timedelta(days=2)
            letter = self.letter(values, config)
            return RunResult({"letter": letter, "posted": True, "arrives_on": str(arrives)})
        if changes := answer.get("changes"):
            values["about"] = f"{values['about']}. {changes}"
            return self._show_draft(values, config)
        return RunResult({"letter": self.letter(values, config), "posted": False})

    def drafts(self, values: Values, config: Values) -> Iterator[Values]:
        """Yield the drafts of the letter, each one paragraph longer than the one before."""
        parts = self.letter(values, config).split("\n\n")
        yield from ({"letter": "\n\n".join(parts[:count])} for count in range(1, len(parts) + 1))

    def _show_draft(self, values: Values, config: Values) -> Step:
        message = f"May this letter to {values['to']} be posted?"
        return RunInterrupt("approval", {"message": message, "letter": self.letter(values, config)})

    def letter(self, values: Values, config: Values) -> str:
        tone = config.get("tone", "PLAIN")
        hello = {"WARM": "Dear {}!", "FORMAL": "To {},"}.get(tone, "Dear {},").format(values["to"])
        notes = [part.strip().capitalize() for part in values["about"].split(".") if part.strip()]
        body = [f"{note}." for note in notes][: values.get("length", 2)]
        bye = {"WARM": "With love", "FORMAL": "Respectfully"}.get(tone, "Regards")
        return "\n\n".join([hello, *body, f"{bye}, {config.get('signed', 'the Bellwether desk')}"])


class JourneyPlanner(AgentDescription):
    about = WORLD["agents"]["journeys"]

    def start(self, values: Values, config: Values) -> Step:
        if values["nights"] > 21:
            return RunFailure(21, "Journeys of more than 21 nights are planned by people, not by this agent.")
        if values["wish"].title() in TOWNS:
            town = values["wish"].title()
            stops = 2 if config.get("pace") == "BRISK" else 1
            sights = WORLD["records"]["sights"]
            stay = [
                f"{town}: " + ", then ".join(pick(sights, town, night, stop) for stop in range(stops))
                for night in range(values["nights"])
            ]
            days = [f"Train from {values['start']} to {town}.", *stay, f"Train back to {values['start']}."]
            return RunResult(
                {"days": days, "total_cents": 9_000 * values["nights"] + number(4_000, 30_000, town)}
            )
        towns = [town for town in TOWNS if number(0, 2, values["wish"], town)] or TOWNS
        question = f"Which of these shall it be for “{values['wish']}”?"
        return RunInterrupt("choice", {"question": question, "towns": towns})

    def resume(self, values: Values, config: Values, answer: Values) -> Step:
        values["wish"] = str(answer.get("town", ""))
        return self.start(values, config)

    def drafts(self, values: Values, config: Values) -> Iterator[Values]:
        return iter(())


Agent = LetterWriter | JourneyPlanner
AGENTS: tuple[Agent, ...] = (LetterWriter(), JourneyPlanner())
