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

# A 304 has no body to protect a browser from: the reply that the browser has kept came with these, and they
# stay as they were (RFC 9110, 15.4.5; RFC 9111, 4.3.4).
LEFT_OUT_OF_304 = frozenset(ON_EVERY_REPLY) - {"Cache-Control"}
