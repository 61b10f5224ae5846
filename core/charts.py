"""Geometry of small charts: numbers become rectangles and lines in a view box of whole units.

`templates/_chart.html` draws a `Chart` with its sentence and the table of the same numbers. A chart without
marks is not drawn, and its sentence states what is missing. Nothing here reads a database or a clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

WIDTH, HEIGHT = 600, 64
STRIP_HEIGHT, STRIP_SLOTS = 24, 60
_TICK, _GAP = 6, 4  # the dashes of `_chart_picture.html`
_MARK = 6

# A value of a bar, and its tone: "" for the usual, "bad" or "warn" for what a person should see.
Part: TypeAlias = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle in the view box. label: a tooltip."""

    x: int
    y: int
    width: int
    height: int
    tone: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with its sentence and its numbers.

    summary: one sentence that states what the picture shows, or what is missing for one.
    lines: points of each unbroken line. limit: the height of a limit. first, last: the ends of the axis.
    is_strip: the marks are stretches of ticks. is_open: the table is not folded.
    """

    title: str
    summary: str
    marks: tuple[Mark, ...] = ()
    lines: tuple[tuple[tuple[int, int], ...], ...] = ()
    limit: int | None = None
    first: str = ""
    last: str = ""
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()
    is_strip: bool = False
    is_open: bool = False

    @property
    def is_drawn(self) -> bool:
        return bool(self.marks or self.lines)

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def height(self) -> int:
        return STRIP_HEIGHT if self.is_strip else HEIGHT

    @property
    def stretches(self) -> list[tuple[Mark, str]]:
        """Return one mark of each tone, with the path data of all ticks of that tone in one piece."""
        paths: dict[str, str] = {}
        for mark in self.marks:
            paths[mark.tone] = (
                paths.get(mark.tone, "") + f"M{mark.x} {mark.y + mark.height // 2}h{mark.width}"
            )
        return [(mark, paths[tone]) for tone, mark in {mark.tone: mark for mark in self.marks}.items()]

    @property
    def paths(self) -> list[str]:
        """The lines as path data of SVG."""
        return ["M" + "L".join(f"{x} {y}" for x, y in points) for points in self.lines]


def strip(tones: Sequence[str]) -> tuple[Mark, ...]:
    """Return the newest `STRIP_SLOTS` tones as ticks at the right end, each stretch of one tone as one mark.

    A tick with a tone is taller, so that it differs without its colour.
    """
    tones = tones[-STRIP_SLOTS:]
    slot, marks = STRIP_SLOTS - len(tones), []
    for tone, stretch in groupby(tones):
        count, height = len(list(stretch)), STRIP_HEIGHT if tone else STRIP_HEIGHT // 2
        x, width = slot * (_TICK + _GAP), count * (_TICK + _GAP) - _GAP
        marks.append(Mark(x, STRIP_HEIGHT - height, width, height, tone))
        slot += count
    return tuple(marks)


def bars(
    columns: Sequence[Sequence[Part]], labels: Sequence[str] = (), *, limit: float | None = None
) -> tuple[tuple[Mark, ...], int | None]:
    """Return the bars of all columns, from left to right, and the height of the limit.

    The parts of a column are on top of each other. A column without parts is a gap. A bar that is not 0 has a
    visible height.
    """
    measured = [[(_clamp(value) or 0, tone) for value, tone in parts] for parts in columns]
    highest = max([sum(value for value, _ in parts) for parts in measured] + [_clamp(limit) or 0], default=0)
    marks: list[Mark] = []
    for position, parts in enumerate(measured):
        start, right = position * WIDTH // len(measured), (position + 1) * WIDTH // len(measured)
        width, bottom = max(1, (right - start) * 7 // 10), HEIGHT
        start = min(start, WIDTH - width)
        for value, tone in (part for part in parts if part[0]):
            height = min(max(3, round(value / highest * HEIGHT)), bottom)
            label = labels[position] if labels else ""
            marks.append(Mark(start, bottom - height, width, height, tone, label))
            bottom -= height
    height_of_limit = _clamp(limit)
    return tuple(mark for mark in marks if mark.height), (
        None if height_of_limit is None or not highest else HEIGHT - round(height_of_limit / highest * HEIGHT)
    )


def line(values: Sequence[float | None]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the unbroken lines through the values. None is a gap, and a single value a short line."""
    measured = [_clamp(value) for value in values]
    highest = max((value for value in measured if value is not None), default=0) or 1
    step = WIDTH / max(1, len(measured) - 1)
    lines, position = [], 0
    for is_gap, stretch in groupby(measured, lambda value: value is None):
        points = []
        for value in stretch:
            if value is not None:
                points.append((round(position * step), HEIGHT - 2 - round(value / highest * (HEIGHT - 4))))
            position += 1
        if len(points) == 1:
            x = min(points[0][0], WIDTH - _MARK)
            points = [(x, points[0][1]), (x + _MARK, points[0][1])]
        if not is_gap:
            lines.append(tuple(points))
    return tuple(lines)


def timeline(
    moments: Sequence[float], heights: Sequence[int], tones: Sequence[str], labels: Sequence[str]
) -> tuple[Mark, ...]:
    """Return a mark for each moment, in proportion between the first and the last one.

    heights: how many there are at the moment; the mark grows by it, from a quarter of the view box.
    """
    if not moments:
        return ()
    start, highest = min(moments), max(1, *heights)
    span = max(moments) - start
    marks = []
    for moment, count, tone, label in zip(moments, heights, tones, labels, strict=True):
        share = (moment - start) / span if span else 0.5
        height = HEIGHT // 4 + round(HEIGHT * 3 / 4 * max(0, count) / highest)
        marks.append(Mark(round(share * (WIDTH - _MARK)), HEIGHT - height, _MARK, height, tone, label))
    return tuple(marks)


def _clamp(value: float | None) -> float | None:
    # What is no finite number of at least 0 is a gap. A bound keeps sums finite.
    return min(value, 1e300) if value is not None and math.isfinite(value) and value >= 0 else None
