"""`python -m pipelines.jars fetch [NAME]...` fills the cache; `python -m pipelines.jars lock` pins everything anew."""

import re
import sys
import tempfile
from pathlib import Path

import pyspark

from pipelines.errors import LastackError, UsageError
from pipelines.jars import maven
from pipelines.jars.cache import ensure, sha256_of
from pipelines.jars.lock import SETS, Jar, lock_path, read_lock, write_lock


def is_shipped_with_spark(artifact: str) -> bool:
    """Whether PySpark's own `jars` folder has the artifact, in whatever version."""
    folder = Path(pyspark.__file__).parent / "jars"
    return any(re.match(r"-\d", path.name.removeprefix(artifact)) for path in folder.glob(f"{artifact}-*.jar"))


def relock(name: str) -> list[str]:
    """Resolves a lock's roots again and writes it; returns the lines that changed, with + and -."""
    path = lock_path(name)
    lock = read_lock(path)
    with tempfile.TemporaryDirectory() as folder:
        files = maven.resolve(lock.roots, Path(folder))
        jars = [Jar(coordinate, sha256_of(file)) for coordinate, file in files.items()]
    if lock.omits_spark:
        jars = [jar for jar in jars if not is_shipped_with_spark(jar.artifact)]
    write_lock(path, lock.heading, jars)
    gone, new = set(lock.jars) - set(jars), set(jars) - set(lock.jars)
    return sorted([f"- {jar.coordinate}" for jar in gone] + [f"+ {jar.coordinate}" for jar in new], key=lambda row: row[2:])


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the command is not one of the two."""
    command, *names = arguments or [""]
    unknown = set(names) - set(SETS)
    if command not in ("fetch", "lock") or unknown:
        raise UsageError(f"usage: python -m pipelines.jars fetch|lock [{'|'.join(SETS)}]...")
    for name in names or SETS:
        if command == "fetch":
            jars = ensure(name)
            sys.stdout.write(f"{name}: {len(jars.jars)} JARs in {jars.folder}\n")
        else:
            changes = relock(name)
            sys.stdout.write("".join(f"{row}\n" for row in changes) or f"{name}: nothing changed\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LastackError as error:
        sys.stderr.write(f"lastack: {error}\n")
        sys.exit(error.exit_code)
