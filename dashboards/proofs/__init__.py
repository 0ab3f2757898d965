"""Which rows prove this figure? A proof: the formula with its numbers filled in, the rows that they come from, the lines below.

One mechanism for every figure of every page: a figure is a link to `/proof/<what>/<name>` (`components.proof`), `what` is looked up in
the table of `dashboards.proofs.book`, and its function makes a `Proof` of rows that were read through serving. Nothing is computed that
the tables do not say; where the arithmetic of a formula does not give the row's figure, the step says so.

Example: `/proof/outage/5f02` shows "RTO max = r(T) - i(S) = 12:00:09.103 - 12:00:00.000 = 9103 ms", the row of silver.outage_windows,
and the four lines of bronze that S, B1, Bn and T are in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.serving import Row


@dataclass(frozen=True, slots=True)
class Step:
    """A formula: what it gives, in names, in numbers, and the result."""

    name: str
    formula: str
    numbers: str
    result: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of a table, the columns that matter; `source` says where anybody finds them."""

    title: str
    source: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """One row of a table with all its columns."""

    table: str
    name: str
    row: Row


@dataclass(frozen=True, slots=True)
class Proof:
    """What a figure is made of, from the formula down to the lines that were landed."""

    title: str
    value: str
    about: str
    incident_id: str | None = None
    steps: Sequence[Step] = ()
    wholes: Sequence[Whole] = ()
    listings: Sequence[Listing] = field(default_factory=tuple)
