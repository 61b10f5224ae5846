import gc

from core.content_cache import ContentCache, ObjectCache, SchemaCache, count_bytes, digest_once
from protocols.signature import read_stored, to_json
from tests.factories import make_signature


def test_results_about_an_object_last_as_long_as_the_object():
    cache, signature = ObjectCache(), make_signature("look_up")
    assert [cache.get(signature, lambda: 1), cache.get(signature, lambda: 2)] == [1, 1]
    del signature
    gc.collect()
    assert cache._results == {}


def test_equal_objects_have_equal_digests_and_others_do_not():
    one, equal, other = make_signature("look_up"), make_signature("look_up"), make_signature("look_down")
    assert digest_once(one) == digest_once(one) == digest_once(equal) != digest_once(other)


def test_a_stored_text_is_decoded_once_and_another_text_is_another_signature():
    text, other = (to_json(make_signature(name)).decode() for name in ("look_up", "look_down"))
    assert read_stored(text) is read_stored(text)
    assert read_stored(other).name == "look_down"


def test_each_caller_gets_a_schema_of_its_own():
    cache, runs = SchemaCache(size=2), []

    def evaluate():
        runs.append(1)
        return {"type": "object", "properties": {}}, "whole"

    schema, result = cache.get("a", evaluate)
    schema["properties"]["changed"] = True

    assert (result, cache.get("a", evaluate)) == ("whole", ({"type": "object", "properties": {}}, "whole"))
    assert len(runs) == 1


def test_results_take_a_bounded_amount_of_memory():
    cache, evaluated = ContentCache(size=1_000, max_bytes=100_000), []

    def get(key, text_length):
        def evaluate():
            evaluated.append(key)
            return {"nested": ["x" * text_length + str(key)]}

        return cache.get(key, evaluate)

    for key in range(20):
        get(key, 10_000)
    assert count_bytes(cache._results) < 110_000
    get(19, 10_000)
    get(0, 10_000)
    assert evaluated == [*range(20), 0]

    # A result that is too large by itself is not cached, and removes no other.
    for _ in range(2):
        get("large", 200_000)
    get(19, 10_000)
    assert evaluated[21:] == ["large", "large"]


def test_memory_of_a_value_counts_each_part_once():
    text = "x" * 50_000
    assert 50_000 < count_bytes({"a": [text], "b": (text, make_signature("look_up"))}) < 60_000


def test_counting_stops_above_the_limit():
    texts = ["x" * 50_000, "y" * 60_000]
    assert 40_000 < count_bytes(texts, limit=40_000) < 61_000 < 110_000 < count_bytes(texts)
