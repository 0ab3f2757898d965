"""Can we get in, and if not, what should the user mend?

The rule: every bootstrap address is tried at once, with the user's own security; one that answers is enough. Then every
broker is tried at the address that it advertises: a cluster of which no broker can be reached there is no use, however well
the bootstrap address answers (a container or a NAT between is the usual reason). The error is one line that names each
address and its reason.

Example: `check(Connection.plain("127.0.0.1:1"))` raises ConnectionFailed: "no Kafka broker could be reached: 127.0.0.1:1:
connection refused: nobody listens on this port; check --bootstrap".
"""

import asyncio
import time
from dataclasses import dataclass

from kafka.protocol.metadata import MetadataRequest

from pipelines.brokers.kafka.connection import Address, Connection
from pipelines.brokers.kafka.metadata import BrokerInfo, Metadata, read_metadata
from pipelines.brokers.kafka.wire import ConnectionLost, NotKafka, NotLetIn, NotSupported, Wire, WireError
from pipelines.errors import ConnectionFailed, Unauthorised

CHECK_SECONDS = 8.0
"""For the bootstrap addresses, and once more for the brokers' own; both together stay within ten seconds or little more."""
ADVERTISED_SECONDS = 3.0
FETCH_SNAPSHOT = 59
"""A request that only controllers take (common/message/FetchSnapshotRequest.json: its listeners)."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A cluster that lets us in; `unreachable` says why brokers that it names could not be reached at their own address."""

    cluster_id: str
    brokers: tuple[BrokerInfo, ...]
    unreachable: dict[int, str]


def check(connection: Connection) -> Reached:
    """Connects, once. Raises ConnectionFailed or Unauthorised, with one line for people, within about ten seconds."""
    return asyncio.run(_check(connection))


def check_controllers(connection: Connection) -> None:
    """Connects to the controllers' listeners, once; one that answers is enough.

    Raises ConnectionFailed or Unauthorised, with one line for people.
    """
    asyncio.run(_check_controllers(connection))


async def _check_controllers(connection: Connection) -> None:
    answers = await asyncio.gather(*(_ask_controller(one, connection) for one in connection.bootstrap), return_exceptions=True)
    errors = [one for one in answers if isinstance(one, BaseException)]
    if len(errors) == len(answers):
        raise _explained(errors, "controller", "--controller")


async def _ask_controller(address: Address, connection: Connection) -> None:
    wire = await Wire.open(address, connection, time.monotonic() + CHECK_SECONDS)
    speaks = wire.speaks(FETCH_SNAPSHOT)
    wire.close()
    if not speaks:
        raise NotKafka(address, "a broker's listener, not a controller's: controller.listener.names says which that is")


async def _check(connection: Connection) -> Reached:
    answers = await asyncio.gather(*(_ask(address, connection) for address in connection.bootstrap), return_exceptions=True)
    metadata = next((one for one in answers if isinstance(one, Metadata)), None)
    if metadata is None:
        raise _explained([one for one in answers if isinstance(one, BaseException)], "broker", "--bootstrap")
    brokers = tuple(metadata.brokers.values())
    reasons = await asyncio.gather(*(_why_unreachable(broker.address, connection) for broker in brokers))
    unreachable = {broker.node: reason for broker, reason in zip(brokers, reasons, strict=True) if reason is not None}
    if len(unreachable) == len(brokers):
        raise ConnectionFailed(
            "the bootstrap address answers, but no broker can be reached at the address that it advertises: "
            + "; ".join(f"broker {node}: {reason}" for node, reason in unreachable.items())
            + "; advertised.listeners must name addresses that are reachable from here"
            if unreachable
            else "the cluster names no broker that serves; start one, or wait until one is unfenced"
        )
    return Reached(metadata.cluster_id or "", brokers, unreachable)


async def _ask(address: Address, connection: Connection) -> Metadata:
    wire = await Wire.open(address, connection, time.monotonic() + CHECK_SECONDS)
    try:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return read_metadata(await wire.request(request, time.monotonic() + CHECK_SECONDS))
    except ConnectionLost as error:
        if connection.security.has_sasl:
            raise
        # A listener with SASL tells its versions to everybody, then hangs up on whoever does not authenticate.
        hint = "hangs up at the first request: it may ask for SASL; set security.protocol and sasl.* with --command-config"
        raise NotLetIn(address, hint) from error
    finally:
        wire.close()


async def _why_unreachable(address: Address, connection: Connection) -> str | None:
    try:
        (await Wire.open(address, connection, time.monotonic() + ADVERTISED_SECONDS)).close()
    except WireError as error:
        return str(error)
    return None


def _explained(errors: list[BaseException], whom: str, option: str) -> Exception:
    for error in errors:
        if not isinstance(error, WireError):
            raise error
    reasons = "; ".join(
        f"{error.address}: a Kafka controller's listener, not a broker's: give it as --controller"
        if isinstance(error, NotSupported)
        else str(error)
        for error in errors
        if isinstance(error, WireError)
    )
    if any(isinstance(error, NotLetIn) for error in errors):
        return Unauthorised(f"the Kafka cluster does not let us in: {reasons}; check --command-config")
    return ConnectionFailed(f"no Kafka {whom} could be reached: {reasons}; check {option} and security.protocol")
