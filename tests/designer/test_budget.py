from designer import budget
from designer.effective import ParameterWords, Words, effective
from tests.factories import make_parameter, make_signature


def test_shorter_words_and_hidden_inputs_cost_less():
    signature = make_signature(
        description="word " * 50, inputs=(make_parameter(), make_parameter("days", required=False))
    )
    whole = effective(signature, name="t")
    words = Words(description="Short", parameters={"days": ParameterWords(hidden=True)})
    tuned = effective(signature, name="t", agent_tuning=words)

    assert 90 < budget.tokens(whole) < 150
    assert budget.tokens(tuned) < budget.tokens(whole) - 60


def test_what_a_model_is_not_shown_costs_nothing():
    bare = effective(make_signature(), name="t")
    rich = effective(
        make_signature(outputs=(make_parameter(),), tags=("a",), img="https://a.example/"), name="t"
    )

    assert budget.tokens(rich) == budget.tokens(bare)
