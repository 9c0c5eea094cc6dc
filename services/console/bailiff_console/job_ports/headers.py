"""What passes between browser and job: neither gets what is meant for the console, or could be used against it."""

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"expect",
    b"http2-settings",
}
NOT_FOR_JOBS = (b"authorization", b"proxy-authorization", b"forwarded", b"x-real-ip", b"referer", b"x-csrf-token")
NOT_FOR_BROWSERS = (b"strict-transport-security", b"clear-site-data", b"alt-svc", b"proxy-authenticate", b"set-cookie2")
OWN_COOKIES = (b"bailiff", b"__host-bailiff", b"__secure-bailiff")
ISOLATION: Headers = [
    (b"content-security-policy", b"frame-ancestors 'self'"),  # beside the job's own
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
    (b"origin-agent-cluster", b"?1"),
]


def to_job(headers: Iterable[tuple[bytes, bytes]], port: int, own: Iterable[str], origin: str, *, upgrade: bool) -> Headers:
    """A request's headers for the job, which sees a request to localhost. own: names of headers that a proxy before us sets."""
    drop = {*HOP_BY_HOP, *NOT_FOR_JOBS, *(name.lower().encode() for name in own)}
    local = f"localhost:{port}".encode()
    found: Headers = []
    for name, value in headers:
        if name in drop or name.startswith(b"x-forwarded-"):
            continue
        if name == b"cookie":
            value = b"; ".join(part for part in (each.strip() for each in value.split(b";")) if not is_own_cookie(part))
            if not value:
                continue
        found.append((name, {b"host": local, b"origin": b"http://" + local}.get(name, value)))
    scheme, _, host = origin.partition("://")
    found += [(b"x-forwarded-host", host.encode()), (b"x-forwarded-proto", scheme.encode())]
    connection = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")] if upgrade else [(b"connection", b"close")]
    return found + connection


def to_browser(headers: Iterable[tuple[bytes, bytes]], port: int, origin: str, cookie: str | None) -> Headers:
    """A response's headers for the browser. cookie: the visitor's, if it is to be renewed."""
    replaced = {name for name, _ in ISOLATION} - {b"content-security-policy"}
    drop = {*HOP_BY_HOP, *NOT_FOR_BROWSERS, *replaced}
    found: Headers = []
    for name, value in headers:
        if name in drop or (name == b"set-cookie" and not _is_harmless(value)):
            continue
        if name == b"location":
            for local in (f"http://localhost:{port}", f"http://127.0.0.1:{port}"):
                if value == local.encode() or value.startswith(local.encode() + b"/"):
                    value = origin.encode() + value[len(local) :]
        found.append((name, value))
    return [*found, *ISOLATION, *([(b"set-cookie", cookie.encode())] if cookie is not None else [])]


def is_own_cookie(part: bytes) -> bool:
    """Whether `name=value` is a cookie of the console."""
    return part.strip().lower().startswith(OWN_COOKIES)


def _is_harmless(cookie: bytes) -> bool:
    """Not one of the console's, and for this host alone: other jobs and the console have names below the same domain."""
    attributes = [part.strip().lower() for part in cookie.split(b";")[1:]]
    return not is_own_cookie(cookie) and not any(part.partition(b"=")[0].strip() == b"domain" for part in attributes)
