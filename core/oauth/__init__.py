"""The client side of OAuth 2 at an authorization server, for vendors and for single sign-on."""
