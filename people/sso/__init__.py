"""Single sign-on with OpenID Connect: an identity provider authenticates users.

provider       the provider's settings in this deployment, and its published metadata
id_tokens      validation of ID tokens; pure
access_tokens  validation of the access tokens of runtimes; pure
accounts       the user that an ID token identifies, and the user's role
views          redirects to the provider, and back

docs/decisions/0016-single-sign-on.md.
"""
