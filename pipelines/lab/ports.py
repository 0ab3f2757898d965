"""Which ports of this host may a lab's servers listen on?

The rule: a port below the range from which the kernel takes the ports of outgoing connections. Inside that range a client that
tries again and again to reach a dead broker can be given the broker's own port as its source, connect to itself, and so keep the
broker from coming back. The ports are tried by binding, all at once so that they differ, and released; who is unlucky enough to
lose one in between finds out when the server does not start, and chooses again.

Example: with net.ipv4.ip_local_port_range 32768 to 60999, `free_ports(3)` is something like [20711, 24013, 31890].
"""

import contextlib
import random
import socket
from pathlib import Path

from pipelines.errors import LabError

LOOPBACK = "127.0.0.1"
LOWEST = 12_000
HIGHEST = 32_000
OUTGOING_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES_PER_PORT = 200


def free_ports(count: int) -> list[int]:
    """As many different ports on loopback as asked for. Raises LabError when there are not enough."""
    found: list[int] = []
    candidates = _candidates()
    with contextlib.ExitStack() as held:
        for _ in range(TRIES_PER_PORT * count):
            if len(found) == count:
                break
            port = random.choice(candidates)  # noqa: S311 - nobody is to be surprised
            taken = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            with contextlib.suppress(OSError):  # somebody has it: try another
                taken.bind((LOOPBACK, port))
                found.append(port)
    if len(found) < count:
        raise LabError(f"found {len(found)} free ports on {LOOPBACK}, need {count}: what else runs here?")
    return found


def _candidates() -> range:
    lowest_outgoing = HIGHEST
    if OUTGOING_RANGE.is_file():
        lowest_outgoing = int(OUTGOING_RANGE.read_text().split()[0])
    highest = min(HIGHEST, lowest_outgoing)
    # A host whose outgoing ports begin very low leaves nothing below them.
    return range(LOWEST, highest) if highest > LOWEST + 1_000 else range(LOWEST, HIGHEST)
