"""Cookies of the console: opaque, out of reach of scripts, sent to nobody else."""

from http.cookies import CookieError, SimpleCookie

SESSION, SIGNING_IN = "bailiff", "bailiff-sign-in"


def cookie_name(kind: str, origin: str) -> str:
    """`__Host-bailiff` where the browser keeps such a name for encrypted connections, else one for each port."""
    if origin.startswith("https:"):
        return f"__Host-{kind}"
    port = origin.rpartition(":")[2]
    return f"{kind}-{port}" if port.isdigit() else kind


def set_cookie(name: str, value: str, origin: str, max_age: int | None = None) -> str:
    """The header `Set-Cookie`. max_age: seconds; None: until the browser is closed."""
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if origin.startswith("https:"):
        parts.append("Secure")
    if max_age is not None:
        parts.append(f"Max-Age={max_age}")
    return "; ".join(parts)


def drop_cookie(name: str, origin: str) -> str:
    """The header that makes the browser forget it."""
    return set_cookie(name, "", origin, 0)


def read_cookie(header: str, name: str) -> str | None:
    """Its value; None where there is none, or where it stands twice: then somebody else has set one of them."""
    found = []
    for part in header.split(";"):
        try:
            jar = SimpleCookie(part.strip())
        except CookieError:
            continue
        found += [morsel.value for key, morsel in jar.items() if key == name]
    return found[0] if len(found) == 1 and found[0] else None
