"""What kinds of figures are there, and who proves them? The one table; a new kind of figure is a new line in it."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from dashboards.proofs import Proof, availability, data, exposure, incident, now, outage
from pipelines.serving import Snapshot

PROOFS: Mapping[str, Callable[[Snapshot, Sequence[str]], Proof | None]] = {
    "outage": outage.outage,
    "agreed": outage.agreed,
    "worst": incident.worst,
    "partitions": incident.partitions,
    "service": incident.service,
    "isr": incident.isr,
    "losses": data.losses,
    "loss": data.loss,
    "finding": incident.finding,
    "views": incident.views,
    "alone": incident.alone,
    "exposure": exposure.exposure,
    "exposed": exposure.exposed,
    "availability": availability.availability,
    "measured": availability.measured,
    "live": now.live,
    "findings": now.findings,
    "quarantine": now.quarantine,
}
"""The first word of a proof's address, and the function that makes it from the words that follow."""


def proof_of(snapshot: Snapshot, address: str) -> Proof | None:
    """The proof at an address, `<what>/<name>/...`; None where there is no such figure."""
    what, *names = (unquote(part) for part in address.split("/"))
    make = PROOFS.get(what)
    return make(snapshot, names) if make is not None and names and all(names) else None
