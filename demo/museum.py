"""Tiderow Museum: what is on show, tickets and visits. Written down as MCP tools."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from demo.calls import CannotDoError
from demo.invented import number, pick, today

Schema = dict[str, Any]
Arguments = Mapping[str, Any]

GALLERIES = {
    "SHIPS": "Models and instruments, ground floor.",
    "CLOCKS": "Clocks that still go, first floor.",
    "TOYS": "Tin and wood, first floor.",
    "MAPS": "Charts of the coast, second floor; dim, for the paper's sake.",
}
THINGS = ("barometer", "brig in a bottle", "carriage clock", "tin steamer", "harbour chart", "sextant")
MAKERS = ("Aldous Penrose", "the Brothers Finch", "Wilhelmina Orr", "an unknown hand")
CONDITIONS = {"GOOD": "Nothing to do.", "WORN": "Look again in a year.", "AT_RISK": "Take it off show."}
LARGEST_GROUP = 8
LANGUAGES = ("English", "Dutch", "Portuguese")
ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E"


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` gets arguments that fit `inputs`, and the answers to what it asked before."""

    name: str
    title: str
    description: str
    inputs: Schema
    run: Callable[["Museum", Arguments, Arguments], "Result"]
    outputs: Schema | None = None
    hints: Mapping[str, bool] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    takes_time: bool = False

    def document(self) -> dict[str, Any]:
        beside = {"outputSchema": self.outputs, "annotations": dict(self.hints), "_meta": dict(self.meta)}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.inputs,
            "icons": [{"src": ICON, "mimeType": "image/svg+xml", "sizes": ["any"]}],
            **{member: value for member, value in beside.items() if value},
        }


@dataclass(frozen=True, slots=True)
class Question:
    """Answered instead of a result: the call goes on once a person has filled in `form`."""

    name: str
    message: str
    form: Schema


Result = Mapping[str, Any] | list[dict[str, Any]] | Question

READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
REMOVES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}

OBJECT_ID = {"type": "string", "description": "Such as TM-1042.", "pattern": "^TM-[0-9]{4}$"}
DAY = {"type": "string", "description": "YYYY-MM-DD", "format": "date"}
GALLERY = {"type": "string", "enum": list(GALLERIES), "description": "Which gallery."}
OBJECT = {
    "type": "object",
    "properties": {
        "object_id": OBJECT_ID,
        "what": {"type": "string"},
        "maker": {"type": "string"},
        "year": {"type": "integer"},
        "gallery": GALLERY,
    },
    "required": ["object_id", "what", "gallery"],
}


def takes(*required: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
    }


