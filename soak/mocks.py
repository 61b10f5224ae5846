"""Output schemas that other programs wrote, mocked by three seeds each: an answer fits its schema, and the
same seed gives it again.
"""

from core.schema.samples import UnmetSchemaError
from execution.activities.mocks import answers
from execution.activities.mocks.answers import Mock
from soak.frame import Field, stopwatch
from tests.designer.exports import real_tools


def storm(field: Field) -> None:
    found = [signature for signature in real_tools.signatures() if answers.promises(signature)]
    found = found[:: field.times(short=10, long=1)]
    seeds = range(3)
    with stopwatch() as seconds:
        for signature in found:
            for seed in seeds:
                try:
                    made = answers.made_up(Mock(seed=seed), signature, {"number": seed})
                    again = answers.made_up(Mock(seed=seed), signature, {"number": seed})
                except UnmetSchemaError as error:
                    field.expect(False, f"{signature.name}: {error.why}")
                    continue
                faults = answers.faults_in_outputs(signature, made)
                field.expect(not faults, f"{signature.name}: {faults[:1]}")
                field.expect(made == again, f"{signature.name}: seed {seed} gave two answers")
    field.fault("output schema", f"{len(found)} mocked, {len(seeds)} times each")
    field.figure("output schemas", len(found))
    field.figure("answers a second, each made twice and judged", round(len(found) * len(seeds) / seconds()))
