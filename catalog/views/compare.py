from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from catalog.tools import comparison
from catalog.views.asked import numbers
from people.models import Role
from people.permissions import requires


@requires(Role.VIEWER)
def tool_compare(request: HttpRequest) -> HttpResponse:
    found = comparison.compare(numbers(request.GET.getlist("tool")))
    context = {"columns": found.columns, "inputs": found.inputs, "outputs": found.outputs}
    return render(request, "catalog/compare.html", context)
