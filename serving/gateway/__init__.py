"""The entry point of programs: a WSGI application in front of the pages.

application    chooses who answers: the response cache, the views of programs behind the middleware that they
               need, or the pages
chunked_bodies reads bodies without a length
cacheable      recognizes the reads that a release settles
response_cache the responses to those reads, each for one key and one release

`designer/releases/release_access.py` decides whether a key may read a release.
docs/decisions/0096-gateway.md has the reasons.
"""
