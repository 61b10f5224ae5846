"""A run of the suite ends with the ten files that took most of its time."""

from types import SimpleNamespace

from tests import slowest_files


def report(test, seconds):
    return SimpleNamespace(nodeid=test, duration=seconds)


def test_the_phases_of_all_tests_of_a_file_are_added_up():
    quick = [report(f"tests/test_{number:02}.py::test_it", 1.0) for number in range(11)]
    slow = [report(f"tests/test_slow.py::test_it[{case}::x]", 2.0) for case in "ab" for _ in range(3)]
    lines = slowest_files.summary([*quick, *slow])
    assert len(lines) == 10
    assert lines[0].split() == ["12.0", "s", "52.2%", "tests/test_slow.py"]


def test_a_run_of_a_few_files_shows_nothing():
    assert slowest_files.summary([report("tests/test_a.py::test_it", 1.0)]) == []
