"""How do the nodes' data folders begin? Formatted once by Kafka's own tool, then copied.

Kafka's `StorageTool format` costs a JVM start, and what it writes is the same for every node but for two lines of
`meta.properties`: the node's id and the folder's own id. So it runs for the first node only, which saves about 3 s of CPU.

Example: after `format_all(...)`, `node-2/data/meta.properties` says `node.id=2`, the same `cluster.id` as node 1 and a
`directory.id` of its own.
"""

import base64
import re
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import LabError
from pipelines.lab.config import JVM_FLAGS
from pipelines.lab.node import Node

FORMAT_SECONDS = 60
META = "meta.properties"


def new_kafka_id() -> str:
    """A random id in Kafka's form: 22 characters of URL-safe base64; one that begins with a dash would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_all(java: Path, class_path: str, nodes: Sequence[Node], cluster_id: str, arguments: Sequence[str]) -> None:
    """Formats the data folder of every node. Raises LabError with the tool's own words.

    Args:
        java: the program that runs the tool.
        class_path: Kafka's JARs.
        nodes: each has its `server.properties` already; the tool runs for the first of them.
        cluster_id: in Kafka's form.
        arguments: more of the tool's own, such as `--add-scram`.
    """
    first, *others = nodes
    tool = [str(java), *JVM_FLAGS, "-cp", class_path, "kafka.tools.StorageTool"]
    command = [*tool, "format", "--cluster-id", cluster_id, "--config", str(first.folder / "server.properties"), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_SECONDS, check=False, cwd=first.folder)
    if answer.returncode != 0 or not (first.data_dir / META).is_file():
        raise LabError(f"Kafka's StorageTool could not format {first.data_dir}: {(answer.stdout + answer.stderr).strip()}")
    for node in others:
        shutil.copytree(first.data_dir, node.data_dir)
        meta = node.data_dir / META
        text = _set(_set(meta.read_text(), "node.id", str(node.node_id)), "directory.id", new_kafka_id())
        meta.write_text(text)


def _set(text: str, name: str, value: str) -> str:
    changed, count = re.subn(rf"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    if count != 1:
        raise LabError(f"{META} has {count} lines for {name}, expected one: has Kafka changed its format?")
    return changed
