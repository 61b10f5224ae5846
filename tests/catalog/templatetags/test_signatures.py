from catalog.templatetags.signatures import MAX_SOURCES, pretty_json, schema_source


def test_a_schema_is_written_whole_unless_it_makes_the_page_too_long():
    usual, vast = {"type": "array", "items": {"type": "string"}}, {"enum": list(range(50_000))}
    assert schema_source(usual, [usual] * 30) == pretty_json(usual)
    assert len(schema_source(vast, [vast])) < 1.1 * MAX_SOURCES
    assert sum(len(schema_source(vast, [vast] * 20)) for _ in range(20)) < 1.1 * MAX_SOURCES
