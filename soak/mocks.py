"""Output schemas that other programs wrote, mocked by three seeds each: an answer fits its schema, and the
same seed gives it again.
"""

from core.schema.samples import UnmetSchemaError
from execution.activities.mocks import answers
from execution.activities.mocks.answers import Mock
from soak.frame import Field, stopwatch
from tests.designer.exports import real_tools


def storm(field: Field) -> None:
    signatures = [signature for signature in real_tools.signatures() if answers.promises(signature)]
    signatures = signatures[:: field.times(short=10, long=1)]
    seeds = range(3)
    with stopwatch() as seconds:
        for signature in signatures:
            for seed in seeds:
                try:
                    mock_result = answers.made_up(Mock(seed=seed), signature, {"number": seed})
                    again = answers.made_up(Mock(seed=seed), signature, {"number": seed})
                except UnmetSchemaError as error:
                    field.expect(False, f"{signature.name}: {error.why}")
                    continue
                faults = answers.faults_in_outputs(signature, mock_result)
                field.expect(not faults, f"{signature.name}: {faults[:1]}")
                field.expect(mock_result == again, f"{signature.name}: seed {seed} gave two answers")
    field.fault("output schema", f"{len(signatures)} mocked, {len(seeds)} times each")
    field.figure("output schemas", len(signatures))
    field.figure(
        "answers a second, each made twice and judged", round(len(signatures) * len(seeds) / seconds())
    )
