"""How does one node's disk get full, or turn read-only, and nobody else's? And what does a power loss leave on it?

The rule: each node's data is on a file system of its own, an ext4 in a file of the lab's folder, mounted in the node's folder. It is
full when the kernel answers ENOSPC to a write of 4 KiB there, read-only when it answers EROFS; only then is it said to be.

It turns read-only as a real one does: ext4 is told (through its `trigger_fs_error`) that it met an error, and by its mount option
`errors=remount-ro` takes no more writes, also not to files that are open. What it held until then stays. A running broker whose
only log directory fails ends by itself. Back to normal means what it means for an operator: the broker is down, the file system
is unmounted, checked (e2fsck) and mounted again.

A *copy* of a node's data is one instant's: the process is stopped, by SIGTERM or by SIGSTOP, so that nothing of it is written
while it is copied. Rolling a dead node back to it is a power loss at that instant, as far as the topics' partitions go: what
Kafka acknowledged later it had never flushed (`log.flush.interval.messages` is not set), and is gone. What Kafka does flush
before it goes on stays as it is: `__cluster_metadata` with its votes, and `meta.properties`. The mark of a clean shutdown is
removed, for a power loss leaves none.

Example: with `own_volume_mb=256`, `fill` writes a file of some 240 MB beside the data in 0.1 s, and the next append fails.
"""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import LabError
from pipelines.lab.claims import Claim
from pipelines.lab.layout import VOLUME, node_folder
from pipelines.lab.node import Doing, Node
from pipelines.processes import wait_until

SMALLEST_MB = 32
CHUNK_BYTES = 4096
COMMAND_SECONDS = 60
UNMOUNT_SECONDS = 10.0
FILLER = "filler"
FILLER_LEFT_BYTES = 1024 * 1024
"""What is not taken at one go, for the file system needs some of it to say where the rest is."""
IMAGE = "volume.ext4"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
FLUSHED = ("__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint")
"""What Kafka writes through to the disk before it goes on (org.apache.kafka.raft, and the node's own properties)."""
PACKAGES = {"mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "mount": "mount", "losetup": "mount"}


@dataclass(frozen=True, slots=True)
class DataCopy:
    """A node's data as it was between two instants, in which nothing was written."""

    node_id: int
    path: Path
    from_at_us: int
    until_at_us: int


def make_volumes(claim: Claim, folder: Path, node_ids: Sequence[int], size_mb: int) -> None:
    """Mounts a new file system in each node's folder. Raises LabError when this host does not let us."""
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if missing:
        raise LabError(f"a lab with own_volume_mb needs programs that are not here: install the Debian packages {', '.join(missing)}")
    if size_mb < SMALLEST_MB:
        raise LabError(f"own_volume_mb is {size_mb}: Kafka needs {SMALLEST_MB} or more to start")
    for node_id in node_ids:
        own = node_folder(folder, node_id)
        (own / VOLUME).mkdir(parents=True)
        with (own / IMAGE).open("wb") as image:
            image.truncate(size_mb * 1024 * 1024)
        # No share for root alone, for the broker is root's; no journal, so that a triggered error costs nothing that was written.
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(own / IMAGE))
        claim.take("mount", str(own / VOLUME))
        _mount(own)


def fill(node: Node, doing: Doing) -> None:
    """Takes all space of the node's volume; over when a write fails with ENOSPC."""
    path = _volume(node) / FILLER
    with doing, path.open("wb", buffering=0) as file:
        state = os.statvfs(path)
        os.posix_fallocate(file.fileno(), 0, max(1, state.f_bavail * state.f_frsize - FILLER_LEFT_BYTES))
        file.seek(0, os.SEEK_END)
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(CHUNK_BYTES))
    _expect(node, errno.ENOSPC)


def free(node: Node, doing: Doing) -> None:
    """Gives the space back; over when a write succeeds."""
    filler = _volume(node) / FILLER
    if not filler.exists():
        raise LabError(f"the disk of {node.name} was not filled")
    with doing:
        filler.unlink()
    _expect(node, None)


