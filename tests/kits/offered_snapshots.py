"""A server that offers snapshots of a pool's state, true ones and false ones."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address of a server that answers like this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # the client has hung up
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def sending(data: bytes, status: int = 200) -> Answer:
    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        to.end_headers()
        to.wfile.write(data)

    return answer


def offering(snapshot: bytes) -> Answer:
    return sending(gzip.compress(snapshot, 1))
