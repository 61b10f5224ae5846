from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from catalog.models.tools import ToolStatus
from catalog.tools import comparison
from catalog.views.asked import numbers
from designer.models import Agent, Pin
from designer.views import last_agent
from people.models import Role
from people.permissions import person, requires


@requires(Role.VIEWER)
def tool_compare(request: HttpRequest) -> HttpResponse:
    """Show up to four tools beside each other with their differences marked, and pin one of them."""
    result = comparison.compare(numbers(request.GET.getlist("tool")))
    agents = Agent.objects.active().visible_to(person(request)).only("slug", "name").order_by("name")
    is_brief = request.GET.get("only") == "differences"
    tools = [column.tool for column in result.columns]
    visible_pins = Pin.objects.active().visible_to(person(request)).filter(tool__in=tools)
    pins = list(visible_pins.select_related("agent").order_by("agent__name"))
    query = request.GET.copy()
    query.pop("only", None)
    if not is_brief:
        query["only"] = "differences"
    uses = [
        (
            [pin for pin in pins if pin.tool_id == tool.pk],
            tool.status == ToolStatus.ACTIVE and tool.stopped_id != tool.current_id and tool.endpoint.is_live,
        )
        for tool in tools
    ]
    context = {
        "found": result,
        "columns": list(zip(result.columns, result.descriptions, uses, strict=True)),
        "inputs": [line for line in result.inputs if line.differs or not is_brief],
        "outputs": [line for line in result.outputs if line.differs or not is_brief],
        "agents": agents,
        "chosen": request.GET.get("agent") or last_agent.last_agent_slug(request, agents),
        "is_brief": is_brief,
        "other_url": f"?{query.urlencode()}",
    }
    return render(request, "designer/compare.html", context)
