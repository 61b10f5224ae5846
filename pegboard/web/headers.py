"""Headers of every reply, whether the product writes it or the web server by itself."""

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
ON_EVERY_REPLY = {
    # Replies depend on the user, so a shared browser or proxy must not store them. Files, and releases with
    # an ETag, set their own caching header.
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# A 304 has no body, and the cached reply keeps its headers (RFC 9110, 15.4.5; RFC 9111, 4.3.4).
OMITTED_FROM_304 = frozenset(ON_EVERY_REPLY) - {"Cache-Control"}
