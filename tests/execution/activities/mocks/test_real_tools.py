"""Mocks of tools that other programs wrote. Three times each: `make soak ARGS=mocks`."""

from execution.activities.mocks import answers
from tests.designer.exports import real_tools


def test_outputs_of_real_tools_are_made_up_and_fit():
    found = [each for each in real_tools.signatures() if answers.promises(each)]

    made = [answers.made_up(answers.Mock(seed=5), signature, {}) for signature in found]

    assert len(found) > 4
    judged = [answers.faults_in_outputs(*each) for each in zip(found, made, strict=True)]
    assert [faults for faults in judged if faults] == []
