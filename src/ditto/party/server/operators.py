"""HTTP for the operators of a party: /health, /ready and /metrics, and nothing else."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ditto.errors import SetupError

Page = Callable[[], tuple[int, str, bytes]]
"""The code, the type and the content."""


class OperatorPages:
    """Pages by path, served by a thread until it is closed."""

    def __init__(self, address: str, pages: dict[str, Page]) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._server = ThreadingHTTPServer((host, int(port)), _handler(pages))
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"The pages for operators cannot be served at {address}: {error}. "
                f"Change listen_http."
            ) from None
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler(pages: dict[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0
        server_version, sys_version = "ditto", ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self._answer(404, "text/plain", b"not found\n")
            else:
                self._answer(*page())

        def _answer(self, code: int, kind: str, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Who looks is not logged."""

    return Handler
