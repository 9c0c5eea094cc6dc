"""Secrets and ConfigMaps, through the API server, as the service account of the pod that this runs in.

Only the standard library: the pod that makes the keys needs no client library, and reads nothing else.
"""

import http.client
import json
import os
import ssl
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 30


class KubernetesError(Exception):
    """The API server refused a request, or there is none."""


class PodApi:
    """Reads Secrets of the pod's own namespace, writes Secrets and ConfigMaps, and restarts StatefulSets."""

    def __init__(self, account: Path = ACCOUNT) -> None:
        try:
            self._server = (os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
            self._account = account
            self.namespace = (account / "namespace").read_text(encoding="utf-8").strip()
            self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        except (KeyError, ValueError, OSError) as error:
            raise KubernetesError(f"not in a pod with a service account: {error}") from None

    def secret(self, name: str) -> dict[str, str]:
        """The Secret's data as base64; empty if there is no such Secret."""
        status, answer = self._call("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        if status == http.client.NOT_FOUND:
            return {}
        found: dict[str, str] = _expect(status, answer, name).get("data") or {}
        return found

    def apply(self, item: dict[str, Any]) -> None:
        """Create the Secret or ConfigMap, or replace its data."""
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/{item['kind'].lower()}s"
        status, answer = self._call("POST", path, item)
        if status == http.client.CONFLICT:
            status, answer = self._call("PUT", f"{path}/{name}", item)
        _expect(status, answer, name)

    def restart(self, statefulset: str, keys: str) -> bool:
        """Have its pods replaced one after another, unless they were for these keys. False: there is no such StatefulSet."""
        annotations = {"bailiff.io/keys": keys}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{statefulset}"
        status, answer = self._call("PATCH", path, {"spec": {"template": {"metadata": {"annotations": annotations}}}})
        if status == http.client.NOT_FOUND:
            return False
        _expect(status, answer, statefulset)
        return True

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"authorization": f"Bearer {self._token()}", "content-type": kind, "accept": "application/json"}
        connection = http.client.HTTPSConnection(*self._server, timeout=TIMEOUT_S, context=self._tls)
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise KubernetesError(f"{method} {path}: {error}") from None
        finally:
            connection.close()

    def _token(self) -> str:
        return (self._account / "token").read_text(encoding="utf-8").strip()  # replaced while the pod runs


def _expect(status: int, answer: dict[str, Any], name: str) -> dict[str, Any]:
    if status not in {http.client.OK, http.client.CREATED}:
        raise KubernetesError(f"{name}: {status} {answer.get('message', '')}")
    return answer
