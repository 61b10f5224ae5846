"""Mocks of tools as vendors list them. All of the public ones, three times each: `make soak ARGS=mocks`."""

from catalog.activities.mocks import answers
from tests.designer.exports import real

EVERY = 50


def test_outputs_of_real_tools_are_made_up_and_fit():
    found = [each for each in [*real.recorded(), *real.signatures()[::EVERY]] if answers.promises(each)]

    made = [answers.made_up(answers.Mock(seed=5), signature, {}) for signature in found]

    assert len(found) > 4
    judged = [answers.faults_in_outputs(*each) for each in zip(found, made, strict=True)]
    assert [faults for faults in judged if faults] == []
