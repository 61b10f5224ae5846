"""The OpenAPI document of Hubwright Cycles."""

from typing import Any

from demo.workshop import FAULTS, KINDS, STATES

Schema = dict[str, Any]


def text(description: str = "", **more: Any) -> Schema:
    return {"type": "string", **({"description": description} if description else {}), **more}


def whole(low: int, high: int, **more: Any) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, **more}


def cents(description: str) -> Schema:
    return {"type": "integer", "description": description, "minimum": 0}


def ref(name: str, section: str = "schemas") -> dict[str, str]:
    return {"$ref": f"#/components/{section}/{name}"}


def answers(schema: Schema, code: str = "200", says: str = "Done") -> dict[str, Any]:
    good = {"description": says, "content": {"application/json": {"schema": schema}}}
    return {code: good, "422": ref("Trouble", "responses")}


def takes(schema: Schema, media: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"required": True, "content": {media: {"schema": schema, **more}}}


def query(name: str, schema: Schema, description: str = "", **more: Any) -> dict[str, Any]:
    said = {"description": description} if description else {}
    return {"name": name, "in": "query", **said, **more, "schema": schema}


SCHEMAS: dict[str, Schema] = {
    "Bike": {
        "type": "object",
        "required": ["number", "kind", "electric", "out"],
        "properties": {
            "number": text("As on its plate."),
            "kind": {"type": "string", "enum": list(KINDS)},
            "electric": {"type": "boolean"},
            "frame_cm": {"type": "integer"},
            "out": {"type": "boolean", "description": "Whether somebody has it today."},
        },
    },
    "Rental": {
        "type": "object",
        "required": ["bike", "name"],
        "properties": {
            "id": text(readOnly=True),
            "bike": text("The bike's number.", pattern="^HC-[0-9]{3}$"),
            "name": text("Who rents it.", maxLength=80),
            "days": whole(1, 28, default=1),
            "helmet": {"type": "boolean", "default": False},
            "due": text(format="date", readOnly=True),
            "price_cents": {**cents("The whole price."), "readOnly": True},
        },
    },
    "Repair": {
        "type": "object",
        "properties": {
            "ticket": text(),
            "fault": {"type": "string", "enum": list(FAULTS)},
            "price_cents": cents("An estimate until it is done."),
            "state": {"type": "string", "enum": list(STATES)},
        },
    },
    "KnownFault": {
        "type": "object",
        "required": ["fault"],
        "properties": {"fault": {"type": "string", "enum": list(FAULTS)}},
    },
    "SomeNoise": {
        "type": "object",
        "required": ["says"],
        "properties": {"says": text("What the bike does that it should not.", minLength=5)},
    },
    "Part": {
        "type": "object",
        "properties": {"part": text(), "price_cents": cents("For one."), "left": {"type": "integer"}},
    },
    "Assembly": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": text("Such as “wheel”."),
            "holds": {"type": "array", "items": ref("Assembly")},
        },
        "additionalProperties": False,
    },
}
RENTAL = {"name": "rental", "in": "path", "required": True, "description": "Such as R-1.", "schema": text()}
TICKET = {"name": "ticket", "in": "path", "required": True, "description": "Such as T-1.", "schema": text()}
DATE = query("date", text(format="date"), "YYYY-MM-DD", required=True)
BIKES_QUERY = [
    query(
        "kinds",
        {"type": "array", "items": text(enum=list(KINDS))},
        "Any of these.",
        style="form",
        explode=False,
    ),
    query("electric", {"type": "boolean"}),
    query(
        "frame",
        {"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}},
        "Frame height in cm.",
        style="deepObject",
        explode=True,
    ),
    query("limit", whole(1, 50, default=10)),
]
WORDS = {"type": "array", "items": text(), "minItems": 1}
ORDER = {
    "type": "object",
    "required": ["part", "count"],
    "properties": {"part": text("As find_parts names it."), "count": whole(1, 99), "note": text()},
}
REPAIR_WANTED = {"oneOf": [ref("KnownFault"), ref("SomeNoise")]}
DECISION = {
    "type": "object",
    "required": ["approved"],
    "properties": {"approved": {"type": "boolean"}, "limit_cents": cents("Do not mend it for more.")},
}
PHOTO = {"type": "object", "properties": {"photo": text(format="binary")}}
LONGER = {"type": "object", "required": ["days"], "properties": {"days": whole(1, 14)}}

PATHS: dict[str, dict[str, Any]] = {
    "/hours": {
        "get": {
            "operationId": "opening_hours",
            "summary": "Opening hours of a day",
            "tags": ["Shop"],
            "parameters": [DATE],
            "responses": answers(
                {
                    "type": "object",
                    "properties": {
                        "date": text(),
                        "open": {"type": "boolean"},
                        "from": text(),
                        "until": text(),
                    },
                }
            ),
        }
    },
    "/takings": {
        "get": {
            "operationId": "takings",
            "summary": "What was earned on a day",
            "description": "For the people of the workshop: asks for the workshop's key.",
            "tags": ["Shop"],
            "security": [{"workshop_key": []}],
            "parameters": [DATE],
            "responses": answers(
                {"type": "object", "properties": {"date": text(), "cents": cents("In all.")}}
            ),
        }
    },
    "/bikes": {
        "get": {
            "operationId": "find_bikes",
            "summary": "Find bikes to rent",
            "description": "Bikes of the workshop, and whether they are in. All of them without a filter.",
            "tags": ["Rentals"],
            "parameters": BIKES_QUERY,
            "responses": answers({"type": "array", "items": ref("Bike")}),
        }
    },
    "/bikes/{bike}": {
        "get": {
            "summary": "Show one bike",
            "tags": ["Rentals"],
            "parameters": [
                {"name": "bike", "in": "path", "required": True, "schema": text("Such as HC-104.")}
            ],
            "responses": answers(ref("Bike")),
        }
    },
    "/rentals": {
        "post": {
            "operationId": "rent_bike",
            "summary": "Rent a bike",
            "description": "Rents a bike that is in, from today on.",
            "tags": ["Rentals"],
            "parameters": [
                {
                    "name": "X-Request-Id",
                    "in": "header",
                    "description": "The same id twice is one rental.",
                    "schema": text(pattern="^[a-z0-9]{1,12}$"),
                }
            ],
            "requestBody": takes(ref("Rental")),
            "responses": answers(ref("Rental"), "201", "Rented"),
        }
    },
    "/rentals/{rental}": {
        "parameters": [RENTAL],
        "get": {
            "operationId": "show_rental",
            "summary": "Show a rental",
            "tags": ["Rentals"],
            "responses": answers(ref("Rental")),
        },
        "patch": {
            "operationId": "extend_rental",
            "summary": "Keep a bike longer",
            "tags": ["Rentals"],
            "requestBody": takes(LONGER),
            "responses": answers(ref("Rental")),
        },
        "delete": {
            "operationId": "return_bike",
            "summary": "Give a bike back",
            "tags": ["Rentals"],
            "responses": {"204": {"description": "It is back"}, "422": ref("Trouble", "responses")},
        },
    },
    "/repairs": {
        "get": {
            "operationId": "list_repairs",
            "summary": "Repairs and how far they are",
            "tags": ["Repairs"],
            "parameters": [query("state", text(enum=list(STATES)))],
            "responses": answers(
                {
                    "type": "object",
                    "properties": {
                        "repairs": {"type": "array", "items": ref("Repair")},
                        "count": {"type": "integer"},
                    },
                }
            ),
        },
        "post": {
            "operationId": "book_repair",
            "summary": "Book a repair",
            "description": "Takes a fault with a name, or the words of whoever rides it.",
            "tags": ["Repairs"],
            "requestBody": takes(REPAIR_WANTED),
            "responses": answers(ref("Repair"), "201", "Booked"),
        },
    },
    "/repairs/{ticket}/approval": {
        "parameters": [TICKET],
        "put": {
            "operationId": "approve_repair",
            "summary": "Approve a price, or decline it",
            "tags": ["Repairs"],
            "requestBody": takes(DECISION),
            "responses": answers(ref("Repair")),
        },
    },
    "/repairs/{ticket}/photo": {
        "parameters": [TICKET],
        "post": {
            "operationId": "add_photo",
            "summary": "Add a photo of the fault",
            "tags": ["Repairs"],
            "requestBody": takes(PHOTO, "multipart/form-data"),
            "responses": {"204": {"description": "Added"}},
        },
    },
    "/parts": {
        "get": {
            "operationId": "find_parts",
            "summary": "Find spare parts",
            "tags": ["Parts"],
            "parameters": [
                query("words", WORDS, "All of these words.", style="pipeDelimited", required=True)
            ],
            "responses": answers({"type": "array", "items": ref("Part")}),
        }
    },
    "/parts/orders": {
        "post": {
            "operationId": "order_parts",
            "summary": "Order parts",
            "tags": ["Parts"],
            "requestBody": takes(ORDER, "application/x-www-form-urlencoded"),
            "responses": answers(
                {
                    "type": "object",
                    "properties": {"order": text(), "part": text(), "count": {"type": "integer"}},
                }
            ),
        }
    },
    "/builds/quotes": {
        "post": {
            "operationId": "quote_build",
            "summary": "What a bike of one's own would cost",
            "tags": ["Parts"],
            "requestBody": takes({"allOf": [ref("Assembly")]}),
            "responses": answers(
                {
                    "type": "object",
                    "properties": {"parts": {"type": "integer"}, "price_cents": cents("Roughly.")},
                }
            ),
        }
    },
}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Hubwright Cycles", "version": "1.6.0"},
    "servers": [{"url": "/v1"}],
    "tags": [{"name": name} for name in ("Shop", "Rentals", "Repairs", "Parts")],
    "paths": PATHS,
    "components": {
        "schemas": SCHEMAS,
        "responses": {
            "Trouble": {
                "description": "It cannot be done, and why",
                "content": {
                    "application/json": {
                        "schema": {"type": "object", "properties": {"code": text(), "message": text()}}
                    }
                },
            }
        },
        "securitySchemes": {"workshop_key": {"type": "apiKey", "in": "header", "name": "X-Workshop-Key"}},
    },
}
