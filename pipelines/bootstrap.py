"""How does the virtual environment come about? From `requirements.lock`, hash by hash, once.

Run by `make` with the system's own Python, before anything is installed, so it imports the standard
library only and stays readable for old Pythons (it must be able to say that they are too old).

The rule: `.venv/.made-from-lock` is written last. Without it, or when it names another lock or another
Python, the environment is thrown away (a half-made one is never trusted) or brought up to the new lock.

Example: `python3 pipelines/bootstrap.py .venv` on a fresh clone installs about 100 packages in a minute; run
again, it prints nothing and takes 0.1 s.
"""

import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
STAMP = ".made-from-lock"
LOCK = "requirements.lock"


def fingerprint(lock_path, project_path):
    """What the environment was made from: the lock, the project's own metadata, this Python."""
    digest = hashlib.sha256()
    for path in (lock_path, project_path):
        with open(path, "rb") as file:
            digest.update(file.read())
    return "%s python-%d.%d" % (digest.hexdigest(), sys.version_info[0], sys.version_info[1])


def read_stamp(venv):
    """The fingerprint that a finished environment carries; empty when there is none."""
    path = os.path.join(venv, STAMP)
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read().strip()


def runs(venv):
    """Whether the environment's own Python starts at all (it does not once its base Python is gone)."""
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        return False
    return subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0


def make(venv):
    """Make or mend the environment; returns the exit code of the step that failed, or 0."""
    wanted = fingerprint(LOCK, "pyproject.toml")
    stamp = os.path.join(venv, STAMP)
    if read_stamp(venv) == wanted and runs(venv):
        os.utime(stamp)
        return 0
    # A stamped environment of the same Python is whole: pip can bring it up to the new lock.
    if not (read_stamp(venv).endswith(wanted.split(" ")[1]) and runs(venv)):
        shutil.rmtree(venv, ignore_errors=True)
    if os.path.exists(stamp):
        os.remove(stamp)
    python = os.path.join(venv, "bin", "python")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    print("lastack: installing the locked packages into %s (once; a few minutes at most)" % venv, flush=True)
    steps = [
        [sys.executable, "-m", "venv", venv] if not os.path.exists(python) else [python, "-c", ""],
        pip + ["--require-hashes", "--progress-bar", "off", "-r", LOCK],
        pip + ["--no-deps", "--no-build-isolation", "--no-index", "-e", "."],
    ]
    for step in steps:
        code = subprocess.call(step)
        if code != 0:
            print("lastack: setting up %s failed at: %s" % (venv, " ".join(step)), file=sys.stderr)
            print("lastack: mend what it says above and run the same command again", file=sys.stderr)
            return code
    with open(stamp + ".new", "w") as file:
        file.write(wanted + "\n")
    os.rename(stamp + ".new", stamp)
    return 0


def main(arguments):
    """Exit code 2 for a Python that is too old, else that of the step that failed."""
    if sys.version_info < OLDEST:
        print(
            "lastack: Python %d.%d or newer is needed, %s is %d.%d; say which to use: make PYTHON=python3.12"
            % (OLDEST[0], OLDEST[1], sys.executable, sys.version_info[0], sys.version_info[1]),
            file=sys.stderr,
        )
        return 2
    return make(arguments[0] if arguments else ".venv")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
