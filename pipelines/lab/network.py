"""How is the network between the hosts of a lab cut and slowed, and how do we know that it was?

The rule: nothing is trusted that was not seen. A cut is done in the switch (nftables drops what goes between two addresses, both
ways, as a pulled cable does: nobody is told) and is over with when echoes between the two hosts came back before it and do not
any more. Being slow is done by the relay, and is over with when the round trips say so: the fastest takes what was asked for,
to a quarter or 2 ms more, and a burst of echoes takes as long as the rate says. What does not show is taken back, and is a
LabError.

This machine's own cable is never cut nor slowed, so that the lab can look at what it has hurt.

Example: `cut(hosts["1"], [hosts["2"]])` sends three echoes each way before, 3 of 3 back, and three after, 0 of 3 back, in 0.2 s.
"""

import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path

from pipelines.errors import LabError
from pipelines.lab import relay
from pipelines.lab.claims import RUN, Claim
from pipelines.lab.hosts import OPERATOR, SWITCH, Host, make_hosts, ping, require_programs, run
from pipelines.lab.node import Doing
from pipelines.processes import Child, spawn

TABLE = "lastack"
ECHOES = 3
LOST_SECONDS = 0.2
"""An echo that is not back after this, beyond what the round trip takes, is lost: it takes 0.1 ms otherwise."""
BACK_SECONDS = 5.0
RELAY_SECONDS = 10.0
BURST_BYTES = 1400
HEADER_BYTES = 28
BURST_SECONDS = 0.4
ROUNDS = 5
TOLERANCE = 0.25
TOLERANCE_MS = 2.0
CLOCK_MS = 0.1