def gives(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def object_of(number_of_it: int) -> dict[str, Any]:
    return {
        "object_id": f"TM-{number_of_it:04}",
        "what": pick(THINGS, number_of_it, "what"),
        "maker": pick(MAKERS, number_of_it, "maker"),
        "year": number(1690, 1935, number_of_it),
        "gallery": pick(tuple(GALLERIES), number_of_it),
    }


class Museum:
    """Visits live in memory only."""

    def __init__(self) -> None:
        self.visits: dict[str, dict[str, Any]] = {}

    def search_objects(self, given: Arguments, answers: Arguments) -> Result:
        words = given["query"].casefold().split()
        every = (object_of(n) for n in range(1000, 1200))
        wanted = given.get("gallery")
        found = [
            each
            for each in every
            if all(word in f"{each['what']} {each['maker']}".casefold() for word in words)
            and wanted in (None, each["gallery"])
        ]
        return {"total": len(found), "objects": found[: given.get("limit", 10)]}

    def get_object(self, given: Arguments, answers: Arguments) -> Result:
        known = int(given["object_id"].removeprefix("TM-"))
        if not 1000 <= known < 1200:
            raise CannotDoError("object_not_found", f"The museum has no object {given['object_id']}.")
        return object_of(known)

    def read_label(self, given: Arguments, answers: Arguments) -> Result:
        each = dict(self.get_object(given, answers))  # type: ignore[arg-type]  # an object, never a question
        text = f"{each['what'].capitalize()}, made in {each['year']} by {each['maker']}."
        link = {
            "type": "resource_link",
            "name": f"{each['object_id']}.pdf",
            "uri": f"https://tiderow-museum.example/labels/{each['object_id']}.pdf",
            "mimeType": "application/pdf",
        }
        return [{"type": "text", "text": text}, link]

    def list_exhibitions(self, given: Arguments, answers: Arguments) -> Result:
        day = given.get("date") or str(today())
        names = ("Small Boats, Long Voyages", "Ticking", "Drawn from the Mast")
        shown = [{"name": name, "gallery": pick(tuple(GALLERIES), name)} for name in names]
        return {"date": day, "exhibitions": shown[: number(1, 3, day)]}

    def get_opening_hours(self, given: Arguments, answers: Arguments) -> Result:
        day = day_of(given["date"])
        if day.weekday() == 0:
            return {"is_open": False}
        return {"is_open": True, "opens": "10:00", "closes": "20:00" if day.weekday() == 3 else "17:30"}

    def price_tickets(self, given: Arguments, answers: Arguments) -> Result:
        fares = {"ADULT": 1400, "CHILD": 0, "STUDENT": 900, "MEMBER": 0}
        lines = [{**each, "cents": fares[each["fare"]] * each["count"]} for each in given["visitors"]]
        return {"lines": lines, "total_cents": sum(line["cents"] for line in lines)}

    def book_visit(self, given: Arguments, answers: Arguments) -> Result:
        language = "English"
        if given["people"] > LARGEST_GROUP:
            if "guide" not in answers:
                return Question(
                    "guide",
                    f"Groups of more than {LARGEST_GROUP} get a guide. In which language?",
                    takes("language", language={"type": "string", "enum": list(LANGUAGES)}),
                )
            language = str(answers["guide"].get("language", language))
        day = day_of(given["date"])
        visit = f"V-{number(10_000, 99_999, day, given['people'], len(self.visits))}"
        self.visits[visit] = {"date": str(day), "people": given["people"], "guide_language": language}
        return {"visit_id": visit, **self.visits[visit]}

    def cancel_visit(self, given: Arguments, answers: Arguments) -> Result:
        return {"was_booked": self.visits.pop(given["visit_id"], None) is not None}

    def plan_route(self, given: Arguments, answers: Arguments) -> Result:
        share = given.get("minutes", 90) // max(1, len(given["galleries"]))
        return {"stops": [{"gallery": each, "minutes": share} for each in given["galleries"]]}

    def report_condition(self, given: Arguments, answers: Arguments) -> Result:
        self.get_object(given, answers)
        return {"report_id": f"C-{number(100, 999, given['object_id'], given['condition'])}"}

    def count_visitors(self, given: Arguments, answers: Arguments) -> Result:
        days = [today() - timedelta(days=n) for n in range(1, given.get("days", 7) + 1)]
        return {"by_day": {str(day): number(120, 900, day) for day in days}}


def day_of(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise CannotDoError("bad_date", f"{text} is no date such as 2027-03-09.") from exc


FARE = {
    "type": "object",
    "properties": {
        "fare": {"type": "string", "enum": ["ADULT", "CHILD", "STUDENT", "MEMBER"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 60},
    },
    "required": ["fare", "count"],
    "additionalProperties": False,
}

TOOLS = (
    Tool(
        "search_objects",
        "Search the collection",
        "Finds objects by words in what they are and who made them.",
        takes(
            "query",
            query={"type": "string", "minLength": 1, "maxLength": 200},
            gallery=GALLERY,
            limit={"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        ),
        Museum.search_objects,
        gives(total={"type": "integer"}, objects={"type": "array", "items": OBJECT}),
        READS,
        takes_time=True,
    ),
    Tool(
        "get_object",
        "Show an object",
        "All that the museum knows about one object.",
        takes("object_id", object_id=OBJECT_ID),
        Museum.get_object,
        OBJECT,
        READS,
    ),
    Tool(
        "read_label",
        "Read a label",
        "The text beside an object, and where it can be printed from.",
        takes("object_id", object_id=OBJECT_ID),
        Museum.read_label,
        hints=READS,
    ),
    Tool(
        "list_exhibitions",
        "List exhibitions",
        "Exhibitions on a day; today if no day is given.",
        takes(date=DAY),
        Museum.list_exhibitions,
        gives(
            date=DAY, exhibitions={"type": "array", "items": gives(name={"type": "string"}, gallery=GALLERY)}
        ),
        READS,
    ),
    Tool(
        "get_opening_hours",
        "Opening hours",
        "Whether the museum is open on a day, and when. Closed on Mondays.",
        takes("date", date=DAY),
        Museum.get_opening_hours,
        {
            "type": "object",
            "properties": {
                "is_open": {"type": "boolean"},
                "opens": {"type": "string"},
                "closes": {"type": "string"},
            },
            "required": ["is_open"],
        },
        READS,
    ),
    Tool(
        "price_tickets",
        "Price tickets",
        "What a party pays. Children and members come in free.",
        takes("visitors", visitors={"type": "array", "items": FARE, "minItems": 1, "maxItems": 10}),
        Museum.price_tickets,
        gives(lines={"type": "array", "items": {"type": "object"}}, total_cents={"type": "integer"}),
        READS,
    ),
    Tool(
        "book_visit",
        "Book a visit",
        f"Books a time for a party. Asks for a guide's language when more than {LARGEST_GROUP} people come.",
        takes("date", "people", date=DAY, people={"type": "integer", "minimum": 1, "maximum": 60}),
        Museum.book_visit,
        gives(
            visit_id={"type": "string"},
            date=DAY,
            people={"type": "integer"},
            guide_language={"type": "string"},
        ),
        WRITES,
    ),
    Tool(
        "cancel_visit",
        "Cancel a visit",
        "Cancels a booking. Doing it twice does no harm.",
        takes("visit_id", visit_id={"type": "string", "pattern": "^V-[0-9]{5}$"}),
        Museum.cancel_visit,
        gives(was_booked={"type": "boolean"}),
        REMOVES,
    ),
    Tool(
        "plan_route",
        "Plan a route",
        "Shares out the time of a visit among galleries.",
        takes(
            "galleries",
            galleries={"type": "array", "items": GALLERY, "minItems": 1, "uniqueItems": True},
            minutes={"type": "integer", "minimum": 15, "maximum": 480, "default": 90},
        ),
        Museum.plan_route,
        gives(stops={"type": "array", "items": {"type": "object"}}),
        READS,
    ),
    Tool(
        "report_condition",
        "Report an object's condition",
        "Tells the conservators how an object looks.",
        takes(
            "object_id",
            "condition",
            object_id=OBJECT_ID | {"x-mcp-header": "Object"},
            condition={
                "type": "string",
                "oneOf": [{"const": name, "description": text} for name, text in CONDITIONS.items()],
            },
            note={"type": "string", "maxLength": 500},
        ),
        Museum.report_condition,
        gives(report_id={"type": "string"}),
        WRITES,
        meta={"tiderow-museum.example/desk": "conservation"},
    ),
    Tool(
        "count_visitors",
        "Count visitors",
        "How many people came, by day.",
        takes(days={"type": "integer", "minimum": 1, "maximum": 31, "default": 7}),
        Museum.count_visitors,
        gives(by_day={"type": "object", "additionalProperties": {"type": "integer"}}),
        READS,
    ),
)
