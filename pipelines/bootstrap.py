"""How does the virtual environment come about? From `requirements.lock`, hash by hash, once.

Run by `make` with the system's own Python before anything is installed. So it imports the standard library only, and keeps to
what an old Python 3 can read: it must be able to say that it is too old.

The rule: `.venv/.made-from-lock` is written last and says what the environment was made from: the place, the Python, the lock.
One that says the same is used as it is, one of another lock is brought up to this one, any other (a half-made one, too) is
made anew.

Example: `python3 pipelines/bootstrap.py .venv` on a fresh clone installs about 90 packages in a minute; run again, it prints
nothing and takes 0.1 s.
"""

import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
STAMP = ".made-from-lock"
LOCK = "requirements.lock"


def fingerprint(venv: str) -> "list[str]":
    """What an environment made now, here, would be made from: the place and the Python; the lock."""
    # A checkout that was moved has scripts and an editable install that point to the old place.
    base = f"{os.path.realpath(venv)} {sys.version_info[0]}.{sys.version_info[1]}"
    with open(LOCK, "rb") as file:
        return [base, hashlib.sha256(file.read()).hexdigest()]


def read_stamp(venv: str) -> "list[str]":
    """What the environment was made from; nothing when it is half made, or when its Python no longer starts."""
    path = os.path.join(venv, STAMP)
    if not os.path.exists(path) or not starts(os.path.join(venv, "bin", "python")):
        return []
    with open(path) as file:
        return file.read().splitlines()


def starts(python: str) -> bool:
    """Whether that Python runs; an environment's does not when its base was removed."""
    return os.path.exists(python) and subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL) == 0


def make(venv: str) -> int:
    """Makes or updates the environment; returns the exit code of the step that failed, or 0."""
    wanted, stamp, path = fingerprint(venv), read_stamp(venv), os.path.join(venv, STAMP)
    if stamp == wanted:
        return 0
    print(f"lastack: installing the locked packages into {venv} (a minute or two, once)", flush=True)
    python = os.path.join(venv, "bin", "python")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--progress-bar", "off"]
    steps = [
        [*pip, "--require-hashes", "-r", LOCK],
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", "."],
    ]
    if stamp[:1] == wanted[:1]:
        os.remove(path)  # whole, but of another lock: pip brings it up to this one
    else:
        shutil.rmtree(venv, ignore_errors=True)
        steps.insert(0, [sys.executable, "-m", "venv", venv])
    for step in steps:
        code = subprocess.call(step)
        if code != 0:
            print(f"lastack: could not set up {venv}: `{' '.join(step)}` failed; mend it and run make again", file=sys.stderr)
            return code
    with open(path + ".new", "w") as file:
        file.write("\n".join(wanted) + "\n")
    os.replace(path + ".new", path)
    return 0


def main(arguments: "list[str]") -> int:
    """Exit code 2 for a Python that is too old, else that of the step that failed, else 0."""
    if sys.version_info < OLDEST:
        found = f"{sys.version_info[0]}.{sys.version_info[1]}"
        print(
            f"lastack: needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and {sys.executable} is {found};"
            " install one and name it: make PYTHON=python3.12",
            file=sys.stderr,
        )
        return 2
    return make(arguments[0] if arguments else ".venv")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
