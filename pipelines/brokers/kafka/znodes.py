"""How is ZooKeeper read from an event loop? The one door to its client, kazoo.

The rule: reads are sent without waiting for each other, some hundred at a time, and each leaves a watch, also on what is not there
yet. A watch fires once and says only which znode changed; it is named in `changed` until it is read again. Watches belong to a
connection: with every new one `generation` rises, and everything has to be read again.

kazoo hands out answers and watches on threads of its own, in two queues; `checkpoint` goes through both, so that when it returns, every
change that the server had made before it was asked is named in `changed`.

Example: `await znodes.read(["/controller"])` is `{"/controller": Znode(b'{"brokerid":2,...}', ...)}`, or `{"/controller": None}`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import Callback, EventType, KazooState

from pipelines.errors import ConnectionFailed, RetryableError, Unauthorised, UsageError

SESSION_SECONDS = 10.0
ANSWER_SECONDS = 5.0
BATCH = 500
BROKERS = "/brokers/ids"
RECONNECT: dict[str, Any] = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}

# Its warnings about a server that is down come back as errors of the calls.
_LOGGER = logging.getLogger("lastack.kazoo")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


class SessionBroken(RetryableError):
    """The connection, or the session, ended before the answer came."""


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as the server has it: its bytes and its Stat. Instants are the server's clock; zxids order all changes of all znodes."""

    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int = 0
    pzxid: int = 0
    """The last change of its children (made or gone)."""

    @classmethod
    def of(cls, data: bytes, stat: Any) -> Self:
        """From kazoo's form."""
        return cls(data, stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version, stat.cversion, stat.pzxid)


def check_connect(connect: str) -> None:
    """Raises UsageError for what cannot be addresses of ZooKeeper; what stands before an @ may be a password, and is not repeated."""
    if "@" in connect:
        raise UsageError("--zookeeper has an @ in it; a password must not stand in commands and logs, write HOST:PORT[/chroot]")
    try:
        hosts, _ = collect_hosts(connect)
        is_usable = bool(hosts) and all(host and 0 < port < 65536 for host, port in hosts)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(f"--zookeeper {connect!r}: not an address; expected HOST:PORT[,HOST:PORT][/chroot]")


