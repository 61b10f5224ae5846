"""Single sign-on with OpenID Connect: another server says who a user is.

provider       what a deployment says about that server, and what the server says about itself
id_tokens      which id token is valid; pure
access_tokens  which access token of a runtime is; pure
accounts       the user that an id token means, and their role
views          redirects to the provider, and back

docs/decisions/0016-single-sign-on.md.
"""