def make_read_only(node: Node, doing: Doing) -> None:
    """Makes the node's volume take no more writes; over when one fails with EROFS."""
    _expect(node, None)
    volume = _volume(node)
    descriptor = os.open(volume, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _run("sync", "--file-system", str(volume))
    trigger = Path("/sys/fs/ext4") / _device(volume).name / "trigger_fs_error"
    with doing:
        trigger.write_text("asked for by a lab\n")
    _expect(node, errno.EROFS)


def make_writable(node: Node, doing: Doing) -> None:
    """Checks and mounts the volume again, of a node that is down; over when a write succeeds."""
    if node.is_alive():
        raise LabError(f"the disk of {node.name} cannot be mounted again while it runs: it has files open there; kill it first")
    volume = _volume(node)
    _expect(node, errno.EROFS)
    wait_until(lambda: _try("umount", str(volume)), UNMOUNT_SECONDS, f"the disk of {node.name} to be free for unmounting")
    # e2fsck says by 1 that it mended something, which is what it is for.
    if _call("e2fsck", "-f", "-y", str(node.folder / IMAGE)).returncode > 1:
        raise LabError(f"the disk of {node.name} cannot be mended")
    with doing:
        _mount(node.folder)
    _expect(node, None)


def copy_data(node: Node, destination: Path) -> None:
    """Copies a node's data, holes as holes. Whoever calls has stopped the process."""
    if node.is_alive() and not node.is_paused():
        raise LabError(f"{node.name} runs: a copy of what it is writing would be of no one instant")
    destination.parent.mkdir(parents=True, exist_ok=True)
    _run("cp", "--archive", "--sparse=auto", "--reflink=auto", str(node.data_dir), str(destination))


def roll_back(node: Node, copy: DataCopy, doing: Doing) -> None:
    """Gives a dead node the partitions of an earlier copy. Raises LabError when it runs."""
    if node.is_alive():
        raise LabError(f"{node.name} runs (pid {node.pid}): kill it before its data is rolled back")
    if copy.node_id != node.node_id:
        raise LabError(f"the copy is of node {copy.node_id}, not of {node.name}: a broker's data says whose it is")
    earlier = [path for path in copy.path.iterdir() if path.name not in (*FLUSHED, CLEAN_SHUTDOWN)]
    with doing:
        for path in node.data_dir.iterdir():
            if path.name not in FLUSHED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if earlier:
            _run("cp", "--archive", "--sparse=auto", "--reflink=auto", *map(str, earlier), str(node.data_dir))
    wanted, found = (_sizes(folder) for folder in (copy.path, node.data_dir))
    if wanted != found:
        changed = sorted(set(wanted.items()) ^ set(found.items()))[:5]
        raise LabError(f"the data of {node.name} is not as the copy has it: {changed}")


def _sizes(data: Path) -> dict[str, int]:
    """Every file of the topics' partitions with its size."""
    files = (path for path in data.rglob("*") if path.is_file())
    names = {path.relative_to(data): path.stat().st_size for path in files}
    return {str(name): size for name, size in names.items() if name.parts[0] not in (*FLUSHED, CLEAN_SHUTDOWN)}


def _volume(node: Node) -> Path:
    volume = node.folder / VOLUME
    if not volume.is_mount():
        raise LabError(f"{node.name} has no disk of its own: give its LabSpec own_volume_mb")
    return volume


def _device(volume: Path) -> Path:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, where, *_ = line.split(" ")
        if where.encode().decode("unicode_escape") == str(volume):
            return Path(device)
    raise LabError(f"nothing is mounted at {volume}")


def _expect(node: Node, number: int | None) -> None:
    """Raises LabError unless a small write to the node's volume fails with this error, or succeeds."""
    probe = _volume(node) / "probe"
    found = None
    try:
        with probe.open("wb", buffering=0) as file:
            file.write(bytes(CHUNK_BYTES))
            os.fsync(file.fileno())
    except OSError as error:
        found = error.errno
    with contextlib.suppress(OSError):
        probe.unlink()
    if found != number:
        expected, seen = (errno.errorcode.get(one, str(one)) if one else "success" for one in (number, found))
        raise LabError(f"a write to the disk of {node.name} ends with {seen}, expected {expected}")


def _mount(folder: Path) -> None:
    _run("mount", "-o", "loop,errors=remount-ro,noatime", str(folder / IMAGE), str(folder / VOLUME))


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)


def _try(*command: str) -> bool:
    return _call(*command).returncode == 0


def _run(*command: str) -> None:
    answer = _call(*command)
    if answer.returncode != 0:
        raise LabError(f"{' '.join(command)} failed: {(answer.stderr or answer.stdout).strip()}")