class Znodes:
    """A session. Every method but the constructor is called on one event loop.

    Args:
        connect: HOST:PORT with commas, and a chroot behind the last one, as `zookeeper.connect` has it.
    """

    def __init__(self, connect: str) -> None:
        check_connect(connect)
        self.connect = connect
        self.generation = 0
        self.changed: set[str] = set()
        self.wake = asyncio.Event()
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_connected = asyncio.Event()

    @property
    def last_zxid(self) -> int:
        """The newest change of all that the server had made when it answered last."""
        return 0 if self._client is None else int(self._client.last_zxid)

    async def start(self, timeout: float) -> None:
        """Opens the session, once. Raises ConnectionFailed when no server answers in time."""
        if self._client is not None:
            return
        loop = self._loop = asyncio.get_running_loop()
        self._client = KazooClient(
            self.connect, timeout=SESSION_SECONDS, connection_retry=RECONNECT, command_retry={"max_tries": 0}, logger=_LOGGER
        )

        def on_state(state: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._on_state, state)

        self._client.add_listener(on_state)
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout):
                await self._is_connected.wait()
        except TimeoutError as error:
            raise ConnectionFailed(
                f"--zookeeper {self.connect}: no server answered within {timeout:g} s; expected the brokers' zookeeper.connect"
            ) from error

    async def close(self) -> None:
        """Ends the session; does nothing when there is none."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_end, client)

    async def read(self, paths: Iterable[str], is_watched: bool = True) -> dict[str, Znode | None]:
        """What is at each path, None where nothing is. Raises SessionBroken, Unauthorised."""
        wanted = list(paths)
        found: dict[str, Znode | None] = {}
        for begin in range(0, len(wanted), BATCH):
            batch = wanted[begin : begin + BATCH]
            read = await asyncio.gather(*(self._read(path, is_watched) for path in batch))
            found.update(zip(batch, read, strict=True))
        return found

    async def children(self, path: str) -> tuple[frozenset[str], Znode] | None:
        """The names below a path, and the znode there; None where there is none. Raises SessionBroken, Unauthorised."""
        try:
            names, stat = await self._ask(path, lambda: self._client.get_children_async(path, self._on_watch, include_data=True))
        except NoNodeError:
            return None
        return frozenset(names), Znode.of(b"", stat)

    async def checkpoint(self) -> None:
        """Returns when all that had changed before it was called is named in `changed`. Raises SessionBroken."""
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        # The server that we are connected to may be behind the others; sync brings it up to them.
        await asyncio.gather(
            self._ask("/", lambda: self._client.sync_async("/")), self._ask("/", lambda: self._client.exists_async("/"))
        )
        self._client.handler.dispatch_callback(Callback("watch", lambda: _settle(loop, passed, None, None), ()))
        await self._in_time(passed, "/")

    async def _read(self, path: str, is_watched: bool) -> Znode | None:
        watch = self._on_watch if is_watched else None
        while True:
            with contextlib.suppress(NoNodeError):
                return Znode.of(*await self._ask(path, lambda: self._client.get_async(path, watch)))
            if not is_watched or await self._ask(path, lambda: self._client.exists_async(path, watch)) is None:
                return None

    async def _ask(self, path: str, question: Callable[[], Any]) -> Any:
        """The answer to a question of kazoo's. Raises NoNodeError, SessionBroken, Unauthorised."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if self._client is None:
            raise SessionBroken(f"the session with ZooKeeper {self.connect} was ended")
        question().rawlink(lambda result: _settle(loop, answer, result.value, result.exception))
        try:
            return await self._in_time(answer, path)
        except NoNodeError:
            raise
        except (NoAuthError, AuthFailedError) as error:
            raise Unauthorised(
                f"--zookeeper {self.connect}: {path} may not be read ({type(error).__name__}); its ACL has to allow us READ"
            ) from error
        except KazooException as error:
            raise SessionBroken(f"ZooKeeper {self.connect}, reading {path}: {type(error).__name__}") from error

    async def _in_time(self, answer: "asyncio.Future[Any]", path: str) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError as error:
            raise SessionBroken(f"ZooKeeper {self.connect}, reading {path}: no answer within {ANSWER_SECONDS:g} s") from error

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.generation += 1
            self._is_connected.set()
        self.wake.set()

    def _on_watch(self, event: Any) -> None:
        """Called on kazoo's thread. Events of no type say that the connection was lost, which its state says, too."""
        if event.type != EventType.NONE and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._has_changed, event.path)

    def _has_changed(self, path: str) -> None:
        self.changed.add(path)
        self.wake.set()


def registered_brokers(connect: str, timeout: float = SESSION_SECONDS) -> frozenset[int]:
    """The ids of the brokers that ZooKeeper has registered now, asked once. Raises ConnectionFailed, RetryableError."""
    client = KazooClient(connect, timeout=SESSION_SECONDS, logger=_LOGGER)
    try:
        client.start(timeout)
        names: Sequence[str] = client.get_children(BROKERS)
    except KazooTimeoutError as error:
        raise ConnectionFailed(f"no ZooKeeper server answered at {connect} within {timeout:g} s") from error
    except NoNodeError:
        return frozenset()
    except KazooException as error:
        raise SessionBroken(f"ZooKeeper {connect}: {type(error).__name__}") from error
    finally:
        _end(client)
    return frozenset(map(int, names))


def _settle(loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    """Called on kazoo's thread."""

    def settle() -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)

    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(settle)


def _end(client: Any) -> None:
    client.stop()
    client.close()