@dataclass(frozen=True, slots=True)
class Slowness:
    """How slow a packet's way is, one way. `rate_kbit` is None for no limit."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    rate_kbit: float | None = None

    def __str__(self) -> str:
        rate = "" if self.rate_kbit is None else f", {self.rate_kbit:g} kbit/s"
        return f"{self.delay_ms:g} ms +- {self.jitter_ms:g} ms each way{rate}"


class Network:
    """The hosts of one lab and what is between them. `close` before the claim is released."""

    def __init__(self, claim: Claim, numbers: Mapping[str, int], log_path: Path) -> None:
        require_programs()
        self.hosts = make_hosts(claim, numbers)
        self._log_path = log_path
        self._switch = f"lastack-{claim.lab_id}-{SWITCH}"
        self._socket_path = RUN / f"{claim.lab_id}.sock"
        self._cut: set[frozenset[str]] = set()
        self._zones: dict[tuple[str, str], Slowness] = {}
        self._slow: dict[str, tuple[Slowness, tuple[str, ...]]] = {}
        self._relay: Child | None = None
        self._control: socket.socket | None = None
        self._nft(
            f"add table bridge {TABLE}\n"
            f"add set bridge {TABLE} cut {{ type ipv4_addr . ipv4_addr; }}\n"
            f"add chain bridge {TABLE} between {{ type filter hook forward priority 0; }}\n"
            f"add rule bridge {TABLE} between ip saddr . ip daddr @cut drop\n"
        )

    @property
    def others(self) -> list[Host]:
        """Every host but this machine itself."""
        return [host for host in self.hosts.values() if host.name != OPERATOR]

    def peers(self, host: Host, of: Sequence[Host] | None) -> list[Host]:
        """The hosts that are meant: those given, or all others but this machine. Raises LabError for one that makes no sense."""
        found = list(of) if of is not None else [other for other in self.others if other.name != host.name]
        wrong = [other.name for other in [host, *found] if other.name == OPERATOR] + [
            one.name for one in found if one.name == host.name
        ]
        if wrong or not found:
            raise LabError(f"between the host {host.name} and {[one.name for one in found]} there is nothing to cut or to slow")
        return found

    # ---- cut ---------------------------------------------------------------------------------------------------------------

    def cut(self, pairs: Iterable[frozenset[str]], doing: Doing) -> None:
        """Drops everything between the hosts of each pair; looks before and after."""
        new = set(pairs) - self._cut
        if not new:
            raise LabError("there is nothing left to cut: these hosts are cut off from each other already")
        self._expect(new, are_reached=True, because="before the cut")
        with doing:
            self._nft(self._elements("add", new))
        self._cut |= new
        try:
            self._expect(new, are_reached=False, because="after the cut")
        except LabError:
            self.heal(new, doing)
            raise

    def heal(self, pairs: Iterable[frozenset[str]], doing: Doing) -> None:
        """Lets everything through again between the hosts of each pair."""
        old = self._cut & set(pairs)
        if not old:
            raise LabError("there is nothing to heal: these hosts are not cut off from each other")
        with doing:
            self._nft(self._elements("delete", old))
        self._cut -= old
        self._expect(old, are_reached=True, because="after the cut was healed")

    @property
    def cuts(self) -> frozenset[frozenset[str]]:
        """The pairs of hosts that are cut off from each other now."""
        return frozenset(self._cut)

    def _elements(self, verb: str, pairs: Iterable[frozenset[str]]) -> str:
        addresses = [permutations([self.hosts[name].address for name in pair]) for pair in pairs]
        elements = ", ".join(f"{source} . {target}" for both in addresses for source, target in both)
        return f"{verb} element bridge {TABLE} cut {{ {elements} }}\n"

    def _nft(self, commands: str) -> None:
        run("ip", ["netns", "exec", self._switch, "nft", "-f", "-"], commands)

    def _expect(self, pairs: Iterable[frozenset[str]], *, are_reached: bool, because: str) -> None:
        """Raises LabError unless echoes between the hosts of each pair come back, or none does."""
        ways = [way for pair in pairs for way in permutations(sorted(pair))]
        slowest = max(self._round_trip_ms(*way) for way in ways) / 1000
        limit = slowest + (BACK_SECONDS if are_reached else LOST_SECONDS)
        for (source, target), back in self._ping(ways, ECHOES, limit).items():
            if are_reached != bool(back):
                expected = "some" if are_reached else "none"
                raise LabError(
                    f"{because}, {len(back)} of {ECHOES} echoes from the host {source} to {target} came back, expected {expected}: "
                    "is nftables at work in the switch's namespace?"
                )

    def _ping(
        self, ways: Sequence[tuple[str, ...]], count: int, limit: float, size: int = 56, interval: float = 0.02
    ) -> dict[tuple[str, str], list[float]]:
        """Round trips in seconds by (source, target), all at the same time."""
        sources = {source: [self.hosts[target] for start, target in ways if start == source] for source, _ in ways}
        with ThreadPoolExecutor(len(sources)) as pool:
            found = pool.map(lambda one: ping(self.hosts[one[0]], one[1], count, limit, size, interval), sources.items())
            return {(source, target): back for source, by in zip(sources, found, strict=True) for target, back in by.items()}

    # ---- slow --------------------------------------------------------------------------------------------------------------

    def set_zones(self, zones: Iterable[Sequence[str]], delay_ms: float) -> None:
        """From now on a packet from a host of one zone to a host of another takes this long, one way."""
        groups = [list(members) for members in zones]
        self._zones = {
            (source, target): Slowness(delay_ms)
            for one in groups
            for other in groups
            if one is not other
            for source in one
            for target in other
        }
        self._apply()
        self._expect_slow(list(self._zones))

    def slow(self, host: Host, slowness: Slowness, towards: Sequence[Host], doing: Doing) -> None:
        """Slows what a host exchanges with others, both ways; the rate is that of its link, for all of them together."""
        if host.name in self._slow:
            raise LabError(f"the host {host.name} is slow already: unslow it first")
        names = tuple(other.name for other in towards)
        blocked = [name for name in names if frozenset((host.name, name)) in self._cut]
        if blocked:
            raise LabError(f"cannot see whether the way from the host {host.name} to {blocked} is slow: it is cut off from them")
        self._slow[host.name] = (slowness, names)
        try:
            with doing:
                self._apply()
            self._expect_slow([(host.name, name) for name in names])
            if slowness.rate_kbit is not None:
                self._expect_rate(host.name, names[0], slowness.rate_kbit)
        except LabError:
            del self._slow[host.name]
            self._apply()
            raise

    def unslow(self, host: Host, doing: Doing) -> None:
        """Takes that back."""
        if host.name not in self._slow:
            raise LabError(f"the host {host.name} is not slow")
        _, names = self._slow.pop(host.name)
        with doing:
            self._apply()
        self._expect_slow([(host.name, name) for name in names if frozenset((host.name, name)) not in self._cut])

    def _pipes(self, source: str, target: str) -> dict[str, Slowness]:
        """What a packet goes through, by the pipe's name."""
        found = {}
        if source in self._slow and target in self._slow[source][1]:
            found[f"{source} out"] = self._slow[source][0]
        if (source, target) in self._zones:
            found[f"{source} {target}"] = self._zones[source, target]
        if target in self._slow and source in self._slow[target][1]:
            found[f"{target} in"] = self._slow[target][0]
        return found

    def _round_trip_ms(self, source: str, target: str) -> float:
        pipes = [*self._pipes(source, target).values(), *self._pipes(target, source).values()]
        return sum(pipe.delay_ms + pipe.jitter_ms for pipe in pipes)

    def _apply(self) -> None:
        """Tells the relay, then the hosts' routes, in the order in which no packet meets a table that does not know it."""
        flows = {
            (source.name, target.name): pipes
            for source, target in permutations(self.others, 2)
            if (pipes := self._pipes(source.name, target.name))
        }
        if self._control is None and not flows:
            return
        self._tell_relay(
            {
                "pipes": {name: asdict(pipe) for pipes in flows.values() for name, pipe in pipes.items()},
                "flows": [
                    {"from": self.hosts[source].address, "to": self.hosts[target].address, "pipes": list(pipes)}
                    for (source, target), pipes in flows.items()
                ],
            }
        )
        for host in self.others:
            routes = [
                f"route replace {self.hosts[target].address}/32 dev {relay.TUN_INTERFACE} src {host.address}"
                for source, target in flows
                if source == host.name
            ]
            lines = [f"link set {relay.TUN_INTERFACE} up", f"route flush dev {relay.TUN_INTERFACE}", *routes]
            run("ip", ["-netns", str(host.namespace), "-batch", "-"], "\n".join(lines) + "\n")

    def _tell_relay(self, table: object) -> None:
        control = self._control or self._start_relay()
        try:
            control.sendall(json.dumps(table).encode() + b"\n")
            answer = control.recv(16)
        except OSError as error:
            answer = str(error).encode()
        if answer != b"ok\n":
            raise LabError(
                f"the relay that slows the lab's network does not answer ({answer!r}): {self._relay and self._relay.log_tail()}"
            )

    def _start_relay(self) -> socket.socket:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(str(self._socket_path))
            door.listen(1)
            door.settimeout(RELAY_SECONDS)
            namespaces = [str(host.namespace) for host in self.others]
            command = [sys.executable, "-I", "-S", os.fspath(Path(relay.__file__)), str(self._socket_path), *namespaces]
            self._relay = spawn("relay", command, self._log_path)
            try:
                self._control, _ = door.accept()
            except TimeoutError as error:
                raise LabError(f"the relay that slows the lab's network did not start: {self._relay.log_tail()}") from error
            finally:
                self._socket_path.unlink()
        self._control.settimeout(RELAY_SECONDS)
        return self._control

    def _expect_slow(self, ways: Sequence[tuple[str, str]]) -> None:
        """Raises LabError unless the fastest round trip between each two hosts is what was asked for.

        The fastest, and asked again where it was too slow: what a busy machine adds is not the network's.
        """
        left = list(ways)
        for is_last in (*[False] * (ROUNDS - 1), True):
            limit = max((self._round_trip_ms(*way) for way in left), default=0.0) / 1000 + BACK_SECONDS
            found = self._ping(left, 2 * ECHOES, limit) if left else {}
            left = [way for way, back in found.items() if not self._is_as_slow(way, back, is_last=is_last)]

    def _is_as_slow(self, way: tuple[str, str], back: Sequence[float], *, is_last: bool) -> bool:
        """Whether these round trips are as slow as was asked for; False where it may be asked again. Raises LabError."""
        pipes = [*self._pipes(*way).values(), *self._pipes(*reversed(way)).values()]
        wanted, jitter = sum(pipe.delay_ms for pipe in pipes), sum(pipe.jitter_ms for pipe in pipes)
        # A rate adds what others send at the same time: what it does is looked at apart.
        is_limited = any(pipe.rate_kbit is not None for pipe in pipes)
        most = float("inf") if is_limited else wanted + jitter + max(TOLERANCE_MS, TOLERANCE * wanted)
        fastest = min(back, default=float("inf")) * 1000
        if back and wanted - jitter - CLOCK_MS <= fastest <= most:
            return True
        if back and fastest > most and not is_last:
            return False
        shown = f"the fastest of {len(back)} round trips is {fastest:.1f} ms" if back else "no echo came back"
        raise LabError(f"between the hosts {way[0]} and {way[1]} {shown}, expected {wanted - jitter:g} to {most:g} ms")

    def _expect_rate(self, source: str, target: str, rate_kbit: float) -> None:
        """Raises LabError when a burst of echoes goes through faster than the rate lets it."""
        size_kbit = (BURST_BYTES + HEADER_BYTES) * 8 / 1000
        count = max(3, round(rate_kbit * BURST_SECONDS / size_kbit))
        limit = self._round_trip_ms(source, target) / 1000 + 2 * count * size_kbit / rate_kbit + BACK_SECONDS
        back = self._ping([(source, target)], count, limit, BURST_BYTES, interval=0.0)[source, target]
        shortest = count * size_kbit / rate_kbit * (1 - TOLERANCE)
        if not back or max(back) < shortest:
            seen = f"{len(back)} of {count} echoes came back, the last after {max(back, default=0):.2f} s"
            raise LabError(f"the link of the host {source} is not at {rate_kbit:g} kbit/s: {seen}, expected {shortest:.2f} s or more")

    def close(self) -> None:
        """Ends the relay. The hosts go with the lab's claim."""
        if self._control is not None:
            self._control.close()
        if self._relay is not None:
            self._relay.stop(grace_seconds=0)
