"""The same seed gives the same value in every version, so a rehearsal can be repeated."""

import pytest

from core.schema import samples
from core.schema.samples import UnmetSchemaError
from core.schema.work import Work


# The values of two seeds, and a value as small as the schema allows.
@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "string"}, ("Ember harbour", "Willow signal", "Meadow quarry")),
        ({"type": "integer"}, (56, 94, 65)),
        ({"type": "number"}, (71.99, 85.82, 84.35)),
        ({"type": "boolean"}, (False, False, False)),
        ({"type": "null"}, (None, None, None)),
        ({}, ("Lantern quarry", "Quarry harbour", {})),
        (True, ("Lantern quarry", "Quarry harbour", {})),
        (
            {"type": "array"},
            (["Harbour signal", "Willow harbour"], ["Signal harbour", "Copper lantern", "Quarry cedar"], []),
        ),
        ({"type": "object"}, ({}, {}, {})),
        ({"type": "integer", "minimum": 3}, (59, 97, 68)),
        ({"type": "integer", "maximum": -3}, (-47, -9, -38)),
        ({"type": "integer", "minimum": 1, "maximum": 6}, (4, 6, 5)),
        ({"type": "integer", "multipleOf": 7}, (392, 658, 455)),
        ({"type": "integer", "multipleOf": 2.5}, (280, 470, 325)),
        ({"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 7}, (6, 6, 5)),
        ({"type": "integer", "minimum": 0.5, "maximum": 2.5}, (2, 2, 1)),
        ({"type": "number", "minimum": 0.25}, (72.24, 86.07, 84.6)),
        ({"type": "number", "maximum": 1}, (0.56, 0.94, 0.65)),
        ({"type": "number", "multipleOf": 0.25}, (14.0, 23.5, 16.25)),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.02}, (0.01, 0.01, 0.01)),
        ({"type": "number", "minimum": 0.001, "maximum": 0.002}, (0.0015, 0.0015, 0.0015)),
        ({"type": "number", "exclusiveMinimum": 1.5, "maximum": 1.505}, (1.5025, 1.5025, 1.5025)),
        ({"minimum": 3}, (65.46, 84.31, {})),
        ({"maxLength": 4}, ("Lant", "Quar", {})),
        ({"items": {"const": 1}}, ([1, 1, 1], [1, 1, 1], {})),
        ({"required": ["a"]}, ({"a": "Ember harbour"}, {"a": "Willow signal"}, {"a": "Meadow quarry"})),
        ({"type": ["string", "null"]}, ("Ember harbour", "Willow signal", "Meadow cedar")),
        ({"type": ["integer", "boolean"]}, (False, False, False)),
        ({"enum": ["a", 2, None]}, (None, None, None)),
        ({"const": {"a": 1}}, ({"a": 1}, {"a": 1}, {"a": 1})),
        (
            {"type": "string", "examples": ["one", "two"], "default": "three", "example": "four"},
            ("Ember harbour", "Willow signal", "Meadow quarry"),
        ),
        ({"type": "integer", "default": 5}, (56, 94, 65)),
        (
            {"type": "string", "format": "date-time"},
            ("2026-06-20T15:54:16Z", "2026-10-13T11:18:16Z", "2026-07-19T23:04:31Z"),
        ),
        ({"type": "string", "format": "date"}, ("2026-06-20", "2026-10-13", "2026-07-19")),
        ({"type": "string", "format": "time"}, ("15:54:16Z", "11:18:16Z", "23:04:31Z")),
        ({"type": "string", "format": "duration"}, ("PT7M", "PT38M", "PT37M")),
        (
            {"type": "string", "format": "email"},
            ("ember@example.com", "signal@example.com", "harbour@example.com"),
        ),
        (
            {"type": "string", "format": "idn-email"},
            ("ember@example.com", "signal@example.com", "harbour@example.com"),
        ),
        (
            {"type": "string", "format": "hostname"},
            ("ember.example.com", "signal.example.com", "harbour.example.com"),
        ),
        (
            {"type": "string", "format": "idn-hostname"},
            ("ember.example.com", "signal.example.com", "harbour.example.com"),
        ),
        ({"type": "string", "format": "ipv4"}, ("10.27.114.65", "10.135.120.136", "10.28.217.54")),
        ({"type": "string", "format": "ipv6"}, ("2001:db8::27:114", "2001:db8::135:120", "2001:db8::28:217")),
        (
            {"type": "string", "format": "uri"},
            ("https://example.com/ember", "https://example.com/signal", "https://example.com/harbour"),
        ),
        (
            {"type": "string", "format": "url"},
            ("https://example.com/ember", "https://example.com/signal", "https://example.com/harbour"),
        ),
        (
            {"type": "string", "format": "iri"},
            ("https://example.com/ember", "https://example.com/signal", "https://example.com/harbour"),
        ),
        ({"type": "string", "format": "uri-reference"}, ("/ember", "/signal", "/harbour")),
        ({"type": "string", "format": "iri-reference"}, ("/ember", "/signal", "/harbour")),
        ({"type": "string", "format": "uri-template"}, ("/ember/{id}", "/signal/{id}", "/harbour/{id}")),
        ({"type": "string", "format": "json-pointer"}, ("/ember", "/signal", "/harbour")),
        ({"type": "string", "format": "relative-json-pointer"}, ("0/ember", "0/signal", "0/harbour")),
        ({"type": "string", "format": "regex"}, ("^ember$", "^signal$", "^harbour$")),
        (
            {"type": "string", "format": "uuid"},
            (
                "2b916b3e-5018-4cd3-9d80-60be1d245aa4",
                "3a9207a5-06b0-4c9f-9e50-f58170303993",
                "b6192e57-a107-4f90-8163-5c37b6048dd7",
            ),
        ),
        ({"type": "string", "format": "byte"}, ("aGFyYm91cg==", "aGFyYm91cg==", "aGFyYm91cg==")),
        ({"type": "string", "format": "unknown"}, ("Ember harbour", "Willow signal", "Meadow quarry")),
        (
            {"type": "string", "format": "date-time", "minLength": 24, "maxLength": 24},
            ("2026-06-20T15:54:16.000Z", "2026-10-13T11:18:16.000Z", "2026-07-19T23:04:31.000Z"),
        ),
        (
            {"type": "string", "format": "date-time", "minLength": 25, "maxLength": 25},
            ("2026-06-20T15:54:16+00:00", "2026-10-13T11:18:16+00:00", "2026-07-19T23:04:31+00:00"),
        ),
        (
            {"type": "string", "format": "date-time", "minLength": 29},
            (
                "2026-06-20T15:54:16.000+00:00",
                "2026-10-13T11:18:16.000+00:00",
                "2026-07-19T23:04:31.000+00:00",
            ),
        ),
        (
            {"type": "string", "minLength": 20},
            ("Ember harbour willow meadow", "Willow signal harbour lantern", "Meadow quarry quarry copper"),
        ),
        ({"type": "string", "maxLength": 3}, ("Emb", "Wil", "Mea")),
        (
            {"type": "string", "minLength": 30, "maxLength": 31},
            (
                "Ember harbour willow meadow ced",
                "Willow signal harbour lantern l",
                "Meadow quarry quarry copper lan",
            ),
        ),
        ({"type": "string", "pattern": "^[a-c]{2}$"}, ("ab", "cc", "ac")),
        (
            {"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
            (
                {"email": "tomas.lind@example.org"},
                {"email": "ada.moreau@example.com"},
                {"email": "tomas.lind@example.org"},
            ),
        ),
        (
            {"type": "object", "properties": {"homeUrl": {"type": "string"}}, "required": ["homeUrl"]},
            (
                {"homeUrl": "https://example.org/lantern"},
                {"homeUrl": "https://example.com/harbour"},
                {"homeUrl": "https://example.org/lantern"},
            ),
        ),
        (
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            ({"city": "Osaka"}, {"city": "Oslo"}, {"city": "Nairobi"}),
        ),
        (
            {"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]},
            ({"country": "JP"}, {"country": "NO"}, {"country": "KE"}),
        ),
        (
            {"type": "object", "properties": {"currency": {"type": "string"}}, "required": ["currency"]},
            ({"currency": "JPY"}, {"currency": "NOK"}, {"currency": "USD"}),
        ),
        (
            {"type": "object", "properties": {"phone": {"type": "string"}}, "required": ["phone"]},
            ({"phone": "+47 555 0142"}, {"phone": "+351 555 0100"}, {"phone": "+47 555 0142"}),
        ),
        (
            {"type": "object", "properties": {"owner": {"type": "string"}}, "required": ["owner"]},
            ({"owner": "Jonas Weber"}, {"owner": "Tomas Lind"}, {"owner": "Mina Okafor"}),
        ),
        (
            {"type": "object", "properties": {"birthDate": {"type": "string"}}, "required": ["birthDate"]},
            ({"birthDate": "2026-11-02"}, {"birthDate": "2026-03-14"}, {"birthDate": "2026-11-02"}),
        ),
        (
            {"type": "object", "properties": {"created_at": {"type": "string"}}, "required": ["created_at"]},
            (
                {"created_at": "2026-11-02T16:05:00Z"},
                {"created_at": "2026-03-14T09:30:00Z"},
                {"created_at": "2026-11-02T16:05:00Z"},
            ),
        ),
        (
            {"type": "object", "properties": {"language": {"type": "string"}}, "required": ["language"]},
            ({"language": "pt"}, {"language": "en"}, {"language": "pt"}),
        ),
        (
            {"type": "object", "properties": {"zipcode": {"type": "string"}}, "required": ["zipcode"]},
            ({"zipcode": "KF-99265"}, {"zipcode": "ZW-74518"}, {"zipcode": "ID-93029"}),
        ),
        (
            {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
            ({"note": "Signal copper"}, {"note": "Copper lantern"}, {"note": "Orchard ember"}),
        ),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, ([56, 65], [67, 75, 79], [26, 72])),
        ({"type": "array", "maxItems": 1, "items": {"const": 1}}, ([1], [1], [])),
        (
            {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False},
            ([1, 2], [1, 2], []),
        ),
        (
            {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3},
            ([1, 2, 2], [1, 2, 2], [1, 2, 2]),
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}, "minContains": 2},
            ([7, 7], [67, 7, 7], [7, 7]),
        ),
        (
            {"type": "array", "contains": {"const": 7}},
            (["Harbour signal", 7], ["Signal harbour", "Copper lantern", 7], [7]),
        ),
        (
            {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": [1, 2, 3]}},
            ([1, 2, 3], [3, 2, 1], [3, 1, 2]),
        ),
        (
            {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "emails": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                },
            },
            (
                {
                    "tags": ["Cedar quarry", "Cedar orchard", "Meadow willow"],
                    "emails": ["tomas.lind@example.org"],
                },
                {
                    "tags": ["Quarry willow", "Cedar orchard", "Lantern willow"],
                    "emails": ["ada.moreau@example.com"],
                },
                {},
            ),
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "boolean"},
                    "b": {"type": "object", "properties": {"c": {"const": 1}, "d": {"const": 2}, "e": False}},
                },
                "required": ["z", "b"],
            },
            (
                {"a": False, "b": {"c": 1, "d": 2}, "z": "Willow harbour"},
                {"a": False, "b": {"c": 1, "d": 2}, "z": "Copper lantern"},
                {"b": {}, "z": "Copper meadow"},
            ),
        ),
        (
            {"type": "object", "minProperties": 2, "properties": {"a": {"const": 1}}},
            (
                {"a": 1, "lantern_1": "Copper cedar"},
                {"a": 1, "cedar_1": "Lantern willow"},
                {"a": 1, "copper_1": "Orchard ember"},
            ),
        ),
        (
            {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
            (
                {"cedar_0": 32, "lantern_1": 14},
                {"ember_0": 75, "cedar_1": 79},
                {"ember_0": 2, "lantern_1": 80},
            ),
        ),
        (
            {
                "type": "object",
                "minProperties": 2,
                "patternProperties": {"^x[0-9]$": {"const": 1}},
                "additionalProperties": False,
            },
            ({"x7": 1, "x2": 1}, {"x9": 1, "x0": 1}, {"x0": 1, "x8": 1}),
        ),
        (
            {"type": "object", "minProperties": 2, "propertyNames": {"enum": ["ab", "cde"]}},
            (
                {"cde": "Copper cedar", "ab": "Cedar quarry"},
                {"cde": "Willow lantern", "ab": "Cedar orchard"},
                {"ab": "Copper meadow", "cde": "Willow orchard"},
            ),
        ),
        (
            {
                "type": "object",
                "maxProperties": 1,
                "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
                "required": ["b"],
            },
            ({"b": 2}, {"b": 2}, {"b": 2}),
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"const": 1}, "b": {"const": 2}},
                "required": ["a"],
                "dependentRequired": {"a": ["b"]},
            },
            ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"const": 1}},
                "required": ["a"],
                "dependentSchemas": {"a": {"required": ["c"], "properties": {"c": {"const": 3}}}},
            },
            ({"a": 1, "c": 3}, {"a": 1, "c": 3}, {"a": 1, "c": 3}),
        ),
        (
            {
                "type": "object",
                "required": ["xa", "b"],
                "patternProperties": {"^x": {"const": 1}},
                "additionalProperties": {"const": 2},
            },
            ({"xa": 1, "b": 2}, {"xa": 1, "b": 2}, {"xa": 1, "b": 2}),
        ),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, (2, 2, 2)),
        ({"oneOf": [{"const": 1}, {"const": 2}, {"const": 3}]}, (3, 3, 3)),
        ({"allOf": [{"minimum": 3}, {"type": "integer", "maximum": 4}]}, (4, 4, 3)),
        (
            {
                "type": "object",
                "properties": {"k": {"enum": ["a", "b"]}},
                "required": ["k"],
                "if": {"properties": {"k": {"const": "a"}}},
                "then": {"required": ["x"], "properties": {"x": {"const": 1}}},
                "else": {"required": ["y"], "properties": {"y": {"const": 2}}},
            },
            ({"k": "b", "y": 2}, {"k": "b", "y": 2}, {"k": "b", "y": 2}),
        ),
        (
            {
                "$ref": "#/$defs/n",
                "$defs": {
                    "n": {
                        "type": "object",
                        "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/n"}},
                        "required": ["v"],
                    }
                },
            },
            (
                {"v": 65, "next": {"v": 52, "next": {"v": 60}}},
                {"v": 75, "next": {"v": 7, "next": {"v": 9, "next": {"v": 13}}}},
                {"v": 72},
            ),
        ),
        (
            {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                "required": ["next"],
            },
            (
                {"next": {"next": {"next": {"next": {"next": {"next": None}}}}}},
                {"next": None},
                {"next": None},
            ),
        ),
        ({"not": {"type": "string"}}, ([], 60, {})),
    ],
    ids=str,
)
def test_value_of_a_seed_stays_the_same(schema, values):
    assert (
        samples.generate(schema, 1),
        samples.generate(schema, 2),
        samples.generate(schema, 3, fullness=0.0),
    ) == values


