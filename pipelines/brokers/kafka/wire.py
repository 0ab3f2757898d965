"""How are a request and its answer carried to one Kafka broker?

The rule: a `Wire` is one TCP connection, negotiated once (API versions, TLS, SASL) and then used for many requests in flight.
Kafka answers the requests of one connection in their order, so a request that hangs holds up those behind it: after a
deadline has passed unanswered the wire `is_suspect`, and whoever owns it (`link.Link`) sends what comes next on a new one,
while this one stays open for the answers that may still come. Every failure says which address failed and by which code.

The messages are kafka-python's, which are made from Kafka's own JSON schemas. Instants are `time.monotonic_ns()`, taken when
bytes arrive and not when somebody comes round to reading them.

Example: `wire = await Wire.open(address, connection, deadline)`, then `(await wire.request(ListOffsetsRequest(...),
deadline)).body.topics`.
"""

import asyncio
import itertools
import socket
import ssl
import struct
import time
from dataclasses import dataclass
from typing import Any, Protocol, Self

from kafka.errors import for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from pipelines import __version__
from pipelines.brokers.kafka.connection import Address, Connection, Sasl
from pipelines.errors import RetryableError

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""An answer that claims to be longer is no answer of Kafka's."""

RENAMED = {-1: "UNKNOWN_SERVER_ERROR", 6: "NOT_LEADER_OR_FOLLOWER", 10: "MESSAGE_TOO_LARGE", 17: "INVALID_TOPIC_EXCEPTION"}
"""Error codes that kafka-python still calls by older names than org.apache.kafka.common.protocol.Errors."""

UNSUPPORTED_VERSION = 35
ILLEGAL_SASL_STATE = 34
NAME_MISMATCH = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
RENEWED_AT = 0.85
"""The part of a SASL session's life after which its wire is not used for anything new."""


class WireError(RetryableError):
    """A request to a broker has no answer. `code` is for the record, the text is for people."""

    code = "WIRE_ERROR"

    def __init__(self, address: Address, text: str, code: str | None = None) -> None:
        super().__init__(f"{address}: {text}")
        self.address = address
        self.code = code or type(self).code


class NotReached(WireError):
    """No connection: nobody listens there, no route leads there, or the name is not known. The request was never sent."""

    code = "CONNECTION_REFUSED"


class NotLetIn(WireError):
    """The broker was reached and refuses our credentials or our certificate, or we refuse its certificate."""

    code = "AUTHENTICATION_FAILED"


class NotKafka(WireError):
    """Somebody answers there, but does not speak Kafka's protocol, or not with the security that was asked for."""

    code = "NOT_KAFKA"


class ConnectionLost(WireError):
    """The connection ended between the request and its answer."""

    code = "CONNECTION_LOST"


class NoAnswer(WireError):
    """The deadline passed first."""

    code = "TIMED_OUT"


class NotSupported(WireError):
    """The broker does not know this request in any version that we speak."""

    code = "UNSUPPORTED_VERSION"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when: the instants of sending and of receiving."""

    body: Any
    version: int
    sent_ns: int
    received_ns: int


class Receiver(Protocol):
    """Takes the end of a request that was posted: exactly one of the two is called, once, on the loop's thread."""

    def answered(self, frame: memoryview, received_ns: int) -> None:
        """The answer without its header."""

    def failed(self, error: WireError) -> None:
        """The connection ended first."""


