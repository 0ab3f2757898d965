"""What does a lock file say, and how is it made again?

A lock starts with the roots it was resolved from, as comments that the next resolution reads back:

    # root: org.apache.kafka:kafka_2.13:4.3.1
    # root: org.jolokia:jolokia-agent-jvm:2.6.0:javaagent alone

and then has one line per JAR of their run-time closure (`alone`: without it), sorted, so that a changed pin is a changed
line: `group:artifact:version[:classifier] sha256:HEX`. `# omit: spark` drops what Spark ships itself.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import DownloadError
from pipelines.resources import resource

SETS = ("kafka", "kafka-zookeeper", "spark")
AGENT_CLASSIFIER = "javaagent"

_LINE = re.compile(r"^(?P<coordinate>[\w.\-]+:[\w.\-]+:[\w.\-]+(:[\w.\-]+)?) sha256:(?P<sha256>[0-9a-f]{64})$")
_ROOT = re.compile(r"^# root: (?P<coordinate>\S+)(?P<alone> alone)?$")
_OMIT = re.compile(r"^# omit: spark$")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file. `coordinate` is `group:artifact:version` or `group:artifact:version:classifier`."""

    coordinate: str
    sha256: str

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Group, artifact, version and classifier (empty for an ordinary JAR)."""
        group, artifact, version, *classifier = self.coordinate.split(":")
        return group, artifact, version, classifier[0] if classifier else ""

    @property
    def artifact(self) -> str:
        """The artifact's name, without group and version."""
        return self.parts[1]

    @property
    def is_agent(self) -> bool:
        """Whether it is loaded with `-javaagent` and so does not belong on the class path."""
        return self.parts[3] == AGENT_CLASSIFIER

    @property
    def relative_path(self) -> str:
        """Where it lies in the cache; the group keeps files of one name and two origins apart."""
        group, artifact, version, classifier = self.parts
        return f"{group}/{artifact}-{version}{'-' + classifier if classifier else ''}.jar"


@dataclass(frozen=True, slots=True)
class Root:
    """What a lock is resolved from: a coordinate, with its run-time closure unless `is_alone`."""

    coordinate: str
    is_alone: bool

    def __str__(self) -> str:
        return f"# root: {self.coordinate}{' alone' if self.is_alone else ''}"


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file, read. `omits_spark`: what Spark ships itself is left out."""

    heading: tuple[str, ...]
    roots: tuple[Root, ...]
    omits_spark: bool
    jars: tuple[Jar, ...]


def lock_path(name: str) -> Path:
    """The lock file of a set of JARs."""
    return resource("conf", "jars", f"{name}.lock")


def read_lock(path: Path) -> Lock:
    """The lock in the file's order. Raises DownloadError naming the first line that cannot be read."""
    heading: list[str] = []
    roots: list[Root] = []
    jars: list[Jar] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        if line.startswith("#"):
            heading.append(line)
            root = _ROOT.match(line)
            if root:
                roots.append(Root(root["coordinate"], root["alone"] is not None))
            continue
        match = _LINE.match(line)
        if match is None:
            raise DownloadError(f"{path}:{number}: expected `group:artifact:version sha256:HEX`, found {line!r}")
        jars.append(Jar(match["coordinate"], match["sha256"]))
    return Lock(tuple(heading), tuple(roots), any(_OMIT.match(line) for line in heading), tuple(jars))


def write_lock(path: Path, heading: tuple[str, ...], jars: list[Jar]) -> None:
    """Writes the lock with its heading kept and its JARs sorted."""
    lines = [*heading, "", *(f"{jar.coordinate} sha256:{jar.sha256}" for jar in sorted(jars, key=lambda j: j.coordinate))]
    path.write_text("\n".join(lines) + "\n")
