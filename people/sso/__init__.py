"""Single sign-on with OpenID Connect: another server says who somebody is.

provider    what a deployment says about that server, and what the server says about itself
id_tokens   which token is believed; pure
accounts    the person that a token means, and their role
views       away with the browser, and back

It lies above the catalog, because every request to another server leaves through the catalog's one door;
docs/decisions/0016-single-sign-on.md.
"""
