import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolViolationError
from protocols import events
from protocols.events import ServerSentEvent


def test_events_end_at_blank_lines():
    body = b"event: note\ndata: one\n\ndata: two\n\n"
    assert list(events.parse(body)) == [ServerSentEvent("note", b"one"), ServerSentEvent("message", b"two")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_each_of_three_ways(end):
    body = end.join([b"data: one", b"data: two", b"", b"data: three", b"", b""])
    assert [event.data for event in events.parse(body)] == [b"one\ntwo", b"three"]


def test_comments_and_unknown_fields_are_passed_over():
    body = b": ping\n\nretry: soon\ncolour: red\nnonsense\ndata: x\n\n"
    assert list(events.parse(body)) == [ServerSentEvent("message", b"x")]


def test_an_event_without_text_still_counts_and_carries_its_id():
    assert list(events.parse(b"id: 7\nretry: 500\ndata:\n\ndata: x\n\n")) == [
        ServerSentEvent("message", b"", "7", 500),
        ServerSentEvent("message", b"x", "7", 500),
    ]


def test_an_event_that_the_stream_ends_inside_of_is_none():
    assert list(events.parse(b'data: {"a": 1}\n\ndata: {"b":')) == [ServerSentEvent("message", b'{"a": 1}')]


def test_only_one_space_after_the_colon_is_no_part_of_the_text():
    assert [event.data for event in events.parse(b"data:a\n\ndata:  b\n\n")] == [b"a", b" b"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"data\n\n" * (events.MAX_EVENTS + 1), "TOO_MANY_EVENTS"),
        (b": ping\n" * (events.MAX_LINES + 1), "TOO_MANY_EVENTS"),
    ],
)
def test_a_stream_that_cannot_be_read_says_why(body, code):
    with pytest.raises(ProtocolViolationError) as caught:
        list(events.parse(body))
    assert caught.value.code == code


@given(st.binary(max_size=300))
def test_junk_is_read_or_refused_and_nothing_else(body):
    try:
        events_read = list(events.parse(body))
    except ProtocolViolationError:
        return
    assert all("\n" not in event.name for event in events_read)


# No "\r": a text may hold none, because it would end its line.
TEXTS = st.lists(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])), min_size=1)


@given(TEXTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(1, 9))
def test_a_stream_in_pieces_is_enough_as_soon_as_the_wanted_event_is_whole(texts, end, size):
    body = b"".join(
        b"".join(b"data: " + line.encode() + end for line in text.split("\n")) + end for text in texts
    )
    data_texts = [event.data.decode() for event in events.parse(body)]
    assert data_texts == texts
    seen_texts = []
    is_enough = events.until(
        lambda event: seen_texts.append(event.data.decode()) or len(seen_texts) == len(texts)
    )
    answers = [is_enough(body[:stop]) for stop in range(size, len(body), size)] + [is_enough(body)]
    assert (seen_texts, answers[-1]) == (texts, True)
    assert not any(answers[:-1])


def test_a_stream_that_is_sent_again_is_read_from_its_start():
    is_enough = events.until(lambda event: event.data == b"wanted")
    assert not is_enough(b"data: a long event of the first try\n\n")
    assert is_enough(b"data: wanted\n\n")
