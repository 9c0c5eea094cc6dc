"""One connection to an API server: any request, and the stream of a watch. `client` has the requests that Bailiff makes.

The official client supplies credentials, TLS and their renewal; objects stay the API's own JSON.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import orjson

from .errors import ApiError, Unreachable, error_of
from .names import MANAGER
from .resources import Object, Resource

TIMEOUT_S = 30.0
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
JSON = "application/json"


class Connection:
    """A connection to one API server. `connect` opens it; it is an async context manager."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """With this kubeconfig; without one as the pod's service account, or else as `KUBECONFIG` and ~/.kube/config say."""
        from kubernetes.aio import client, config  # late: 0.7 s and 54 MB

        configuration = client.Configuration()
        try:
            if kubeconfig is None and await asyncio.to_thread(IN_CLUSTER.exists):
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                file = None if kubeconfig is None else str(kubeconfig)
                await config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=file, context=context, client_configuration=configuration
                )
        except config.ConfigException as error:
            raise Unreachable(f"no way to reach a Kubernetes API server: {error}") from error
        return cls(client.ApiClient(configuration))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def stream(
        self, resource: Resource, namespace: str | None, resource_version: str, *, labels: str, fields: str, timeout_s: int
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Events after the resource version, bookmarks included, until the server ends the watch. Use `watch.LocalView`."""
        query = {
            **selectors_of(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        response = await self._send("GET", resource.path(namespace), None, query, JSON, timeout_s + 10.0)
        try:
            while line := await answer_of(response.response.content.readline()):
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise error_of(event["object"].get("code", 500), event["object"])
                yield event["type"], event["object"]
        except (orjson.JSONDecodeError, ValueError) as error:
            raise Unreachable(f"the watch was cut within an event: {error}") from error
        finally:
            response.response.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Any request. Returns the JSON of the response."""
        response = await self._send(method, path, body, query or {}, content_type, timeout_s)
        content = await answer_of(response.read())
        return orjson.loads(content) if content else None

    async def lines(
        self, path: str, query: Mapping[str, str] | None = None, timeout_s: float = 3600.0
    ) -> AsyncGenerator[bytes, None]:
        """A response that is not JSON, such as a pod's log, line by line while it comes. A longer line comes in parts."""
        response = await self._send("GET", path, None, query or {}, JSON, timeout_s)
        try:
            while part := await answer_of(response.response.content.readany()):
                for line in part.splitlines(keepends=True):
                    yield line
        finally:
            response.response.close()

    async def web_socket(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> Any:
        """An open WebSocket of aiohttp, on a connection that has answered a request before. Raises `ApiError`."""
        from aiohttp import WSServerHandshakeError

        headers = {"User-Agent": MANAGER}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        session = self._client.rest_client.pool_manager

        async def opened() -> Any:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    url = f"{self._client.configuration.host}{path}?{urlencode(query)}"
                    return await session.ws_connect(url, headers=headers, protocols=(protocol,))
            except WSServerHandshakeError as refusal:
                raise error_of(refusal.status, None) from None

        return await answer_of(opened())

    async def _send(
        self, method: str, path: str, body: Any, query: Mapping[str, str], content_type: str, timeout_s: float
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": MANAGER}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._client.configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        sent = self._client.rest_client.request(method, url, headers=headers, body=body, _request_timeout=_timeout(timeout_s))
        response = await answer_of(sent)
        if not 200 <= response.status < 300:
            content = await answer_of(response.read())
            raise error_of(response.status, _json_or_none(content), response.getheader("Retry-After"))
        return response


def selectors_of(labels: str, fields: str) -> dict[str, str]:
    return {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


def _timeout(total_s: float) -> Any:
    from aiohttp import ClientTimeout

    return ClientTimeout(total=total_s, sock_connect=10)


def _json_or_none(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


async def answer_of(call: Any) -> Any:
    """What the call returns. Raises `Unreachable` where the connection fails."""
    from aiohttp import ClientError

    try:
        return await call
    except ApiError:
        raise
    except (TimeoutError, ClientError, OSError) as error:
        raise Unreachable(f"the API server does not answer: {type(error).__name__}: {error}") from error
