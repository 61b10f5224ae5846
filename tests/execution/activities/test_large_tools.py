"""Activities over tools with as many parameters as a tool may have. Work is counted, not time."""

from collections import Counter

from execution.activities import mapping, members
from execution.forms.source_rows import MAX_CHOICES, Origin, SourceRow
from tests.factories import make_parameter, make_signature

COUNT = 1_000
DEFINITIONS = {"$defs": {"Place": {"properties": {f"m{n}": {"type": "string"} for n in range(40)}}}}


def parameters(**fields):
    return tuple(make_parameter(f"p{n}", description="One of very many", **fields) for n in range(COUNT))


def test_a_proposal_reads_the_words_of_each_parameter_once(monkeypatch):
    texts, words = Counter(), mapping.words

    def count_words(text):
        texts[text] += 1
        return words(text)

    monkeypatch.setattr(mapping, "words", count_words)
    one, other = (make_signature(name, inputs=parameters(), outputs=()) for name in ("one", "other"))

    proposal = mapping.propose(one, other)

    assert [(pair.of, pair.to) for pair in proposal.pairs] == [(f"p{n}", f"p{n}") for n in range(COUNT)]
    assert texts.total() < 15 * COUNT


def test_parameters_of_one_name_in_many_spellings_are_compared_with_a_few():
    spelled = tuple(make_parameter("p" + "_" * n, id=str(n)) for n in range(COUNT))
    one, other = (make_signature(name, inputs=spelled, outputs=()) for name in ("one", "other"))

    proposal = mapping.propose(one, other)

    assert {pair.reason for pair in proposal.pairs} == {"id"}
    assert len(proposal.pairs) == COUNT


def test_choices_of_a_page_are_bounded_and_their_schema_is_read_once(monkeypatch):
    read, read_document = [], members.read_document
    monkeypatch.setattr(members, "read_document", lambda schema: read.append(1) or read_document(schema))
    offered = parameters(type="json", schema={"$ref": "#/$defs/Place"})

    origin = Origin("Inputs", 0, offered, DEFINITIONS)
    rows = [SourceRow(f"r-{n}", "x", None, offered[0], [origin], max_choices=20) for n in range(COUNT)]

    assert len(read) == 1
    assert sum(len(choices) for row in rows for _, choices in row.groups) <= MAX_CHOICES


def test_parameters_come_before_members_where_there_are_too_many():
    offered = tuple(make_parameter(f"p{n}", type="json", schema={"$ref": "#/$defs/Place"}) for n in range(3))

    labels = [value for value, _ in Origin("Inputs", 0, offered, DEFINITIONS).choices_for(None, limit=5)]
    all_values = [value for value, _ in Origin("Inputs", 0, offered, DEFINITIONS).choices_for(None)]

    assert labels == [all_values[0], all_values[31], all_values[62], all_values[1], all_values[2]]
