"""Where do JARs come from? From Maven repositories, through jgo, which knows where they are: the one door to it.

jgo's own configuration file can name other repositories (a mirror of the company's, say). No host is named here.
jgo is imported when it is needed: a run that finds everything in the cache does without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.errors import DownloadError
from pipelines.jars.lock import Jar, Root

TIMEOUT_SECONDS = 60


def fetch(jar: Jar, into: Path, got_bytes: Callable[[int], None]) -> Path:
    """Brings one JAR into an empty folder and returns its path, reporting bytes as they arrive.

    Raises OSError for a transfer that failed, DownloadError when no repository has the artifact.
    """

    @contextmanager
    def report(_file: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield got_bytes

    return _artifact(_context(into, report), jar.coordinate)


def resolve(roots: tuple[Root, ...], into: Path) -> dict[str, Path]:
    """The roots and what they need at run time: coordinate to file, downloaded below `into`."""
    context = _context(into)
    wanted = [context.create_dependency(_for_jgo(root.coordinate)) for root in roots if not root.is_alone]
    inputs, transitive = context.resolver.resolve(wanted)
    needed = [*inputs, *(dependency for dependency in transitive if dependency.scope in ("compile", "runtime"))]
    coordinates = {root.coordinate for root in roots if root.is_alone}
    for dependency in needed:
        parts = (dependency.groupId, dependency.artifactId, dependency.version, dependency.classifier)
        coordinates.add(":".join(part for part in parts if part))
    return {coordinate: _artifact(context, coordinate) for coordinate in sorted(coordinates)}


def _for_jgo(coordinate: str) -> str:
    """Our coordinate in jgo's order, where the packaging stands before a classifier."""
    group, artifact, version, *classifier = coordinate.split(":")
    return ":".join([group, artifact, "jar", *classifier, version] if classifier else [group, artifact, version])


def _artifact(context: Any, coordinate: str) -> Path:
    group, artifact, version, *classifier = coordinate.split(":")
    component = context.project(group, artifact).at_version(version)
    try:
        return Path(component.artifact(classifier[0] if classifier else "").resolve())
    except RuntimeError as error:  # jgo: no repository answered with the file
        raise DownloadError(f"no repository has {coordinate}; was it withdrawn, or is a proxy in the way? ({error})") from error


def _context(into: Path, report: Any = None) -> Any:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver

    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    resolver = PythonResolver(progress_callback=report)
    return MavenContext(resolver=resolver, repo_cache=into, remote_repos=repositories, timeout=TIMEOUT_SECONDS)
