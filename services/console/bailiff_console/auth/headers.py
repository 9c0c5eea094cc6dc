"""Security and caching headers of every response."""

from collections.abc import Iterable

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
FEATURES = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "microphone", "payment", "usb")
ALWAYS = {
    b"content-security-policy": CONTENT_SECURITY_POLICY.encode(),
    b"x-frame-options": b"DENY",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"permissions-policy": ", ".join(f"{feature}=()" for feature in FEATURES).encode(),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
ONE_YEAR = b"max-age=31536000"
NO_STORE_PATHS = ("/api", "/auth")
OWN = "x-bailiff-own-policy"
"""A response with this header keeps its own, stricter content security policy."""

Headers = list[tuple[bytes, bytes]]


def with_security(headers: Iterable[tuple[bytes, bytes]], path: str, *, https: bool) -> Headers:
    """The response's headers, with the security headers replacing its own."""
    kept = list(headers)
    own = dict(ALWAYS)
    if any(name.lower() == OWN.encode() for name, _ in kept):
        kept = [(name, value) for name, value in kept if name.lower() != OWN.encode()]
        del own[b"content-security-policy"]
    if https:
        own[b"strict-transport-security"] = ONE_YEAR
    if path.startswith(NO_STORE_PATHS):
        own[b"cache-control"] = b"no-store"
    return [*((name, value) for name, value in kept if name.lower() not in own), *own.items()]