def test_vendors_examples_are_used_at_times():
    schema = {"type": "string", "examples": ["e1", 5, "e2"], "default": "d", "example": "x"}
    values = [samples.generate(schema, seed) for seed in range(100)]
    stated = [value for value in values if " " not in value]
    assert set(stated) == {"e1", "e2", "d", "x"}
    assert 10 < len(stated) < 35
    assert all(" " in samples.generate(schema, seed, fullness=0.0) for seed in range(30))


def test_a_small_value_without_a_type_is_of_any_type():
    types = {type(samples.generate({}, seed, fullness=0.0)) for seed in range(60)}
    assert types == {str, int, float, bool, dict, list, type(None)}


def test_null_is_written_at_times_where_another_type_fits():
    values = [samples.generate({"type": ["boolean", "null"]}, seed) for seed in range(100)]
    assert 3 < values.count(None) < 25
    assert 20 < values.count(True) < 70


def test_optional_members_are_written_at_times():
    inner = {"type": "object", "properties": {"a": {"const": 1}}}
    schema = {"type": "object", "properties": {"inner": inner, "b": {"const": 2}}}
    values = [samples.generate(schema, seed) for seed in range(60)]
    # Those at the top are always written.
    assert all(value.keys() == {"inner", "b"} for value in values)
    assert 30 < sum("a" in value["inner"] for value in values) < 55
    assert samples.generate(schema, 1, fullness=0.0) == {}
    assert samples.generate(schema, 1, fullness=1.0) == {"inner": {"a": 1}, "b": 2}


