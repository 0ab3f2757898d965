"""Is there a Java that Kafka and Spark run on, and if not, which command installs one?

The rule: Java 17 or 21 with the module jdk.incubator.vector (Spark does not start without it; trimmed runtimes lack it).
JAVA_HOME is asked first, then `java` on PATH, then the places where systems put their JDKs: a wrong JAVA_HOME does no harm
when a right Java is installed.

Example: with only Java 25 on PATH the error reads "no suitable Java: found 25 (java on PATH), need 17 or 21; install it with:
apt-get install -y openjdk-17-jre-headless".
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import UsageError

MAJORS = (17, 21)
NEEDED_MODULE = "jdk.incubator.vector"
ASK_SECONDS = 20

JDK_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*",
    "/usr/local/opt/openjdk@*",
)

OS_RELEASE = Path("/etc/os-release")
DEBIAN_WITHOUT_17 = 13

# By the ID and ID_LIKE words of os-release; the first that fits is said.
INSTALL_COMMANDS = {
    "debian": "apt-get install -y openjdk-17-jre-headless",
    "ubuntu": "apt-get install -y openjdk-17-jre-headless",
    "fedora": "dnf install -y java-21-openjdk-headless",
    "rhel": "dnf install -y java-21-openjdk-headless",
    "suse": "zypper install -y java-21-openjdk-headless",
    "arch": "pacman -S jre21-openjdk-headless",
    "alpine": "apk add openjdk17-jre-headless",
}


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was asked what it is."""

    home: Path
    version: str
    modules: frozenset[str]
    found_at: str

    @property
    def major(self) -> int:
        """17 for 17.0.15; 8 for 1.8.0."""
        first, _, rest = self.version.partition(".")
        return int(re.split(r"\D", rest, maxsplit=1)[0]) if first == "1" and rest else int(re.split(r"\D", first, maxsplit=1)[0])

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    @property
    def keytool(self) -> Path:
        """The program that makes keys and certificates; every JRE has it."""
        return self.home / "bin" / "keytool"

    @property
    def problem(self) -> str:
        """Why it does not serve; empty when it does."""
        if self.major not in MAJORS:
            return f"{self.version} ({self.found_at})"
        if NEEDED_MODULE not in self.modules:
            return f"{self.version} without {NEEDED_MODULE} ({self.found_at})"
        return ""


def find_java(environ: Mapping[str, str] | None = None, folders: tuple[str, ...] = JDK_FOLDERS) -> Java:
    """The first Java that serves. Raises UsageError with what was found instead and the command that installs one."""
    problems = []
    for place, executable in _candidates(os.environ if environ is None else environ, folders):
        java = ask(executable, place)
        if isinstance(java, str):
            problems.append(java)
        elif java.problem:
            problems.append(java.problem)
        else:
            return java
    found = "found " + ", ".join(dict.fromkeys(problems)) if problems else "found none"
    wanted = " or ".join(str(major) for major in MAJORS)
    raise UsageError(f"no suitable Java: {found}; need {wanted}; install it with: {install_command()}")


def ask(executable: Path, place: str) -> Java | str:
    """What a `java` program says of itself, or a sentence when it says nothing."""
    try:
        answer = subprocess.run([executable, "--list-modules"], capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{place} that does not run ({type(error).__name__})"
    modules = dict(line.split("@", 1) for line in answer.stdout.splitlines() if "@" in line)
    if answer.returncode != 0 or "java.base" not in modules:
        # Java 8 does not know modules, so it does not know the question.
        return f"a Java older than 9, or none ({place})"
    home = executable.resolve().parent.parent
    return Java(home, modules["java.base"], frozenset(modules), place)


def install_command(os_release: Path = OS_RELEASE, platform: str = sys.platform) -> str:
    """The command that installs a suitable Java on this system."""
    if platform == "darwin":
        return "brew install openjdk@17"
    said = _read_os_release(os_release)
    words = [said.get("ID", ""), *said.get("ID_LIKE", "").split()]
    command = next((INSTALL_COMMANDS[word] for word in words if word in INSTALL_COMMANDS), "")
    version = said.get("VERSION_ID", "").partition(".")[0]
    if said.get("ID") == "debian" and version.isdigit() and int(version) >= DEBIAN_WITHOUT_17:
        command = command.replace("17", "21")
    return command or "your system's package manager (an OpenJDK 17 or 21 runtime)"


def _read_os_release(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}


def _candidates(environ: Mapping[str, str], folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Places where a `java` may be, in the order in which they are asked, each program once."""
    seen: set[Path] = set()
    for place, executable in _places(environ, folders):
        if executable.is_file() and executable.resolve() not in seen:
            seen.add(executable.resolve())
            yield place, executable
        elif place == "JAVA_HOME" and not executable.exists():
            yield place, executable  # said in the error, for it is what the user meant


def _places(environ: Mapping[str, str], folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield "java on PATH", Path(on_path)
    for pattern in folders:
        for home in sorted(Path("/").glob(pattern.removeprefix("/"))):
            yield str(home), home / "bin" / "java"


def main() -> int:
    """`python -m pipelines.java` prints the home of the Java that will be used. Exit code 2 when there is none."""
    try:
        sys.stdout.write(f"{find_java().home}\n")
    except UsageError as error:
        sys.stderr.write(f"lastack: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
