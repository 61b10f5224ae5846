"""The A2T wire protocol in front of the published tools: four calls that list tools and two that run them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from demo import DemoVendor, page
from demo.calls import CannotDoError, InvalidArgumentsError
from demo.membership import MemberArea
from demo.published_tools import PublishedTools
from demo.signatures import DemoTool, wire
from demo.web import HTML, DemoRequest, Port, Response, VendorServer, as_json, if_changed, whole_number

DEFAULT_PAGE_SIZE = 25
MAX_PAGE_SIZE = 100

T = TypeVar("T")


class RequestError(Exception):
    """A request that gets an answer of 400 or above; `fields` is for arguments."""

    def __init__(self, status: int, code: str, message: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document = {"code": code, "message": message, **({"fields": dict(fields)} if fields else {})}


class A2tApi:
    """Answers requests to one vendor; knows nothing of sockets."""

    def __init__(self, vendor: DemoVendor, published_tools: PublishedTools) -> None:
        self.vendor = vendor
        self.published_tools = published_tools

    def answer(self, request: DemoRequest) -> Response:
        matches = [(method, run, m) for method, path, run in ROUTES if (m := path.fullmatch(request.path))]
        try:
            if not matches:
                raise RequestError(404, "not_found", "There is nothing at this address.")
            for method, run, match in matches:
                if method == request.method:
                    response = run(self, request, *(unquote(group) for group in match.groups()))
                    return if_changed(request, response) if method == "GET" else response
            raise RequestError(405, "method_not_allowed", f"This address takes {matches[0][0]}.")
        except RequestError as exc:
            return as_json(exc.document, exc.status)

    def list_tools(self, request: DemoRequest) -> Response:
        cursor = request.query.get("pageCursor", "").lower()
        remaining = [t for t in self.published_tools.tools.values() if t.id > cursor]
        items, paging = page_of(remaining, request, lambda t: t.id)
        return as_json({"items": [wire(t, t.current_version) for t in items], "paging": paging})

    def show_tool(self, request: DemoRequest, tool_id: str) -> Response:
        tool = self._tool(tool_id)
        return as_json(wire(tool, tool.current_version))

    def list_versions(self, request: DemoRequest, tool_id: str) -> Response:
        tool = self._tool(tool_id)
        cursor = request.query.get("pageCursor") or str(tool.current_version + 1)
        older_than = whole_number(cursor)
        if older_than is None:
            raise RequestError(400, "bad_page_cursor", "pageCursor is not one that this server gave out.")
        items, paging = page_of(range(min(older_than - 1, tool.current_version), 0, -1), request, str)
        return as_json({"items": [wire(tool, version) for version in items], "paging": paging})

    def show_version(self, request: DemoRequest, tool_id: str, version: str) -> Response:
        tool = self._tool(tool_id)
        return as_json(wire(tool, version_of(tool, version)))

    def invoke(self, request: DemoRequest, tool_id: str, version: str = "") -> Response:
        tool = self._tool(tool_id)
        number = version_of(tool, version) if version else None
        try:
            outputs = self.published_tools.invoke(tool, number, arguments_in(request.body, tool))
        except InvalidArgumentsError as exc:
            raise RequestError(400, "invalid_arguments", "Some inputs cannot be used.", exc.fields) from exc
        except CannotDoError as exc:
            raise RequestError(422, exc.code, exc.message) from exc
        return as_json({"output_parameters": [{"name": n, "value": v} for n, v in outputs.items()]})

    def show_page(self, request: DemoRequest) -> Response:
        return Response(
            HTTPStatus.OK, page.render(self.vendor, self.published_tools).encode(), HTML, page.HEADERS
        )

    def publish(self, request: DemoRequest) -> Response:
        self._refuse_other_sites(request)
        news = (
            self.published_tools.publish() or "Everything has been published. POST /demo/reset starts over."
        )
        return self._after_news(request, news)

    def reset(self, request: DemoRequest) -> Response:
        self._refuse_other_sites(request)
        self.published_tools.start_over()
        return self._after_news(request, "Started over: the tools are as they were at first.")

    def _after_news(self, request: DemoRequest, news: str) -> Response:
        # Browsers go back to the page; scripts get the state.
        if "text/html" in request.headers.get("accept", ""):
            return Response(HTTPStatus.SEE_OTHER, headers={"Location": "/"})
        published = self.published_tools
        return as_json(
            {
                "news": news,
                "published": published.steps_taken,
                "remaining": len(published.steps) - published.steps_taken,
            }
        )

    def _refuse_other_sites(self, request: DemoRequest) -> None:
        """Raise RequestError for a press that comes from a page of another site."""
        if not self.vendor.publishes:
            raise RequestError(404, "not_found", f"{self.vendor.name} publishes nothing on request.")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise RequestError(403, "other_site", "Only this server's own page may press this button.")

    def _tool(self, tool_id: str) -> DemoTool:
        tool = self.published_tools.find(tool_id)
        if tool is None:
            raise RequestError(
                404, "tool_not_found", "There is no tool with this id, or it is no longer offered."
            )
        return tool


Route = tuple[str, re.Pattern[str], Callable[..., Response]]
ROUTES: tuple[Route, ...] = (
    ("GET", re.compile(r"/tools"), A2tApi.list_tools),
    ("GET", re.compile(r"/tools/([^/:]+)"), A2tApi.show_tool),
    ("GET", re.compile(r"/tools/([^/:]+)/versions"), A2tApi.list_versions),
    ("GET", re.compile(r"/tools/([^/:]+)/versions/([^/:]+)"), A2tApi.show_version),
    ("POST", re.compile(r"/tools/([^/:]+):invoke"), A2tApi.invoke),
    ("POST", re.compile(r"/tools/([^/:]+)/versions/([^/:]+):invoke"), A2tApi.invoke),
    ("GET", re.compile(r"/"), A2tApi.show_page),
    ("POST", re.compile(r"/demo/publish"), A2tApi.publish),
    ("POST", re.compile(r"/demo/reset"), A2tApi.reset),
)


def page_of(
    items: Sequence[T], request: DemoRequest, cursor: Callable[[T], str]
) -> tuple[Sequence[T], dict[str, object]]:
    """The first items of `items`, and the paging member; the cursor is that of the last item shown."""
    page_size = whole_number(request.query.get("pageLimit") or str(DEFAULT_PAGE_SIZE))
    if not page_size:
        raise RequestError(400, "bad_page_limit", "pageLimit must be a whole number from 1 on.")
    limit = min(page_size, MAX_PAGE_SIZE)
    more = {"next": cursor(items[limit - 1])} if len(items) > limit else {}
    return items[:limit], {"pageLimit": limit, **more}


def version_of(tool: DemoTool, text: str) -> int:
    version = whole_number(text)
    if not version or version > tool.current_version:
        raise RequestError(404, "version_not_found", f"{tool.name} has no version {text}.")
    return version


def arguments_in(body: bytes, tool: DemoTool) -> list[tuple[str, object]]:
    """Return the tool's name, and names and values in the order of the request. A name may occur twice.
    Raises RequestError."""
    try:
        document = json.loads(body)
        name, values = document["name"], [(str(p["name"]), p["value"]) for p in document["input_parameters"]]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        form = 'The body must be {"name": ..., "input_parameters": [{"name": ..., "value": ...}]}.'
        raise RequestError(400, "bad_request", form) from exc
    if name != tool.name:
        raise RequestError(400, "wrong_name", f"The tool at this address is called {tool.name}.")
    return values


class A2tServer(VendorServer):
    def __init__(self, port: Port, vendor: DemoVendor, published_tools: PublishedTools) -> None:
        api = A2tApi(vendor, published_tools)
        super().__init__(port, MemberArea(api) if vendor.has_members else api)
