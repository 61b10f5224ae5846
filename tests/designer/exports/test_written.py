"""Small tools as each format writes them, byte for byte, with all remarks, names and origins."""

import pytest

from designer import exports
from tests.designer.exports import written

LINES = written.FILE.read_text(encoding="utf-8").splitlines()
COUNT = len(exports.FORMATS)


@pytest.mark.parametrize("number", range(len(written.SIGNATURES)), ids=list(written.SIGNATURES))
def test_formats_write_what_they_wrote(number):
    name = list(written.SIGNATURES)[number]
    lines = written.as_text({name: written.everything(name)}).splitlines()
    assert lines == LINES[number * COUNT : (number + 1) * COUNT]


def test_no_line_is_left_over():
    assert len(LINES) == len(written.SIGNATURES) * COUNT
