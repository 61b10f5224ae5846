from typing import Any

from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS
from catalog.models.threads import ThreadStatus
from core.errors import DomainError
from core.serializers import Input, valid_data
from designer.api.agents import chosen_agent
from designer.api.asked_releases import NUMBER, find_release
from designer.api.release_agents import SUB
from designer.models import Release
from execution.threads import threads as vendors_threads
from people.api.generics import GenericAPIView, ListAPIView
from people.models import ApiKey, KeyScope, Role
from people.permissions import key_of, person
from protocols.base import MAX_HISTORY, ThreadState
from protocols.server import UnknownToolError
from serving import stored_calls, threads
from serving.api.invoke import NAME
from serving.threads import ThreadView

CALLS_SHOWN = 20
DEFAULT_HISTORY = 10


class ThreadInput(Input):
    id = serializers.UUIDField(
        required=False, help_text="An id of your choice. The same request with it starts no second thread."
    )
    metadata = serializers.DictField(
        required=False, help_text="Your own metadata; the vendor stores it with the thread."
    )


class ThreadRow(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    tool = serializers.CharField(
        allow_null=True,
        help_text=(
            "The name of the tool; null before the first run, and if the release no longer shows the tool."
        ),
    )
    release = serializers.IntegerField(allow_null=True)
    status = serializers.ChoiceField(
        choices=ThreadStatus.choices, help_text="The last known status. `busy` while a call is running."
    )
    requested_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(help_text="The time of the last call on the thread.")


class ThreadNoteOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class StateOutput(serializers.Serializer[Any]):
    """The state that the vendor reports. `notes`: mismatches with the schema, and omitted parts."""

    values = serializers.JSONField(allow_null=True)
    messages = serializers.ListField(child=serializers.JSONField(), allow_null=True)
    metadata = serializers.DictField()
    checkpoint = serializers.CharField(
        help_text="The name of this state, with which `before` requests earlier ones; may be empty."
    )
    notes = ThreadNoteOutput(many=True)


class ThreadOutput(ThreadRow):
    state = StateOutput(
        allow_null=True, help_text="The state; null if the vendor does not report it now (`error`)."
    )
    error = ThreadNoteOutput(allow_null=True)
    state_schema = serializers.DictField(
        allow_null=True, help_text="The vendor's schema of `values`; null if it declares none."
    )
    calls = serializers.ListField(
        child=serializers.IntegerField(), help_text=f"The newest {CALLS_SHOWN} on it, the newest first."
    )


class HistoryOutput(serializers.Serializer[Any]):
    results = StateOutput(many=True, help_text="The states, the newest first.")


def _thread_row(view: ThreadView, *, is_busy: bool) -> dict[str, Any]:
    thread = view.thread
    return {
        "id": str(thread.key),
        "tool": view.tool.signature.name if view.tool else None,
        "release": thread.release,
        "status": ThreadStatus.BUSY if is_busy else thread.status,
        "requested_by": thread.requested_name,
        "created_at": thread.created_at,
        "used_at": thread.used_at,
    }


def _state_document(state: ThreadState) -> dict[str, Any]:
    return {
        "values": state.values,
        "messages": None if state.messages is None else list(state.messages),
        "metadata": dict(state.metadata),
        "checkpoint": state.checkpoint,
        "notes": [{"code": note.code, "message": note.message} for note in state.notes],
    }


def _thread_document(thread: Thread, key: ApiKey | None) -> dict[str, Any]:
    (view,), state, error = threads.view_threads([thread]), None, None
    try:
        state_row = vendors_threads.state(thread)
        thread.refresh_from_db(fields=["status"])
        state = _state_document(threads.hide_from_people(state_row, view, key))
    except DomainError as failure:
        error = {"code": failure.code, "message": failure.message}
    newest_calls = list(thread.calls.order_by("-pk").only("pk", "status", "thread")[:CALLS_SHOWN])
    return {
        **_thread_row(view, is_busy=any(call.is_active for call in newest_calls)),
        "state": state,
        "error": error,
        "state_schema": view.state_schema,
        "calls": [call.pk for call in newest_calls],
    }


def _visible_threads(request: Request, slug: str) -> QuerySet[Thread]:
    return stored_calls.threads_of(chosen_agent(request, slug).pk, key_of(request))


@extend_schema(tags=["threads"])
class ReleaseThreads(GenericAPIView[Release]):
    """Begin a thread. Each run of the tool on it continues with the state after the last run.

    409 `no_threads`: the tool's vendor has none. Calls name the thread in `thread`.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = ThreadOutput
    queryset = Release.objects.none()

    @extend_schema(
        operation_id="agents_releases_tools_threads_create",
        parameters=[NUMBER, NAME],
        request=ThreadInput,
        responses={201: ThreadOutput},
    )
    def post(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> Response:
        values = valid_data(ThreadInput(data=request.data))
        actor, key = person(request), key_of(request)
        try:
            thread = threads.begin(
                find_release(request, slug, number),
                name,
                actor=actor,
                key=key,
                sub_agent="" if sub == slug else sub,
                thread_id=values.get("id"),
                metadata=values.get("metadata"),
            )
        except (Http404, UnknownToolError) as error:
            if key and KeyScope.INVOKE in key.scopes:
                stored_calls.record_refusal(key, actor=actor, agent=slug, tool=name)
            raise Http404 from error
        return Response(ThreadOutput(_thread_document(thread, key)).data, status=201)


@extend_schema(tags=["threads"])
class ReleaseAgentThreads(ReleaseThreads):
    """Begin a thread for a tool of one agent of a release."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_threads_create",
        parameters=[NUMBER, SUB, NAME],
        request=ThreadInput,
        responses={201: ThreadOutput},
    )
    def post(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> Response:
        return super().post(request, slug, number, name, sub)


@extend_schema(tags=["threads"])
class AgentThreads(ListAPIView[Thread]):
    """The threads that runtimes of this agent have begun, the newest first."""

    invokes = True
    serializer_class = ThreadRow
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Thread]:
        running = Call.objects.filter(status__in=ACTIVE_CALLS).only("pk", "thread")
        rows = _visible_threads(self.request, self.kwargs["slug"])
        return rows.prefetch_related(Prefetch("calls", running, to_attr="under_way"))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        rows = self.paginate_queryset(self.get_queryset()) or ()
        rows_with_state = [
            _thread_row(view, is_busy=bool(view.thread.under_way))  # type: ignore[attr-defined]
            for view in threads.view_threads(rows)
        ]
        return self.get_paginated_response(ThreadRow(rows_with_state, many=True).data)


