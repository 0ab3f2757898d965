"""How are the pages served? By gunicorn with one worker of several threads, on loopback, until a signal comes.

The address is bound before anything slow starts, so that port 0 is a free port that the printed line names, and a port that is taken
is one clear line. The worker imports everything that holds threads (DuckDB, Arrow, deltalake) after the fork. SIGTERM and SIGINT end
it within the grace; a worker whose master was killed notices within a second and ends by itself.

Example: `serve(Home(Path("/var/lib/lastack")), "127.0.0.1", 0)` prints `Lastack's pages: http://127.0.0.1:40123/` and serves.
"""

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from pipelines.errors import UsageError
from pipelines.settings import Home
from pipelines.workplace import check_home

THREADS = 8
GRACE_SECONDS = 3
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def serve(home: Path, host: str = "127.0.0.1", port: int = 8050, announce: Callable[[str], None] | None = None) -> None:
    """Serves the pages over a home until a signal ends the process.

    Args:
        home: the folder of the installation; it may be empty, or not be there yet.
        host: a loopback address.
        port: 0 chooses a free one.
        announce: is given the address as soon as it answers; prints it when not given.

    Raises:
        UsageError: the address is not loopback, or is taken; the home is not a folder.
    """
    if host not in LOOPBACK:
        raise UsageError(f"--host {host}: the pages have no login, so they are served on loopback only; use 127.0.0.1 and a proxy")
    check_home(home)
    listening = _bound(host, port)
    _Server(home, listening, announce or _print_address).run()


def address_of(listening: socket.socket) -> str:
    """The URL at which a bound socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"--port {port}: the pages cannot be served at {host}:{port}: {error.strerror}; name another port, or 0 for a free one"
        ) from error
    listening.set_inheritable(True)
    return listening


def _print_address(address: str) -> None:
    sys.stdout.write(f"Lastack's pages: {address}\n")
    sys.stdout.flush()


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's way of being embedded: it asks for settings, and in the worker for the application."""

    def __init__(self, home: Path, listening: socket.socket, announce: Callable[[str], None]) -> None:
        self._home = home
        self._listening = listening
        # Asked now: gunicorn takes the descriptor over.
        self._address = address_of(listening)
        self._announce = announce
        super().__init__()

    def load_config(self) -> None:
        """The settings; none is read from files or the environment."""
        settings: dict[str, Any] = {
            "bind": [f"fd://{self._listening.fileno()}"],
            "workers": 1,
            "worker_class": "gthread",
            "threads": THREADS,
            "graceful_timeout": GRACE_SECONDS,
            "loglevel": "warning",
            "control_socket_disable": True,
            "proc_name": "lastack-dashboard",
            "post_worker_init": lambda _worker: self._announce(self._address),
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """The application, made in the worker."""
        from dashboards.app import create_app

        return create_app(Home(self._home)).server
