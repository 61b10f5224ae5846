"""Mocks of tools that other programs wrote. Three times each: `make soak ARGS=mocks`."""

from execution.activities.mocks import answers
from tests.designer.exports import real_tools


def test_outputs_of_real_tools_are_made_up_and_fit():
    signatures = [signature for signature in real_tools.signatures() if answers.promises(signature)]

    outputs = [answers.made_up(answers.Mock(seed=5), signature, {}) for signature in signatures]

    assert len(signatures) > 4
    faults_of_each = [answers.faults_in_outputs(*pair) for pair in zip(signatures, outputs, strict=True)]
    assert [faults for faults in faults_of_each if faults] == []
