"""How long is `1h30m`? Durations as people write them.

Example: `seconds("--for", "2m") == 120.0`; `seconds("--for", "2 minutes")` is a UsageError that says what to write.
"""

import math
import re

from pipelines.errors import UsageError

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
SHOWN = 40
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def seconds(option: str, text: str, least: float = 0.0, most: float = math.inf) -> float:
    """The seconds of a duration such as 500ms, 90s, 2m or 1h30m. Raises UsageError that names the option."""
    word = text.strip().lower()
    total = sum(float(number) * UNITS[unit] for number, unit in _PART.findall(word))
    if not word or _PART.sub("", word) or total == math.inf or (total == 0 and least == 0):
        said = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        raise UsageError(f"{option}: {said!r} is not a duration; write a number with ms, s, m, h or d, such as 90s, 2m or 1h30m")
    if total < least:
        raise UsageError(f"{option}: {text!r} is too short; at least {least:g} s are needed")
    if total > most:
        raise UsageError(f"{option}: {text!r} is too long; at most {most:g} s are possible")
    return total
