"""Which errors are ours, and what does the command line do with them?

The rule: what a person can mend is a `LastackError`. The command line prints its message as one line and exits
with its `exit_code`; anything else is a bug and keeps its stack trace. A message names what failed, which object,
what was expected, and what to do next.

Example: `UsageError("--for: '2 minutes' is not a duration; write 90s, 2m or 1h")` prints that line on stderr and
exits with 2.
"""


class LastackError(Exception):
    """The root of the tree: something failed that is not a bug of ours."""

    exit_code = 1


class UsageError(LastackError):
    """The command, a setting or the machine is not as needed; the user can mend it."""

    exit_code = 2


class ConnectionFailed(UsageError):
    """The named system cannot be reached at the given address."""


class Unauthorised(UsageError):
    """The named system was reached and refuses us."""


class RetryableError(LastackError):
    """It failed now and may work later: the caller keeps what it has and tries again."""


class SpoolError(LastackError):
    """The spool cannot take or give lines (a full disk, a damaged segment)."""


class LakehouseError(LastackError):
    """A table is missing, is not as its DDL says, or could not be written."""


class DownloadError(LastackError):
    """A pinned file could not be fetched, or is not the one that was pinned."""


class LabError(LastackError):
    """A broker of the lab did not start, stop or answer as asked."""


class TimedOut(LastackError):
    """A condition that was waited for did not come true within its limit."""


class ProcessFailed(LastackError):
    """A process of ours could not be started, or ended when it should not have."""


class DamagedFile(LastackError):
    """A small file that another process of ours replaces whole is not as that process writes it."""


class BrokerRefused(LastackError):
    """A broker answered and said no, and asking again would not help."""


class DrillFailed(LastackError):
    """A drill ran, and what was measured is not what it should be."""
