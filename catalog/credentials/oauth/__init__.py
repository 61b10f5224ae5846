"""OAuth 2: what a credential of the kinds `oauth_client` and `oauth_code` does to have an access token.

clients     what an administrator says about the client, and what a change of it forgets
discovery   what a vendor says about where its tokens come from
sign_in     away with the browser to the authorization server, and back
tokens      the access token, renewed by one process at a time
grant_status  what pages and the API say of it
asking, replies, metadata   pure rules of the RFCs; http is the door
"""
