"""The error codes of tool calls, with their meaning and whether a retry can help. Pure.

Codes in capital letters appear in the error of an outcome. Codes in lower case refuse a request before
anything is sent, with an HTTP status.
"""

from collections.abc import Iterable, Mapping

from protocols.call_outcome import CallError

_FIELDS = {"type": "object", "additionalProperties": {"type": "string"}}


_UNREADABLE = "The vendor's reply cannot be parsed: {}. The tool may have run."
_BY_REPLY: Mapping[str, str] = {
    "BODY_RATIO": "it grows suspiciously when it is unpacked",
    "BODY_TOO_LARGE": "it is larger than the limit",
    "EMPTY_REPLY": "it has no body",
    "ENCODING": "its encoding is unknown or broken",
    "FRAMING": "its lengths contradict each other",
    "HEADERS": "its headers cannot be read",
    "JSON_DEPTH": "its values are nested too deeply",
    "JSON_DUPLICATE": "its JSON repeats a member",
    "JSON_NUL": "it contains a NUL character",
    "JSON_NUMBER": "it contains a number that cannot be stored",
    "JSON_SURROGATE": "it contains half of a surrogate pair",
    "JSON_SYNTAX": "it is not valid JSON",
    "JSON_TOO_MANY": "it contains more values than the limit",
    "NOT_HTTP": "the server does not speak HTTP",
    "NOT_JSON": "it is a web page or another kind of file",
    "NOT_UTF8": "its text is not UTF-8",
    "NO_ANSWER": "its stream ended without an answer",
    "RPC_MISMATCH": "it answers another request",
    "SHAPE": "it does not have the format that the protocol requires",
    "TOO_MANY_EVENTS": "it is a stream of more messages than the limit",
    "WRONG_TOOL": "it is about another tool",
}
_OUTCOME_ERRORS = (
    CallError("ADDRESS", "The address of the vendor's host is in a network that Pegboard may not reach."),
    CallError("ARGUMENTS", "Some inputs do not fit. Nothing was sent.", details_schema=_FIELDS),
    CallError("ASKS_BACK", "The tool requires an action that Pegboard cannot perform."),
    CallError("AUTH", "The vendor does not accept the endpoint's credential."),
    CallError(
        "BODY_TRUNCATED", "The connection broke before the end of the reply. The tool may have run.", True
    ),
    CallError("BUSY", "The endpoint's limit of concurrent requests was reached. Nothing was sent.", True),
    CallError("CANCELLED", "The call was cancelled."),
    CallError(
        "CANNOT_ASK", "The tool has a question for its user, and the calling program cannot ask questions."
    ),
    CallError("CIRCUIT_OPEN", "The vendor failed several times in a row, so nothing was sent.", True),
    CallError("CONFLICT", "The run cannot be continued in its current state."),
    CallError("CONNECT", "No server answers at the vendor's address. Nothing was sent.", True),
    CallError("CONNECT_TIMEOUT", "The vendor's server took too long to answer. Nothing was sent.", True),
    CallError("CREDENTIAL_ELSEWHERE", "The endpoint's credential was entered for another origin."),
    CallError("CREDENTIAL_LOCKED", "The endpoint's credential cannot be decrypted."),
    CallError("DEADLINE", "The tool exceeded its time limit. It may have run.", True),
    CallError("DECLINED", "A question of the tool was declined, and the run was ended."),
    CallError("DNS", "The vendor's host name has no address. Nothing was sent.", True),
    CallError("ECHO", "The vendor sent the credential back, so its reply was discarded."),
    CallError("FORBIDDEN", "The endpoint's credential may not run this tool."),
    CallError("FOR_USERS", "The endpoint's credential is for users of agents, and has no token of its own."),
    CallError("GRANT_MISSING", "The user must authorize access first. `asks` has the address."),
    CallError("GRANT_REFUSED", "The user did not grant a scope that the tool needs."),
    CallError("HEADER", "A value for a header contains a character that HTTP does not allow."),
    CallError("HTTP_4xx", "The vendor answered with this status. The tool did not run successfully."),
    CallError("HTTP_408", "The vendor gave up waiting for the request. The tool may have run.", True),
    CallError("HTTP_425", "The vendor did not handle the request, because it came early.", True),
    CallError(
        "HTTP_5xx", "The vendor's server failed. Unless the status is 503, the tool may have run.", True
    ),
    CallError("IDLE", "The vendor was silent for too long. The tool may have run.", True),
    CallError("INPUT_REQUIRED", "The tool needs an answer before it continues. `asks` has the question."),
    CallError("INSUFFICIENT_SCOPE", "The vendor requires a scope that the endpoint's token does not have."),
    CallError("INTERNAL", "Pegboard itself failed. It is not known whether the tool ran.", None),
    CallError("INTERRUPT", "The agent needs input before it continues. `asks` has the question."),
    CallError("INTERRUPTED", "The call ended before the request was sent."),
    CallError("LATENT", "The tool has no activity: the model writes its output itself."),
    CallError("MCP_VERSION", "The vendor speaks no revision of MCP that Pegboard knows."),
    CallError(
        "MISSING_REQUIREMENTS", "The tool needs more information before it can run. `asks` has the questions."
    ),
    CallError(
        "MOCK_SCHEMA_UNMET",
        "No output can be generated that fits the output schema. Add an example to the mock.",
    ),
    CallError("NEEDS_SIGN_IN", "The sign-in of the endpoint's credential has ended."),
    CallError("NOT_FOUND", "The vendor has no such tool or version any more."),
    CallError("NOT_READY", "The vendor reports that it is not ready. The tool did not run.", True),
    CallError("NOT_RUN", "The vendor refused the call before the tool ran."),
    CallError("NO_ACTIVITY", "The tool is defined in Pegboard and has no activity. Nothing was sent."),
    CallError("NO_REPLY", "The vendor closed the connection without a reply. The tool may have run.", True),
    CallError("NO_RESUME", "Calls of this vendor cannot be continued. Run the tool again."),
    CallError(
        "NO_ROOM_TO_ASK",
        "The tool has a question for its user, and too many questions wait for answers.",
        True,
    ),
    CallError("NO_WORKER", "No worker claimed this call. Nothing was sent.", True),
    CallError("NUMBER", "An input contains a number that cannot be sent."),
    CallError(
        "OUTCOME_UNKNOWN",
        "Pegboard lost its database connection during the call. It is not known whether the tool ran.",
        None,
    ),
    CallError("PATH", "An input would have changed the path to one outside the endpoint's address."),
    CallError("PROXY", "The installation's outbound proxy does not answer. Nothing was sent.", True),
    CallError("PROXY_REFUSED", "The installation's outbound proxy refused the request. Nothing was sent."),
    CallError("QUESTION_OVER", "The vendor no longer waits for the answer."),
    CallError("RATE_LIMITED", "The vendor limits the rate of requests. The tool did not run.", True),
    CallError("REDIRECT", "The vendor points to another address, and redirects are not followed."),
    CallError("REQUEST", "The request contains characters that HTTP does not allow there."),
    CallError("RESET", "The connection was reset. The tool may have run.", True),
    CallError("RPC_ERROR", "The vendor answered with an error of its protocol."),
    CallError("RUN_FAILED", "The agent failed."),
    CallError("RUN_GONE", "The vendor does not know the run any more. Its outcome is not known."),
    CallError("SCOPES_TOO_LONG", "The tools need more scopes at one provider than a request can contain."),
    CallError("SECRET_MISSING", "An administrator has not entered a secret that the tool needs."),
    CallError("SERVER", "The vendor's document sends calls to another server than it was read from."),
    CallError("STILL_RUNNING", "The vendor stopped waiting before the agent was done.", True),
    CallError("TLS", "The certificate of the vendor's server is not trusted."),
    CallError(
        "TOKEN_…",
        "Pegboard received no access token for the endpoint. The rest of the code is the reason.",
        None,
    ),
    CallError("TOKEN_LATER", "The token server is unavailable.", True),
    CallError("TOKEN_NOT_TAKEN", "The vendor rejects an access token that was just issued for it."),
    CallError("TOOL_ERROR", "The tool ran and failed; the message is the vendor's."),
    CallError("UNBOUND", "The sign-in of the endpoint's credential is for another origin."),
    CallError("URL", "The endpoint's address cannot be one of a vendor."),
    CallError("USER_FORGOTTEN", "The data of this call's user was deleted between two steps. Call again."),
    CallError("USER_MISSING", "The tool runs only for a user, and the call names none."),
    CallError(
        "WORKER_LOST", "The process that made this call ended. It is not known whether the tool ran.", None
    ),
    *(CallError(code, _UNREADABLE.format(reason)) for code, reason in _BY_REPLY.items()),
)
_REQUEST_ERRORS = (
    CallError(
        "activity_mismatch",
        "The tool's activity has changed since the model read it. Nothing was run.",
        details_schema=_FIELDS,
    ),
    CallError("activity_reaches_itself", "The activity would run itself, so it was stopped."),
    CallError("activity_removed", "The activity that is bound to the tool was removed."),
    CallError(
        "activity_replaced",
        "Another activity has the name that ran for this tool. Bind one of them in the environment.",
    ),
    CallError("activity_too_deep", "The activity nests other activities deeper than the limit."),
    CallError("activity_too_many_steps", "The activity has more steps in all than a call may have."),
    CallError("activity_unfit", "The tool's activity does not fit this version of the tool."),
    CallError("already_continued", "This call is being or was continued with other answers."),
    CallError("busy", "Too many calls are running. This call was not sent.", True),
    CallError(
        "call_forgotten", "A call with this id was made before, and its outcome is not stored any more."
    ),
    CallError("call_of_a_runtime", "A runtime made this call. Continue it in that runtime."),
    CallError("calls_wait", "Waiting calls start too late. The call was not accepted.", True),
    CallError("cancelled", "Another call of the array failed first. This one was not sent."),
    CallError("confirm_needed", "A user must confirm the call first.", details_schema=_FIELDS),
    CallError("ended_meanwhile", "The call ended before it was sent."),
    CallError("endpoint_removed", "The vendor was removed, so its tools cannot run."),
    CallError(
        "environment_of_key",
        "The key runs tools in another environment alone.",
        details_schema=_FIELDS,
    ),
    CallError("invalid", "Some members of the request are invalid.", details_schema=_FIELDS),
    CallError("invalid_output", "The model's output does not fit its schema.", details_schema=_FIELDS),
    CallError("key_taken", "Another call or thread has this id. Use a new one."),
    CallError("no_threads", "The tool does not keep threads.", details_schema=_FIELDS),
    CallError("no_time", "The batch reached its time limit before this call. Nothing was sent.", True),
    CallError("not_found", "There is no such release or tool, or the key does not reach it."),
    CallError("not_latent", "The tool has an activity, so it accepts no output of a model."),
    CallError("nothing_to_continue", "This call has nothing to be continued. Run the tool again."),
    CallError("other_thread", "The thread is one of another tool.", details_schema=_FIELDS),
    CallError("output_given", "The call was given another output before."),
    CallError("release_damaged", "The catalog's version of the tool is not the one that was released."),
    CallError("release_retired", "The release was retired, and its last day is over."),
    CallError("role_required", "The owner of the key may not run tools."),
    CallError("scope_required", "The key may not run tools."),
    CallError("thread_busy", "A call is under way on the thread.", True),
    CallError("thread_refused", "The vendor refused the request about the thread."),
    CallError("thread_removed", "The thread was removed. Begin another one."),
    CallError("thread_unavailable", "The vendor did not answer about the thread.", True),
    CallError("throttled", "The limit of requests per minute was reached.", True),
    CallError("too_large", "The inputs, or the contents of a thread, are larger than the limit."),
    CallError("too_many_calls", "The key's limit of concurrent calls was reached. Nothing was sent.", True),
    CallError("unknown_activity", "The tool's definition names an activity that does not exist."),
    CallError("unknown_environment", "The agent has no such environment.", details_schema=_FIELDS),
    CallError("unknown_tool", "A step of the activity calls a tool version that does not exist any more."),
    CallError("unknown_user", "The user who asked for the call was removed."),
    CallError("vendor_not_allowed", "The activity calls a vendor that the agent may not use."),
    CallError("version_blocked", "The version was blocked in review."),
    CallError("version_not_shown", "The version that the model read is not offered any more."),
    CallError("waits_for_review", "The version waits for review, until an administrator accepts it."),
)
PEGBOARD_ERRORS: tuple[CallError, ...] = (*sorted(_OUTCOME_ERRORS), *_REQUEST_ERRORS)


def is_known(code: str, errors: Iterable[CallError] = PEGBOARD_ERRORS) -> bool:
    """Return whether `errors` describe this code. HTTP_503 belongs to HTTP_5xx."""
    family = f"{code[:6]}xx" if code.startswith("HTTP_") else code
    prefixes = tuple(error.code[:-1] for error in errors if error.code.endswith("…"))
    return any(error.code in (code, family) for error in errors) or code.startswith(prefixes)