@extend_schema(tags=["threads"])
class AgentThread(GenericAPIView[Thread]):
    """A thread with its current state, which is requested from the vendor."""

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = ThreadOutput
    queryset = Thread.objects.none()

    @extend_schema(operation_id="agents_threads_retrieve")
    def get(self, request: Request, slug: str, thread: str) -> Response:
        row = get_object_or_404(_visible_threads(request, slug), key=thread)
        return Response(ThreadOutput(_thread_document(row, key_of(request))).data)

    @extend_schema(operation_id="agents_threads_destroy", responses={204: None})
    def delete(self, request: Request, slug: str, thread: str) -> Response:
        """End the thread, at the vendor too. 409 `thread_busy` while a call is running."""
        row = get_object_or_404(_visible_threads(request, slug), key=thread)
        vendors_threads.remove(row, actor=person(request))
        return Response(status=204)


@extend_schema(tags=["threads"])
class AgentThreadHistory(GenericAPIView[Thread]):
    """Earlier states of a thread, as the vendor stores them."""

    invokes = True
    serializer_class = HistoryOutput
    queryset = Thread.objects.none()

    @extend_schema(
        operation_id="agents_threads_history",
        parameters=[
            OpenApiParameter(
                "limit", int, description=f"{DEFAULT_HISTORY} by default, {MAX_HISTORY} at most."
            ),
            OpenApiParameter("before", str, description="The `checkpoint` of a state."),
        ],
    )
    def get(self, request: Request, slug: str, thread: str) -> Response:
        limit = request.query_params.get("limit", str(DEFAULT_HISTORY))
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= MAX_HISTORY:
            message = f"“limit” is a whole number from 1 to {MAX_HISTORY}."
            raise DomainError("invalid", message, fields={"limit": message})
        row = get_object_or_404(_visible_threads(request, slug), key=thread)
        (view,), before = threads.view_threads([row]), request.query_params.get("before", "")
        states = vendors_threads.history(row, limit=int(limit), before=before[:255])
        key = key_of(request)
        results = [_state_document(threads.hide_from_people(state, view, key)) for state in states]
        return Response(HistoryOutput({"results": results}).data)
