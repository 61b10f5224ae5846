"""Bellwether: two agents, one that writes letters and one that plans journeys.

An agent takes an input and a configuration and answers with a result, a question or a failure. What
it needs to go on after a question is kept by whoever runs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from demo.invented import number, pick, today


@dataclass(frozen=True, slots=True)
class Result:
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    code: int
    text: str


Step = Result | Question | Failure
Values = dict[str, Any]


def text(description: str, *values: str) -> dict[str, Any]:
    return {"type": "string", "description": description, **({"enum": list(values)} if values else {})}


class LetterWriter:
    id = "6f4b1f0c-0a6e-4a0f-8a0e-6f2b6f1f2a01"
    name = "bellwether.letters"
    version = "2.1.0"
    description = (
        "Writes a letter from a few notes, shows it, and posts it once somebody has approved it. "
        "Changes may be asked for as often as needed."
    )
    specs: dict[str, Any] = {
        "capabilities": {
            "threads": False,
            "interrupts": True,
            "callbacks": False,
            "streaming": {"values": True, "custom": False},
        },
        "input": {
            "type": "object",
            "properties": {
                "to": text("Who gets the letter."),
                "about": text("What it should say, as notes."),
                "length": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "description": "Paragraphs; 2 if left out.",
                },
            },
            "required": ["to", "about"],
            "additionalProperties": False,
        },
        "output": {
            "type": "object",
            "properties": {
                "letter": {"type": "string"},
                "posted": {"type": "boolean"},
                "arrives_on": {"type": "string", "format": "date"},
            },
        },
        "config": {
            "type": "object",
            "description": "How letters are written.",
            "properties": {
                "tone": text("PLAIN if left out.", "WARM", "PLAIN", "FORMAL"),
                "signed": text("The name under the letter."),
            },
        },
        "interrupts": [
            {
                "interrupt_type": "approval",
                "interrupt_payload": {
                    "type": "object",
                    "properties": {"message": {"type": "string"}, "letter": {"type": "string"}},
                },
                "resume_payload": {
                    "type": "object",
                    "properties": {
                        "approved": {"type": "boolean", "description": "Whether it may be posted."},
                        "changes": text("What to write otherwise, if it was not approved."),
                    },
                    "required": ["approved"],
                },
            }
        ],
    }

    def start(self, given: Values, config: Values) -> Step:
        return self._shown(given, config)

    def resume(self, given: Values, config: Values, answer: Values) -> Step:
        if answer.get("approved") is True:
            arrives = today() + timedelta(days=2)
            letter = self.letter(given, config)
            return Result({"letter": letter, "posted": True, "arrives_on": str(arrives)})
        if changes := answer.get("changes"):
            given["about"] = f"{given['about']}. {changes}"
            return self._shown(given, config)
        return Result({"letter": self.letter(given, config), "posted": False})

    def drafts(self, given: Values, config: Values) -> Iterator[Values]:
        """The letter as it grows, paragraph by paragraph."""
        parts = self.letter(given, config).split("\n\n")
        yield from ({"letter": "\n\n".join(parts[:count])} for count in range(1, len(parts) + 1))

    def _shown(self, given: Values, config: Values) -> Step:
        message = f"May this letter to {given['to']} be posted?"
        return Question("approval", {"message": message, "letter": self.letter(given, config)})

    def letter(self, given: Values, config: Values) -> str:
        tone = config.get("tone", "PLAIN")
        hello = {"WARM": "Dear {}!", "FORMAL": "To {},"}.get(tone, "Dear {},").format(given["to"])
        notes = [part.strip().capitalize() for part in given["about"].split(".") if part.strip()]
        body = [f"{note}." for note in notes][: given.get("length", 2)]
        bye = {"WARM": "With love", "FORMAL": "Respectfully"}.get(tone, "Regards")
        return "\n\n".join([hello, *body, f"{bye}, {config.get('signed', 'the Bellwether desk')}"])


class JourneyPlanner:
    id = "6f4b1f0c-0a6e-4a0f-8a0e-6f2b6f1f2a02"
    name = "bellwether.journeys"
    version = "0.9.3"
    description = "Plans a journey by train, day by day. Asks for a choice where a wish leaves several."
    places = ("Bergen", "Ghent", "Porto", "Ljubljana", "Turku")
    specs: dict[str, Any] = {
        "capabilities": {"threads": False, "interrupts": True, "callbacks": False},
        "input": {
            "type": "object",
            "properties": {
                "start": text("The town where the journey begins."),
                "wish": text("A town, or what it should be like there: warm, by the sea, quiet."),
                "nights": {"type": "integer", "minimum": 1, "maximum": 60},
            },
            "required": ["start", "wish", "nights"],
        },
        "output": {
            "type": "object",
            "properties": {
                "days": {"type": "array", "items": {"type": "string"}},
                "total_cents": {"type": "integer", "minimum": 0},
            },
            "required": ["days"],
        },
        "config": {
            "type": "object",
            "properties": {"pace": text("EASY if left out.", "EASY", "BRISK")},
        },
        "interrupts": [
            {
                "interrupt_type": "choice",
                "interrupt_payload": {
                    "type": "object",
                    "properties": {
                        "question": {"type": "string"},
                        "towns": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "resume_payload": {
                    "type": "object",
                    "properties": {"town": text("One of the towns.")},
                    "required": ["town"],
                },
            }
        ],
    }

    def start(self, given: Values, config: Values) -> Step:
        if given["nights"] > 21:
            return Failure(21, "Journeys of more than 21 nights are planned by people, not by this agent.")
        if given["wish"].title() in self.places:
            return self._planned(given, config)
        towns = [town for town in self.places if number(0, 2, given["wish"], town)] or list(self.places)
        question = f"Which of these shall it be for “{given['wish']}”?"
        return Question("choice", {"question": question, "towns": towns})

    def resume(self, given: Values, config: Values, answer: Values) -> Step:
        given["wish"] = str(answer.get("town", ""))
        return self.start(given, config)

    def drafts(self, given: Values, config: Values) -> Iterator[Values]:
        return iter(())

    def _planned(self, given: Values, config: Values) -> Step:
        town = given["wish"].title()
        stops = 2 if config.get("pace") == "BRISK" else 1
        sights = ("the harbour", "the old market", "a museum", "the hills", "a long lunch")
        stay = [
            f"{town}: " + ", then ".join(pick(sights, town, night, stop) for stop in range(stops))
            for night in range(given["nights"])
        ]
        days = [f"Train from {given['start']} to {town}.", *stay, f"Train back to {given['start']}."]
        return Result({"days": days, "total_cents": 9_000 * given["nights"] + number(4_000, 30_000, town)})


Agent = LetterWriter | JourneyPlanner
AGENTS: tuple[Agent, ...] = (LetterWriter(), JourneyPlanner())
