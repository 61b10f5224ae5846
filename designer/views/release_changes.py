"""The differences of two releases on a page: some at a time, and details when one is opened."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from core.numbered_pages import NumberedPage
from core.readable_changes import ReadableChange
from designer.releases.readable_diff import ReleaseComparison


def is_for_details(request: HttpRequest) -> bool:
    """Return whether the request is for the details of one change, which the page has as a link too."""
    return "change" in request.GET and request.method == "GET" and "HX-Request" in request.headers


def details_response(request: HttpRequest, comparison: ReleaseComparison | None) -> HttpResponse:
    key, number = request.GET["change"], request.GET.get("parts", "")
    change = comparison.details(key, number) if comparison else None
    return render(request, "_change_details.html", {"change": change})


def changes_page(
    request: HttpRequest, comparison: ReleaseComparison | None, *, is_open: bool = True
) -> NumberedPage[ReadableChange] | list[ReadableChange]:
    if comparison is None:
        return []
    query = request.GET
    return comparison.page(
        query.get("changes", ""), key=query.get("change", ""), parts=query.get("parts", ""), is_open=is_open
    )
