"""Serves AGNTCY's ACP 0.2: each tool of a release is an agent that clients find, describe and run.

Schemas and the names of inputs and outputs are those of the export for MCP, which requires objects too.
Threads, questions and configurations are those of tools that are agents at their vendor. A transfer is not an
agent that could run here.
https://github.com/agntcy/acp-spec
"""

from collections.abc import Sequence

from protocols.acp import wire
from protocols.acp.server import agents, messages, runs, threads
from protocols.acp.server.messages import object_in, uuid_of
from protocols.acp.server.release import AcpRelease
from protocols.server import (
    NoSuchAddressError,
    Refusal,
    Server,
    ServerReply,
    ServerRequest,
    Snippet,
    json_reply,
)


class ACPServer(Server[AcpRelease]):
    name = "acp"
    label = "ACP (AGNTCY)"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        # The protocol lists agents by a search with POST.
        everything = """-H "Content-Type: application/json" -d '{}'"""
        return super().snippets(f"{everything} {address}{wire.path(wire.AGENTS, wire.SEARCH)}", agent)

    def answer(self, request: ServerRequest, release: AcpRelease) -> ServerReply:
        kind, *path = request.path.strip("/").split("/")
        match f"/{kind}", request.method, path:
            case wire.RUNS, _, _:
                return runs.answer_runs(request, release, path)
            case wire.THREADS, _, _:
                return _answer_threads(request, release, path)
            case wire.AGENTS, "POST", [wire.SEARCH]:
                return json_reply(agents.search_agents(release, object_in(request)))
            case wire.AGENTS, "GET", [agent_id]:
                return json_reply(agents.summary(release, agents.find_agent(release, agent_id)))
            case wire.AGENTS, "GET", [agent_id, wire.DESCRIPTOR]:
                return json_reply(agents.descriptor(release, agents.find_agent(release, agent_id)))
            case wire.AGENTS, "GET", [agent_id, wire.MANIFEST]:
                return json_reply(agents.manifest(release, agents.find_agent(release, agent_id)))
        raise NoSuchAddressError

    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        return messages.refusal(refusal)


def _answer_threads(request: ServerRequest, release: AcpRelease, path: list[str]) -> ServerReply:
    match request.method, path:
        case "POST", []:
            return json_reply(threads.create_thread(release, object_in(request)))
        case "POST", [wire.SEARCH]:
            return json_reply(threads.search_threads(release, object_in(request)))
        case "GET", [thread]:
            return json_reply(threads.read_thread(release, uuid_of(thread)))
        case "DELETE", [thread]:
            release.remove_thread(uuid_of(thread))
            return ServerReply(status=204)
        case "GET", [thread, wire.HISTORY]:
            return json_reply(threads.history(release, uuid_of(thread), request.parameters))
        case "GET", [thread, "runs"]:
            return json_reply(runs.list_runs(release, uuid_of(thread), request.parameters))
        case _, [thread, "runs", *below]:
            return runs.answer_runs(request, release, below, uuid_of(thread))
    raise NoSuchAddressError
