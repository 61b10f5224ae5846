"""Released agents for runtimes: calls by the names of a release, batches, streams and threads. It decides
nothing.
"""
