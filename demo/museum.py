"""Tiderow Museum: exhibitions, tickets and visits, as MCP tools."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from demo.calls import CannotDoError
from demo.fake_data import number, pick, today
from demo.worlds import world

WORLD = world("tiderow")
RECORDS = WORLD["records"]

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question instead of a result. The call continues once a user has filled in `form`."""

    name: str
    message: str
    form: dict[str, Any]


Result = Mapping[str, Any] | list[dict[str, Any]] | Elicitation


def object_of(number_of_it: int) -> dict[str, Any]:
    return {
        "object_id": f"TM-{number_of_it:04}",
        "what": pick(RECORDS["things"], number_of_it, "what"),
        "maker": pick(RECORDS["makers"], number_of_it, "maker"),
        "year": number(1690, 1935, number_of_it),
        "gallery": pick(RECORDS["galleries"], number_of_it),
    }


class Museum:
    """Visits live in memory only."""

    def __init__(self) -> None:
        self.visits: dict[str, dict[str, Any]] = {}

    def search_objects(self, arguments: Arguments, answers: Arguments) -> Result:
        words = arguments["query"].casefold().split()
        every = (object_of(n) for n in range(1000, 1200))
        gallery = arguments.get("gallery")
        matches = [
            item
            for item in every
            if all(word in f"{item['what']} {item['maker']}".casefold() for word in words)
            and gallery in (None, item["gallery"])
        ]
        return {"total": len(matches), "objects": matches[: arguments.get("limit", 10)]}

    def get_object(self, arguments: Arguments, answers: Arguments) -> Result:
        object_number = int(arguments["object_id"].removeprefix("TM-"))
        if not 1000 <= object_number < 1200:
            raise CannotDoError("object_not_found", f"The museum has no object {arguments['object_id']}.")
        return object_of(object_number)

    def read_label(self, arguments: Arguments, answers: Arguments) -> Result:
        item = dict(self.get_object(arguments, answers))  # type: ignore[arg-type]  # an object, never a question
        text = f"{item['what'].capitalize()}, made in {item['year']} by {item['maker']}."
        link = {
            "type": "resource_link",
            "name": f"{item['object_id']}.pdf",
            "uri": f"https://tiderow-museum.example/labels/{item['object_id']}.pdf",
            "mimeType": "application/pdf",
        }
        return [{"type": "text", "text": text}, link]

    def list_exhibitions(self, arguments: Arguments, answers: Arguments) -> Result:
        day = arguments.get("date") or str(today())
        exhibitions = [
            {"name": name, "gallery": pick(RECORDS["galleries"], name)} for name in RECORDS["exhibitions"]
        ]
        return {"date": day, "exhibitions": exhibitions[: number(1, 3, day)]}

    def get_opening_hours(self, arguments: Arguments, answers: Arguments) -> Result:
        day = day_of(arguments["date"])
        if day.weekday() == 0:
            return {"is_open": False}
        return {"is_open": True, "opens": "10:00", "closes": "20:00" if day.weekday() == 3 else "17:30"}

    def price_tickets(self, arguments: Arguments, answers: Arguments) -> Result:
        fares = RECORDS["fare_cents"]
        lines = [{**group, "cents": fares[group["fare"]] * group["count"]} for group in arguments["visitors"]]
        return {"lines": lines, "total_cents": sum(line["cents"] for line in lines)}

    def book_visit(self, arguments: Arguments, answers: Arguments) -> Result:
        language = "English"
        if arguments["people"] > RECORDS["largest_group"]:
            if "guide" not in answers:
                return Elicitation(
                    "guide",
                    f"Groups of more than {RECORDS['largest_group']} get a guide. In which language?",
                    {
                        "type": "object",
                        "properties": {"language": {"type": "string", "enum": RECORDS["languages"]}},
                        "required": ["language"],
                        "additionalProperties": False,
                    },
                )
            language = str(answers["guide"].get("language", language))
        day = day_of(arguments["date"])
        visit = f"V-{number(10_000, 99_999, day, arguments['people'], len(self.visits))}"
        self.visits[visit] = {"date": str(day), "people": arguments["people"], "guide_language": language}
        return {"visit_id": visit, **self.visits[visit]}

    def cancel_visit(self, arguments: Arguments, answers: Arguments) -> Result:
        return {"was_booked": self.visits.pop(arguments["visit_id"], None) is not None}

    def plan_route(self, arguments: Arguments, answers: Arguments) -> Result:
        share = arguments.get("minutes", 90) // max(1, len(arguments["galleries"]))
        return {"stops": [{"gallery": gallery, "minutes": share} for gallery in arguments["galleries"]]}

    def report_condition(self, arguments: Arguments, answers: Arguments) -> Result:
        self.get_object(arguments, answers)
        return {"report_id": f"C-{number(100, 999, arguments['object_id'], arguments['condition'])}"}

    def count_visitors(self, arguments: Arguments, answers: Arguments) -> Result:
        days = [today() - timedelta(days=n) for n in range(1, arguments.get("days", 7) + 1)]
        return {"by_day": {str(day): number(120, 900, day) for day in days}}


def day_of(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise CannotDoError("bad_date", f"{text} is no date such as 2027-03-09.") from exc


@dataclass(frozen=True, slots=True)
class MuseumTool:
    """A tool of the museum.

    `document` is the tool as MCP lists it. `run` gets arguments that fit `inputs`, and the answers to its
    earlier questions.
    """

    document: dict[str, Any]
    run: Callable[[Museum, Arguments, Arguments], Result]
    takes_time: bool

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = self.document["inputSchema"]
        return inputs


TOOLS = [
    MuseumTool(spec, getattr(Museum, spec["name"]), spec["name"] in WORLD["slow_tools"])
    for spec in WORLD["tools"]
]
