import pytest

from core.fitted_pages import fitted_page_of

ROWS = [10, 20, 70, 5, 5, 90, 200, 1]


def page(number, rows=ROWS, **options):
    return fitted_page_of(rows, number, **{"count_bytes": int, "max_bytes": 100, "name": "inputs", **options})


@pytest.mark.parametrize(
    ("number", "rows", "first", "last", "previous", "following"),
    [
        ("", [10, 20, 70], 1, 3, 0, 4),
        ("2", [10, 20, 70], 1, 3, 0, 4),
        ("4", [5, 5, 90], 4, 6, 1, 7),
        ("7", [200], 7, 7, 4, 8),
        ("99", [1], 8, 8, 7, 0),
        ("x", [10, 20, 70], 1, 3, 0, 4),
    ],
)
def test_each_page_has_as_many_rows_as_fit(number, rows, first, last, previous, following):
    numbered_page = page(number)
    assert [*numbered_page] == rows
    assert (numbered_page.first, numbered_page.last, numbered_page.previous, numbered_page.next) == (
        first,
        last,
        previous,
        following,
    )
    assert (numbered_page.total, numbered_page.is_part, numbered_page.name) == (8, True, "inputs")


def test_a_page_has_a_most_number_of_rows():
    assert [*page("3", [1] * 5, size=2)] == [1, 1]
    assert page("3", [1] * 5, size=2).previous == 1


def test_rows_of_a_page_may_be_replaced():
    assert page("4").with_rows("abc").previous == 1


@pytest.mark.parametrize("rows", [[], [1, 2]])
def test_a_list_that_fits_is_one_page(rows):
    numbered_page = page("", rows)
    assert ([*numbered_page], numbered_page.is_part, numbered_page.previous, numbered_page.next) == (
        rows,
        False,
        0,
        0,
    )
