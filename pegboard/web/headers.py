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
    # What is shown depends on who asks, and must not be kept by a shared browser or proxy. Files,
    # and releases with their ETag, say themselves how long they may be kept.
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# A reply that says "as before" is about what its caller has kept, with the headers that it was kept with
# (RFC 9110, 15.4.5: nothing beside what guides the cache).
OF_WHAT_IS_KEPT = frozenset(ON_EVERY_REPLY) - {"Cache-Control"}
