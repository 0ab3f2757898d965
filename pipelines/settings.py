"""Where does a running Lastack keep its things, and which figures govern it?

`Home` is one folder with everything of one installation; each process is told its path and finds the rest by name:

    HOME/landing/              files of observations, one folder that the stream reads; one that is still written is hidden: .NAME.part
    HOME/spool/<source>.json   up to where the control plane has been read
    HOME/live/<prober>.json    the fast lane's present view, replaced whole by atomic rename
    HOME/outbox/               alerts that are not delivered yet; in refused/ those that a receiver will never take
    HOME/lakehouse/<layer>/<table>   Delta tables
    HOME/stream/               the streaming query's checkpoint, lock and progress.json; in refused/ files with a line that is too long
    HOME/logs/                 a log file a process

Example: `Home(Path("/var/lib/lastack")).table("gold.outages")` is `/var/lib/lastack/lakehouse/gold/outages`.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one installation, and the places in it."""

    path: Path

    @property
    def landing(self) -> Path:
        """Finished files of observations."""
        return self.path / "landing"

    @property
    def spool(self) -> Path:
        """What collectors keep over a restart."""
        return self.path / "spool"

    @property
    def live(self) -> Path:
        """The fast lane's present view, one file a prober."""
        return self.path / "live"

    @property
    def outbox(self) -> Path:
        """Alerts that are not delivered yet."""
        return self.path / "outbox"

    @property
    def lakehouse(self) -> Path:
        """The root of the Delta tables."""
        return self.path / "lakehouse"

    @property
    def stream(self) -> Path:
        """Checkpoint, lock and progress of the streaming query."""
        return self.path / "stream"

    @property
    def logs(self) -> Path:
        """A log file a process."""
        return self.path / "logs"

    def table(self, name: str) -> Path:
        """The folder of a Delta table, `layer.table`."""
        layer, table = name.split(".")
        return self.lakehouse / layer / table

    def create(self) -> None:
        """Makes the folders that are missing."""
        for folder in (self.landing, self.spool, self.live, self.outbox, self.lakehouse, self.stream, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
