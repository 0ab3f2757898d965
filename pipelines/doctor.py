"""What does this machine lack, and which command supplies it?

Each check looks at one thing and says what it found; a check that fails carries a remedy. Nothing is changed, but for
`python -m pipelines.doctor browser --install`, with which `make test` gets its browser where it may.

Example: `lastack doctor` on a machine without a browser prints five lines with "ok" and one with
"missing  browser  none found  ->  apt-get install -y chromium", and exits with 1.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines import jars
from pipelines.errors import LastackError, UsageError
from pipelines.java import find_java

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_BROWSERS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
MEMORY_NEEDED_BYTES = 6 * 10**9
DISK_NEEDED_BYTES = 3 * 10**9


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at and what was found. `remedy` is empty when it is as needed."""

    name: str
    found: str
    remedy: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether it is as needed."""
        return not self.remedy


def check_all() -> list[Check]:
    """Everything that the demo, the tests and the daily work need."""
    return [look() for look in (check_python, check_java, check_jars, check_browser, check_memory, check_disk)]


def check_python() -> Check:
    """This Python; an old one cannot even read this file."""
    return Check("python", f"{sys.version.split()[0]} ({sys.executable})")


def check_java() -> Check:
    """A Java on which Kafka and Spark run."""
    try:
        java = find_java()
    except UsageError as error:
        return Check("java", str(error), "see the command in it")
    return Check("java", f"{java.version} ({java.home})")


def check_jars() -> Check:
    """The pinned JARs; missing ones are fetched when they are first needed."""
    absent = sum(len(jars.missing(name)) for name in jars.SETS)
    if absent:
        # This very Python: another one, such as the system's, does not know us.
        return Check("jars", f"{absent} not yet in {jars.cache_folder()}", f"{shlex.quote(sys.executable)} -m pipelines.jars fetch")
    return Check("jars", f"all in {jars.cache_folder()}")


def check_browser() -> Check:
    """A Chromium for the tests of the pages; nothing else needs it."""
    browser = find_browser()
    if browser is None:
        return Check("browser", "none found", "apt-get install -y chromium")
    if not os.access(browser, os.X_OK) or browser.is_dir():
        return Check("browser", f"LASTACK_BROWSER is {browser}, which is no program", "name one in LASTACK_BROWSER, or unset it")
    return Check("browser", str(browser))


def check_memory() -> Check:
    """Room for three brokers (0.4 GB each), Spark (1.5 GB) and the rest."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    remedy = "" if found >= MEMORY_NEEDED_BYTES else f"the demo needs {MEMORY_NEEDED_BYTES / 1e9:.0f} GB"
    return Check("memory", f"{found / 1e9:.1f} GB", remedy)


def check_disk() -> Check:
    """Room where temporary files go: the lab keeps its brokers' data there."""
    try:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("disk", f"no place for temporary files: {error.strerror}", "set TMPDIR to a folder that you may write to")
    wanted = os.environ.get("TMPDIR")
    if wanted and Path(wanted).resolve() != Path(folder).resolve():
        return Check(
            "disk", f"TMPDIR is {wanted}, where nothing can be written", "set TMPDIR to a folder that you may write to, or unset it"
        )
    remedy = "" if free >= DISK_NEEDED_BYTES else f"the lab needs {DISK_NEEDED_BYTES / 1e9:.0f} GB; set TMPDIR elsewhere"
    return Check("disk", f"{free / 1e9:.1f} GB free in {folder}", remedy)


def find_browser(environ: Mapping[str, str] | None = None, mac_browsers: tuple[str, ...] = MAC_BROWSERS) -> Path | None:
    """An installed Chromium or Chrome: LASTACK_BROWSER, else the usual names on PATH, else the usual places of a Mac."""
    environ = os.environ if environ is None else environ
    if environ.get("LASTACK_BROWSER"):
        return Path(environ["LASTACK_BROWSER"])
    found = (shutil.which(name, path=environ.get("PATH")) for name in BROWSERS)
    on_mac = (place for place in mac_browsers if Path(place).is_file())
    name = next((path for path in found if path), None) or next(on_mac, None)
    return Path(name) if name else None


def install_browser(run: Callable[[list[str]], int] = subprocess.call, is_root: bool | None = None, apt_get: str | None = None) -> Path:
    """The browser, after installing Debian's where there is none and we may. Raises UsageError when we may not or it fails."""
    browser = find_browser()
    if browser:
        return browser
    may = os.geteuid() == 0 if is_root is None else is_root
    apt_get = apt_get or shutil.which("apt-get")
    if not (may and apt_get):
        raise UsageError(
            "the tests of the pages need Chromium or Chrome, and none is installed; install one"
            " (as root: apt-get install -y chromium) or name it in LASTACK_BROWSER"
        )
    for command in (
        [apt_get, "update", "--quiet=2"],
        [apt_get, "install", "--yes", "--quiet=2", "--no-install-recommends", "chromium"],
    ):
        if run(command) != 0:
            raise UsageError(f"no browser for the tests of the pages: `{' '.join(command)}` failed; see its message above")
    browser = find_browser()
    if not browser:
        raise UsageError("apt-get installed chromium, but no browser is on PATH; name it in LASTACK_BROWSER")
    return browser


def report(checks: list[Check]) -> str:
    """The checks as lines of text, widths aligned."""
    rows = [f"{'ok' if check.is_ok else 'missing':8} {check.name:8} {check.found}" for check in checks]
    return "\n".join(row + (f"  ->  {check.remedy}" if check.remedy else "") for row, check in zip(rows, checks, strict=True))


def main(arguments: list[str]) -> int:
    """Exit code 0 when all is well, 1 when something is missing, 2 when it could not be installed."""
    if arguments == ["browser", "--install"]:
        install_browser()
        return 0
    if arguments:
        raise UsageError("usage: python -m pipelines.doctor [browser --install]")
    checks = check_all()
    sys.stdout.write(report(checks) + "\n")
    return 0 if all(check.is_ok for check in checks) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LastackError as error:
        sys.stderr.write(f"lastack: {error}\n")
        sys.exit(error.exit_code)
