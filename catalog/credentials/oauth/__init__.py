"""OAuth 2: how a credential of the kinds `oauth_client` and `oauth_code` gets its access token."""
