"""Charts: whatever the numbers are, everything drawn is inside the view box."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import charts
from core.charts import HEIGHT, STRIP_HEIGHT, STRIP_SLOTS, WIDTH, Mark

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(0, 10**18).map(float)
TONES = st.sampled_from(["", "bad", "warn"])


def assert_inside(marks, height=HEIGHT):
    for mark in marks:
        assert mark.width > 0
        assert mark.height > 0
        assert mark.x >= 0
        assert mark.y >= 0
        assert mark.x + mark.width <= WIDTH
        assert mark.y + mark.height <= height


@given(st.lists(TONES, max_size=130))
def test_ticks_are_inside_and_apart_and_none_is_lost(tones):
    marks = charts.strip(tones)

    assert_inside(marks, STRIP_HEIGHT)
    assert sum((mark.width + 4) // 10 for mark in marks) == min(len(tones), STRIP_SLOTS)
    for before, after in pairwise(marks):
        assert before.x + before.width < after.x
        assert before.tone != after.tone


@given(st.lists(st.lists(st.tuples(NUMBERS, TONES), max_size=3), max_size=130), st.none() | NUMBERS)
def test_bars_are_inside_and_in_order(columns, limit):
    marks, height = charts.bars(columns, limit=limit)

    assert_inside(marks)
    assert height is None or 0 <= height <= HEIGHT
    assert [mark.x for mark in marks] == sorted(mark.x for mark in marks)


@given(st.lists(st.none() | NUMBERS, max_size=130))
def test_lines_are_inside_and_have_two_points(values):
    for points in charts.line(values):
        assert len(points) > 1
        for x, y in points:
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


@given(st.lists(st.tuples(st.floats(0, 1e12), st.integers(0, 10**9), TONES), max_size=130))
def test_moments_are_inside_and_in_order_of_time(rows):
    moments = [row[0] for row in rows]
    marks = charts.timeline(moments, [row[1] for row in rows], [row[2] for row in rows], [""] * len(rows))

    assert_inside(marks)
    in_order = sorted(range(len(rows)), key=lambda index: moments[index])
    assert [marks[index].x for index in in_order] == sorted(mark.x for mark in marks)


def test_a_failure_differs_from_a_success_without_its_colour():
    success, failure = charts.strip(["", "bad"])

    assert success.height < failure.height


def test_a_gap_breaks_the_line_and_leaves_out_the_bar():
    assert len(charts.line([1, 2, None, 2, 1])) == 2
    assert len(charts.bars([[(1, "")], [], [(1, "")]])[0]) == 2


def test_equal_values_have_equal_bars_at_the_limit():
    marks, limit = charts.bars([[(5, "")], [(5, "bad")]], limit=5)

    assert {mark.height for mark in marks} == {HEIGHT}
    assert limit == 0


@pytest.mark.parametrize(
    "chart", [charts.strip([]), charts.bars([])[0], charts.line([]), charts.line([None])]
)
def test_nothing_is_drawn_of_nothing(chart):
    assert chart == ()


def test_a_chart_without_marks_is_not_drawn():
    assert not charts.Chart(title="Syncs", summary="No sync yet.").is_drawn
    assert charts.Chart(title="Syncs", summary="", marks=(Mark(0, 0, 1, 1),)).is_drawn


def test_path_data_has_every_point():
    assert charts.Chart(title="", summary="", lines=(((0, 1), (2, 3)),)).paths == ["M0 1L2 3"]
