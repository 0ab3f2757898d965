"""What is claimed of a drill, and does it hold? One line a claim: what was expected, what was found.

Example: Claim("rto of the witness", "no acknowledgement while certainly down", "none of 5,102", True).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about a run."""

    name: str
    expected: str
    found: str
    holds: bool

    @property
    def line(self) -> str:
        """The claim as one line for people."""
        return f"{'ok  ' if self.holds else 'FAIL'} {self.name}: expected {self.expected}; found {self.found}"


def claim(name: str, expected: str, wrong: list[str], otherwise: str) -> Claim:
    """A claim that holds where nothing is wrong; `otherwise` says what was looked at."""
    if not wrong:
        return Claim(name, expected, otherwise, True)
    more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
    return Claim(name, expected, "; ".join(wrong[:3]) + more, False)