def test_members_above_the_allowed_number_are_left_out():
    members = {name: {"const": name} for name in "abc"}
    schema = {"type": "object", "properties": members, "maxProperties": 2}
    assert samples.generate(schema, 1, fullness=1.0) == {"a": "a", "b": "b"}


@pytest.mark.parametrize("nesting", [5, 6, 7])
def test_optional_members_end_at_a_depth(nesting):
    schema: dict = {"const": 1}
    for _ in range(nesting):
        schema = {"type": "object", "properties": {"a": schema}}
    value, depth = samples.generate(schema, 1, fullness=1.0), 0
    while value != 1 and value:
        value, depth = value["a"], depth + 1
    assert depth == min(nesting, samples.MAX_DEPTH)


FORBIDDEN = "A rule of the schema allows no value."
MALFORMED = "A rule of the schema is not one of JSON Schema, or refers to itself."
TOO_LONG_ARRAY = "An array needs more items than it may have, or more than Pegboard generates."


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (False, FORBIDDEN),
        (3, FORBIDDEN),
        ({"type": "array", "minItems": 1, "items": False}, TOO_LONG_ARRAY),
        ({"type": "array", "minItems": 2, "maxItems": 1}, TOO_LONG_ARRAY),
        ({"type": "array", "minItems": 5_001, "items": {"const": 1}}, TOO_LONG_ARRAY),
        (
            {"required": ["a"], "dependentSchemas": {"a": {"$ref": "#"}}},
            "A reference of the schema points to itself or to nothing.",
        ),
        ({"type": "number", "exclusiveMinimum": 1.7e308, "multipleOf": 1.7e308}, MALFORMED),
        ({"enum": []}, "A list of allowed values is empty."),
        ({"type": "text"}, "Its rule “type” is not one of JSON Schema."),
        (
            {"type": "string", "minLength": "5", "pattern": 3},
            "Its rule “minLength” is not one of JSON Schema.",
        ),
        ({"$ref": "#/$defs/gone"}, "A reference of the schema points to itself or to nothing."),
        ({"allOf": [{"$ref": "#"}]}, "A reference of the schema points to itself or to nothing."),
        (
            {"allOf": [{"const": 1}, {"const": 2}]},
            "Two rules of the schema ask for different types or values.",
        ),
        ({"type": "integer", "minimum": 1.1, "maximum": 1.9}, "No number lies between its bounds."),
        ({"type": "number", "exclusiveMinimum": 2, "maximum": 1}, "No number lies between its bounds."),
        (
            {"type": "number", "multipleOf": 5, "minimum": 1, "maximum": 4},
            "No number lies between its bounds.",
        ),
        (
            {"type": "string", "minLength": 2, "maxLength": 1},
            "A text would have to be longer than it may be.",
        ),
        (
            {"type": "string", "minLength": 20_001},
            "A text would have to be longer than 20,000 characters.",
        ),
        (
            {"type": "string", "pattern": "(?=" + "a" * 100 + ")"},
            f"No text can be generated for the pattern “(?={'a' * 77}”.",
        ),
        (
            {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"const": 1}},
            "Too few different values fit an array whose items have to differ.",
        ),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, FORBIDDEN),
        (
            {
                "type": "object",
                "required": ["a"],
                "properties": {"a": {"type": "array", "items": False, "minItems": 1}},
            },
            TOO_LONG_ARRAY,
        ),
        ({"type": "integer", "not": {"type": "integer"}}, "The value is excluded by the vendor."),
        (
            {
                "type": "object",
                "properties": {"a": {"items": {"not": {}}, "minItems": 1, "type": "array"}},
                "required": ["a"],
            },
            "a.0 is excluded by the vendor.",
        ),
        (
            {"type": "string", "examples": ["a"], "enum": ["b"], "not": {"const": "b"}},
            "The value is excluded by the vendor.",
        ),
    ],
    ids=str,
)
def test_reason_why_no_value_fits(schema, reason):
    with pytest.raises(UnmetSchemaError) as error:
        samples.generate(schema, 1)
    assert error.value.why == str(error.value)
    assert error.value.why == f"No answer could be generated that fits the output schema. {reason}"
    assert not error.value.is_limited


def test_limit_of_work_is_stated():
    with pytest.raises(UnmetSchemaError) as error:
        samples.generate(
            {"type": "array", "minItems": 4_000, "items": {"type": "string", "pattern": "a{200}"}}, 1
        )
    assert error.value.is_limited
    assert error.value.why.endswith("It takes too long to generate.")


def test_work_is_counted_for_all_values_of_a_generator():
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    work = Work(1_000)
    generator = samples.Generator(schema, work)
    ready = samples.validation.checked(schema)
    assert [generator.generate(ready, seed, 0.5) for seed in range(3)] == [{"a": 1}] * 3
    assert work.done == 6


@pytest.mark.parametrize(
    ("name", "texts"), [(name, texts) for words, texts in samples.BY_NAME for name in words]
)
def test_a_name_has_usual_values(name, texts):
    schema = {"type": "object", "properties": {f"X{name.upper()}2": {"type": "string"}}}
    (value,) = samples.generate(schema, 5).values()
    assert value in texts