@dataclass(slots=True)
class _Pending:
    future: "asyncio.Future[tuple[memoryview, int]]"
    sent_ns: int

    def answered(self, frame: memoryview, received_ns: int) -> None:
        if not self.future.done():
            self.future.set_result((frame, received_ns))

    def failed(self, error: WireError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def error_name(code: int) -> str:
    """Kafka's own name of an error code; `ERROR_<code>` for one that is newer than our list."""
    if code in RENAMED:
        return RENAMED[code]
    known = for_code(code)
    return f"ERROR_{code}" if known.__name__ == "UnrecognizedBrokerError" else str(known.message)


class Wire(asyncio.Protocol):
    """One connection to one broker. Made by `open`; `request` as often as wanted; `retire` when something better is there."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.is_suspect = False
        self.expires_ns: int | None = None
        self._client_id = client_id.encode()
        self._numbers = itertools.count()
        self._pending: dict[int, Receiver] = {}
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._end: WireError | None = None
        self._is_retired = False

    @classmethod
    async def open(cls, address: Address, connection: Connection, deadline: float) -> Self:
        """A connection that is ready for requests: TCP, TLS, API versions and SASL are done.

        Args:
            address: the listener.
            connection: its security; the bootstrap addresses in it are not looked at.
            deadline: on `time.monotonic()`, in seconds.

        Raises:
            NotReached, NotLetIn, NotKafka, ConnectionLost, NoAnswer: as their names say, before the deadline or at it.
            UsageError: the TLS settings are no good.
        """
        wire = cls(address, connection.client_id)
        try:
            async with asyncio.timeout_at(deadline):
                await wire._connect(connection.tls_context())
                await wire._negotiate()
                if connection.sasl is not None and connection.security.has_sasl:
                    await wire._authenticate(connection.sasl)
        except TimeoutError as error:
            wire.close()
            hint = (
                "no connection within the time limit; is the address right, and is a firewall between?"
                if wire._transport is None
                else "connected, but no answer within the time limit; is this a Kafka listener, and is security.protocol right for it?"
            )
            raise NoAnswer(address, hint) from error
        except BaseException:
            wire.close()
            raise
        return wire

    @property
    def is_usable(self) -> bool:
        """Whether a new request should be sent on it."""
        has_expired = self.expires_ns is not None and time.monotonic_ns() > self.expires_ns
        return self._end is None and not self.is_suspect and not self._is_retired and not has_expired

    def speaks(self, api_key: int) -> bool:
        """Whether the listener takes requests of this kind at all."""
        return api_key in self._versions

    def version(self, message: Any, at_most: int | None = None) -> int:
        """The version in which both sides know this request (a class or an instance). Raises NotSupported."""
        low, high = self._versions.get(message.API_KEY, (0, -1))
        ours = message.max_version if at_most is None else min(message.max_version, at_most)
        version: int = min(high, ours)
        if version < max(low, message.min_version):
            raise NotSupported(self.address, f"the broker knows {message.name} in versions {low} to {high}, Lastack up to {ours}")
        return version

    async def request(self, message: Any, deadline: float | None, at_most: int | None = None) -> Answer:
        """Sends a request and waits for its answer, until `deadline` (seconds on `time.monotonic()`; None: for ever).

        Raises NoAnswer, ConnectionLost, NotSupported. An answer with an error code in it is an answer.
        """
        version = self.version(message, at_most)
        body = bytes(message.encode(version=version))
        response = ResponseClassRegistry.get_response_class(_Key(message.API_KEY, version))
        frame, pending = await self.exchange(message.API_KEY, version, message.flexible_version_q(version), body, deadline)
        try:
            decoded = response.decode(frame, version=version)
        except (struct.error, ValueError, IndexError, KeyError, TypeError) as error:
            raise NotKafka(self.address, f"the answer to {message.name} version {version} cannot be read: {error}") from error
        return Answer(decoded, version, pending[0], pending[1])

    async def exchange(
        self, api_key: int, version: int, is_flexible: bool, body: bytes, deadline: float | None
    ) -> tuple[memoryview, tuple[int, int]]:
        """One request and its answer as bytes without headers, with (sent_ns, received_ns). Raises as `request` does."""
        if self._end is not None or self._transport is None:
            raise self._end or ConnectionLost(self.address, "the connection is closed")
        number = next(self._numbers) & 0x7FFFFFFF
        head = struct.pack(">hhih", api_key, version, number, len(self._client_id)) + self._client_id
        frame = head + (b"\0" if is_flexible else b"") + body
        pending = _Pending(asyncio.get_running_loop().create_future(), time.monotonic_ns())
        self._pending[number] = pending
        self._transport.write(struct.pack(">i", len(frame)) + frame)
        try:
            async with asyncio.timeout_at(deadline):
                answer, received_ns = await pending.future
        except TimeoutError as error:
            self.is_suspect = True
            raise NoAnswer(self.address, f"no answer to request {api_key} within its time limit") from error
        finally:
            self._pending.pop(number, None)
            self._close_when_drained()
        # The answer to ApiVersions keeps the old header in every version, so that old clients can read the refusal.
        has_tags = is_flexible and api_key != ApiVersionsRequest.API_KEY
        return answer[_tags_end(answer) if has_tags else 0 :], (pending.sent_ns, received_ns)

    def post(self, api_key: int, version: int, body: bytes, receiver: Receiver) -> int:
        """Sends a request of a version without tagged fields and returns at once with sent_ns; `receiver` gets its end.

        For those who send many and watch their deadlines themselves: no task, no future, no timer. Raises ConnectionLost.
        """
        if self._end is not None or self._transport is None:
            raise self._end or ConnectionLost(self.address, "the connection is closed")
        number = next(self._numbers) & 0x7FFFFFFF
        size = 10 + len(self._client_id) + len(body)
        head = struct.pack(">ihhih", size, api_key, version, number, len(self._client_id))
        self._pending[number] = receiver
        sent_ns = time.monotonic_ns()
        self._transport.write(head + self._client_id + body)
        return sent_ns

    def retire(self) -> None:
        """Takes no new requests, and closes when the last one in flight is decided."""
        self._is_retired = True
        self._close_when_drained()

    def close(self) -> None:
        """Ends the connection at once; requests in flight fail with ConnectionLost."""
        self._fail(ConnectionLost(self.address, "the connection was closed on our side"))
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: D102
        received_ns = time.monotonic_ns()
        self.is_suspect = False
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            if not 4 <= size <= FRAME_BYTES_MAX:
                self._fail(NotKafka(self.address, _what_it_speaks(bytes(self._buffer[:5]))))
                self.close()
                return
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            (number,) = struct.unpack_from(">i", frame)
            pending = self._pending.pop(number, None)
            if pending is not None:
                pending.answered(memoryview(frame)[4:], received_ns)
        self._close_when_drained()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        if isinstance(exc, ssl.SSLError):
            text = f"the broker ended TLS ({_reason(exc)}); if it asks for a client certificate, give one (ssl.keystore.*)"
            self._fail(NotLetIn(self.address, text, "TLS_FAILED"))
        self._fail(ConnectionLost(self.address, f"the connection ended: {exc or 'closed by the broker'}"))

    # steps of open

    async def _connect(self, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        # Windows of sleep between names with several addresses are kept short: localhost is ::1 first on many machines.
        options: dict[str, Any] = {"happy_eyeballs_delay": 0.1}
        if context is not None:
            options |= {"ssl": context, "server_hostname": self.address.host}
        try:
            await loop.create_connection(lambda: self, self.address.host, self.address.port, **options)
        except ssl.SSLCertVerificationError as error:
            hint = (
                "connect by a name that is in the certificate, or set ssl.endpoint.identification.algorithm to nothing"
                if error.verify_code in NAME_MISMATCH
                else "give the authority that signed it with ssl.truststore.type=PEM and ssl.truststore.location"
            )
            raise NotLetIn(self.address, f"its certificate is refused: {error.verify_message}; {hint}", "TLS_FAILED") from error
        except ssl.SSLError as error:
            raise NotKafka(
                self.address, f"no TLS there ({_reason(error)}); is security.protocol right for this listener?", "TLS_FAILED"
            ) from error
        except socket.gaierror as error:
            raise NotReached(self.address, f"the host name cannot be resolved ({error.strerror})", "NAME_NOT_RESOLVED") from error
        except UnicodeError as error:
            # A broker may advertise what is no name.
            raise NotReached(self.address, f"the host name cannot be resolved ({error})", "NAME_NOT_RESOLVED") from error
        except ConnectionRefusedError as error:
            raise NotReached(self.address, "connection refused: nobody listens on this port") from error
        except ConnectionError as error:
            if context is not None:
                text = "hangs up on TLS's first bytes; is security.protocol right for this listener?"
                raise NotKafka(self.address, text, "TLS_FAILED") from error
            raise NotReached(self.address, f"the connection ended while it was made: {error}", "CONNECTION_LOST") from error
        except OSError as error:
            refused = "refused" in str(error).lower()
            raise NotReached(
                self.address, f"cannot connect: {error}", "CONNECTION_REFUSED" if refused else "HOST_UNREACHABLE"
            ) from error

    async def _negotiate(self) -> None:
        for version in (3, 0):
            request = ApiVersionsRequest(client_software_name="lastack", client_software_version=__version__)
            body = bytes(request.encode(version=version))
            try:
                frame, _ = await self.exchange(request.API_KEY, version, version >= 3, body, None)
            except ConnectionLost as error:
                raise NotKafka(
                    self.address,
                    "connected, but hung up on before the first answer; is this a Kafka listener, and is"
                    " security.protocol right for it (a TLS listener hangs up on clients without TLS)?",
                ) from error
            answer = ApiVersionsResponse.decode(frame, version=version)
            if answer.error_code == 0:
                self._versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
                return
            if answer.error_code != UNSUPPORTED_VERSION:
                raise NotKafka(self.address, f"refuses to say what it speaks: {error_name(answer.error_code)}")
        raise NotSupported(self.address, "knows no version of ApiVersions that Lastack speaks")

    async def _authenticate(self, sasl: Sasl) -> None:
        handshake = (await self.request(SaslHandshakeRequest(mechanism=sasl.mechanism), None)).body
        if handshake.error_code != 0:
            offered = ", ".join(handshake.mechanisms) or "none"
            if handshake.error_code == ILLEGAL_SASL_STATE:
                raise NotKafka(self.address, "this listener has no SASL; set security.protocol to PLAINTEXT or SSL")
            raise NotLetIn(
                self.address,
                f"does not take SASL mechanism {sasl.mechanism} ({error_name(handshake.error_code)}); it offers: {offered}",
                error_name(handshake.error_code),
            )
        mechanism = get_sasl_mechanism(sasl.mechanism)(
            sasl_mechanism=sasl.mechanism, sasl_plain_username=_user(sasl), sasl_plain_password=sasl.password
        )
        while not mechanism.is_done():
            request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
            answer = (await self.request(request, None)).body
            if answer.error_code != 0:
                raise NotLetIn(
                    self.address,
                    f"refuses user {sasl.username!r}: {answer.error_message or error_name(answer.error_code)};"
                    " check the user, the password and the mechanism",
                    error_name(answer.error_code),
                )
            try:
                # SCRAM hashes thousands of rounds here: not on the loop that the other brokers' answers arrive on.
                await asyncio.to_thread(mechanism.receive, bytes(answer.auth_bytes))
            except (ValueError, KeyError) as error:
                raise NotLetIn(self.address, f"SASL {sasl.mechanism} failed: {error}") from error
            lifetime_ms = answer.session_lifetime_ms
            if lifetime_ms:
                self.expires_ns = time.monotonic_ns() + int(lifetime_ms * RENEWED_AT * 1e6)

    def _fail(self, error: WireError) -> None:
        if self._end is None:
            self._end = error
        pending, self._pending = self._pending, {}
        for receiver in pending.values():
            receiver.failed(self._end)

    def _close_when_drained(self) -> None:
        if self._is_retired and not self._pending and self._transport is not None:
            self._transport.close()


@dataclass(frozen=True, slots=True)
class _Key:
    """What kafka-python looks up a response class by."""

    request_api_key: int
    request_api_version: int


def _user(sasl: Sasl) -> str:
    # RFC 5802, 5.1: a comma and an equals sign in a SCRAM user name are written as these escapes; PLAIN knows none.
    return sasl.username if sasl.mechanism == "PLAIN" else sasl.username.replace("=", "=3D").replace(",", "=2C")


def _tags_end(frame: memoryview) -> int:
    """Where the tagged fields of a flexible response header end."""
    count, position = uvarint(frame, 0)
    for _ in range(count):
        _, position = uvarint(frame, position)
        size, position = uvarint(frame, position)
        position += size
    return position


def uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint at a position, and the position after it. Raises IndexError when the frame ends within it."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _what_it_speaks(head: bytes) -> str:
    if head.startswith(b"HTTP"):
        return "speaks HTTP, not Kafka's protocol; is this the port of a Kafka listener?"
    if head[:1] == b"\x15" and head[1:2] == b"\x03":
        return "speaks TLS; set security.protocol to SSL or SASL_SSL"
    return f"does not speak Kafka's protocol (its first bytes are {head.hex(' ')}); is this the port of a Kafka listener?"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
