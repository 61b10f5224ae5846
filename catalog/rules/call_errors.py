"""What can go wrong when a tool is called, by code: what it means, and whether it passes by itself. Pure.

Codes in capital letters stand in the error of an outcome. Those in small letters refuse a request before
anything is sent, and come with a status of HTTP of their own.
"""

from collections.abc import Iterable, Mapping

from protocols.base import CallError

_FIELDS = {"type": "object", "additionalProperties": {"type": "string"}}


_UNREADABLE = "What the vendor answered cannot be read: {}. The tool may have run."
_BY_REPLY: Mapping[str, str] = {
    "BODY_RATIO": "it grows suspiciously when it is unpacked",
    "BODY_TOO_LARGE": "it is larger than the limit",
    "EMPTY_REPLY": "it has no body",
    "ENCODING": "its encoding is unknown or broken",
    "FRAMING": "its lengths contradict each other",
    "HEADERS": "its headers cannot be read",
    "JSON_DEPTH": "its values are nested too deeply",
    "JSON_DUPLICATE": "a member of its JSON is there twice",
    "JSON_NUL": "it holds a NUL character",
    "JSON_NUMBER": "it holds a number that cannot be kept",
    "JSON_SURROGATE": "it holds half a character",
    "JSON_SYNTAX": "it is no JSON",
    "JSON_TOO_MANY": "it holds more values than the limit",
    "NOT_HTTP": "the server does not speak HTTP",
    "NOT_JSON": "it is a web page or another kind of file",
    "NOT_UTF8": "its text is not UTF-8",
    "NO_ANSWER": "its stream ended without an answer",
    "RPC_MISMATCH": "it is the answer to something else",
    "SHAPE": "it is not of the form that the protocol asks for",
    "TOO_MANY_EVENTS": "it is a stream of more messages than the limit",
    "WRONG_TOOL": "it is about another tool",
}
_OF_OUTCOMES = (
    CallError("ADDRESS", "The vendor's host leads into a network that is closed to Pegboard."),
    CallError("ARGUMENTS", "Some inputs do not fit. Nothing was sent.", details_schema=_FIELDS),
    CallError("ASKS_BACK", "The tool asks for what cannot be done for it here."),
    CallError("AUTH", "The vendor does not accept the endpoint's credential."),
    CallError(
        "BODY_TRUNCATED", "The connection broke before the reply was whole. The tool may have run.", True
    ),
    CallError("BUSY", "As many requests as the endpoint allows were under way. Nothing was sent.", True),
    CallError("CANCELLED", "The call was cancelled."),
    CallError("CANNOT_ASK", "The tool asks its user, and the program that calls said that it cannot."),
    CallError("CIRCUIT_OPEN", "The vendor failed several times in a row, so nothing was sent.", True),
    CallError("CONFLICT", "The run is not one that can go on now."),
    CallError("CONNECT", "No server answers at the vendor's address. Nothing was sent.", True),
    CallError("CONNECT_TIMEOUT", "The vendor's server took too long to answer. Nothing was sent.", True),
    CallError("CREDENTIAL_ELSEWHERE", "The endpoint's credential was entered for another origin."),
    CallError("CREDENTIAL_LOCKED", "The endpoint's credential cannot be decrypted."),
    CallError("DEADLINE", "The tool took longer than it may. It may have run.", True),
    CallError("DECLINED", "A question of the tool was declined, and the run was ended."),
    CallError("DNS", "The vendor's host name has no address. Nothing was sent.", True),
    CallError("ECHO", "The vendor sent the credential back, so its reply was discarded."),
    CallError("FORBIDDEN", "The endpoint's credential may not run this tool."),
    CallError("FOR_USERS", "The endpoint's credential is for users of agents, and has no token of its own."),
    CallError("GRANT_MISSING", "The user has to authorize something first: the address is in `asks`."),
    CallError("GRANT_REFUSED", "The user was asked and did not grant a scope that the tool needs."),
    CallError("HEADER", "A value for a header contains a character that HTTP does not allow."),
    CallError("HTTP_4xx", "The vendor answered with this status: the tool did not do what was asked."),
    CallError("HTTP_408", "The vendor gave up waiting for the request. The tool may have run.", True),
    CallError("HTTP_425", "The vendor did not handle the request, because it came early.", True),
    CallError(
        "HTTP_5xx", "The vendor's server failed. Unless the status is 503, the tool may have run.", True
    ),
    CallError("IDLE", "The vendor was silent for too long. The tool may have run.", True),
    CallError("INPUT_REQUIRED", "The tool needs an answer before it goes on: what it asks is in `asks`."),
    CallError("INSUFFICIENT_SCOPE", "The vendor wants a scope that the endpoint's token does not have."),
    CallError("INTERNAL", "Pegboard itself failed. It is not known whether the tool ran.", None),
    CallError("INTERRUPT", "The agent asks for input before it goes on: what it asks is in `asks`."),
    CallError("INTERRUPTED", "The call ended before the request had left."),
    CallError("LATENT", "Nothing runs for the tool: the model gives its output itself."),
    CallError("MCP_VERSION", "The vendor speaks no revision of MCP that Pegboard knows."),
    CallError("MISSING_REQUIREMENTS", "The tool needs more before it can run: what it asks is in `asks`."),
    CallError(
        "MOCK_SCHEMA_UNMET", "No answer can be made up that fits the output schema. Give the mock an example."
    ),
    CallError("NEEDS_SIGN_IN", "The sign-in behind the endpoint's credential is over."),
    CallError("NOT_FOUND", "The vendor has no such tool or version any more."),
    CallError("NOT_READY", "The vendor says that it is not ready to answer. Nothing has run.", True),
    CallError("NOT_RUN", "The vendor refused the call before the tool ran."),
    CallError("NO_ACTIVITY", "The tool is defined here, and no activity answers for it. Nothing was sent."),
    CallError("NO_REPLY", "The vendor closed the connection without a reply. The tool may have run.", True),
    CallError("NO_RESUME", "Calls of this vendor cannot be continued. Run the tool again."),
    CallError(
        "NO_ROOM_TO_ASK", "The tool asks its user, and too many questions wait for their answers.", True
    ),
    CallError("NO_WORKER", "No worker took this call, so nothing was sent.", True),
    CallError("NUMBER", "An input contains a number that cannot be sent."),
    CallError(
        "OUTCOME_UNKNOWN",
        "Pegboard's database was lost after the call was begun. It is not known whether the tool ran.",
        None,
    ),
    CallError("PATH", "An input would have led out of the endpoint's address."),
    CallError("PROXY", "The installation's outbound proxy does not answer. Nothing was sent.", True),
    CallError("PROXY_REFUSED", "The installation's outbound proxy refused the request. Nothing was sent."),
    CallError("QUESTION_OVER", "The vendor no longer waits for the answer."),
    CallError("RATE_LIMITED", "The vendor asks us to wait. The tool did not run.", True),
    CallError("REDIRECT", "The vendor points to another address, and redirects are not followed."),
    CallError("REQUEST", "The request contains characters that HTTP does not allow there."),
    CallError("RESET", "The connection was reset. The tool may have run.", True),
    CallError("RPC_ERROR", "The vendor answered with an error of its protocol."),
    CallError("RUN_FAILED", "The agent failed."),
    CallError("RUN_GONE", "The vendor does not know the run any more. What came of it is not known."),
    CallError("SCOPES_TOO_LONG", "The scopes that tools need at one provider are too long to be asked for."),
    CallError("SECRET_MISSING", "An administrator has not entered a secret that the tool needs."),
    CallError("SERVER", "The vendor's document sends calls to another server than it was read from."),
    CallError("STILL_RUNNING", "The vendor stopped waiting before the agent was done.", True),
    CallError("TLS", "The certificate of the vendor's server is not one to trust."),
    CallError(
        "TOKEN_…", "No access token was to be had for the endpoint; the rest of the code says why.", None
    ),
    CallError("TOKEN_LATER", "The server that gives access tokens cannot answer now.", True),
    CallError("TOKEN_NOT_TAKEN", "The vendor does not take a token that was just made for it."),
    CallError("TOOL_ERROR", "The tool ran and failed; the message is the vendor's."),
    CallError("UNBOUND", "The sign-in behind the endpoint's credential was made for another origin."),
    CallError("URL", "The endpoint's address cannot be one of a vendor."),
    CallError("USER_FORGOTTEN", "The user of this call was forgotten between two steps. Call again."),
    CallError("USER_MISSING", "The tool has to know for which user it runs."),
    CallError(
        "WORKER_LOST", "The process that made this call ended. It is not known whether the tool ran.", None
    ),
    *(CallError(code, _UNREADABLE.format(why)) for code, why in _BY_REPLY.items()),
)
_OF_REQUESTS = (
    CallError(
        "activity_mismatch",
        "Another activity runs for the tool than the model was shown. Nothing was run.",
        details_schema=_FIELDS,
    ),
    CallError("activity_reaches_itself", "The activity would run itself, so it was stopped."),
    CallError("activity_removed", "The activity that is bound to the tool was removed."),
    CallError(
        "activity_replaced",
        "Another activity has the name that ran for this tool. Bind one of them in the environment.",
    ),
    CallError("activity_too_deep", "The activity runs others that run others, deeper than may be."),
    CallError("activity_too_many_steps", "The activity would make more steps in all than a call may."),
    CallError(
        "activity_unfit", "The activity that would run for the tool cannot run for this version of it."
    ),
    CallError("already_continued", "This call is being or was continued with other answers."),
    CallError("busy", "Too many calls are running. This call was not sent.", True),
    CallError(
        "call_forgotten", "The call with this id was made before, and its outcome is not kept any more."
    ),
    CallError("call_of_a_runtime", "A runtime made this call, and goes on with it where it was made."),
    CallError("calls_wait", "Waiting calls start too late. The call was not accepted.", True),
    CallError("cancelled", "Another call of the array came first. This one was not made: nothing was sent."),
    CallError("confirm_needed", "A person has to confirm the call first.", details_schema=_FIELDS),
    CallError("ended_meanwhile", "The call ended before it was sent."),
    CallError("endpoint_removed", "The vendor was removed, so its tools cannot run."),
    CallError(
        "environment_of_key",
        "The key runs tools in another environment alone.",
        details_schema=_FIELDS,
    ),
    CallError("invalid", "Some members of the request cannot be taken.", details_schema=_FIELDS),
    CallError("invalid_output", "The model's output does not fit its schema.", details_schema=_FIELDS),
    CallError("key_taken", "Another call or thread has this id. Take a new one."),
    CallError("no_threads", "The tool does not keep threads.", details_schema=_FIELDS),
    CallError("no_time", "The time of a batch was over before this call's turn. Nothing was sent.", True),
    CallError("not_found", "There is no such release or tool, or the key does not reach it."),
    CallError("not_latent", "Something runs for the tool, so it takes no output of a model."),
    CallError("nothing_to_continue", "This call has nothing to be continued. Run the tool again."),
    CallError("other_thread", "The thread is one of another tool.", details_schema=_FIELDS),
    CallError("output_given", "The call was given another output before."),
    CallError("release_damaged", "The catalog's version of the tool is not the one that was released."),
    CallError("release_retired", "The release was retired, and its last day is over."),
    CallError("role_required", "The owner of the key may not run tools."),
    CallError("scope_required", "The key may not run tools."),
    CallError("thread_busy", "A call is under way on the thread.", True),
    CallError("thread_refused", "The vendor refused what was asked about the thread."),
    CallError("thread_removed", "The thread was removed. Begin another one."),
    CallError("thread_unavailable", "The vendor did not answer about the thread.", True),
    CallError("throttled", "More requests came in this minute than may.", True),
    CallError("too_large", "The inputs, or what a thread holds, are larger than the limit."),
    CallError("too_many_calls", "As many calls as the key may have are under way. Nothing was sent.", True),
    CallError("unknown_activity", "The tool's definition names an activity that there is not."),
    CallError("unknown_environment", "The agent has no such environment.", details_schema=_FIELDS),
    CallError("unknown_tool", "A step of the activity calls a version of a tool that is not there any more."),
    CallError("unknown_user", "The user who asked for the call was removed."),
    CallError("vendor_not_allowed", "The activity calls what is of no vendor that the agent may use."),
    CallError("version_blocked", "The version was blocked in review."),
    CallError("version_not_shown", "The version that the model was shown is not shown any more."),
    CallError("waits_for_review", "The version waits for review, until an administrator accepts it."),
)
OURS: tuple[CallError, ...] = (*sorted(_OF_OUTCOMES), *_OF_REQUESTS)


def is_known(code: str, errors: Iterable[CallError] = OURS) -> bool:
    """Whether `errors` say what this code means; HTTP_503 is HTTP_5xx."""
    family = f"{code[:6]}xx" if code.startswith("HTTP_") else code
    starts = tuple(each.code[:-1] for each in errors if each.code.endswith("…"))
    return any(each.code in (code, family) for each in errors) or code.startswith(starts)
