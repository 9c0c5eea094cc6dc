"""Cookies of the console: opaque, HttpOnly, SameSite."""

from http.cookies import CookieError, SimpleCookie

SESSION, SIGNING_IN = "bailiff", "bailiff-sign-in"


def cookie_name(kind: str, origin: str) -> str:
    """`__Host-` prefixed for HTTPS origins; otherwise one name per port."""
    if origin.startswith("https:"):
        return f"__Host-{kind}"
    port = origin.rpartition(":")[2]
    return f"{kind}-{port}" if port.isdigit() else kind


def set_cookie(name: str, value: str, origin: str, max_age: int | None = None) -> str:
    """The `Set-Cookie` header. max_age: seconds; None: a session cookie."""
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if origin.startswith("https:"):
        parts.append("Secure")
    if max_age is not None:
        parts.append(f"Max-Age={max_age}")
    return "; ".join(parts)


def drop_cookie(name: str, origin: str) -> str:
    """The `Set-Cookie` header that deletes the cookie."""
    return set_cookie(name, "", origin, 0)


def read_cookie(header: str, name: str) -> str | None:
    """The cookie's value; None if absent, or present twice, because then another site may have set one."""
    found = []
    for part in header.split(";"):
        try:
            jar = SimpleCookie(part.strip())
        except CookieError:
            continue
        found += [morsel.value for key, morsel in jar.items() if key == name]
    return found[0] if len(found) == 1 and found[0] else None
