"""Tool calls: `requesting` checks and stores a call, `continuing` one that stopped to ask, `queue` claims it,
`invocation` sends it, `results` bounds the result.

`cancellation`, `events`, `remote_runs` and `lease` handle long calls, `checks` states why a call may not
run.
"""
