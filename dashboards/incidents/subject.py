"""Which incident is the page about, and which of its rows are outages of the service?

The rule: what one prober alone was not served is no outage of the service, and the controller's own outage is not a partition's. Both
are shown, in places of their own, and neither is in a figure of the service.

Example: of 19 outages of partitions, 1 of the controller and 4 that canary-2 saw alone, the figures of the service are made of 19.
"""

from collections.abc import Sequence

from dashboards import data
from dashboards.panels import Request
from pipelines.serving import Row

FIGURES: Row = dict.fromkeys(("outages", "partitions", "partitions_probed", "outages_alone", "probers_alone", "controller_outages"), 0)


def incident(request: Request) -> Row:
    """The incident that the address names; the page is absent without it."""
    row = request.snapshot.row("incident", incident_id=request.path.get("incident_id", ""))
    return row if row is not None else {}


def settled(request: Request) -> str | None:
    """A panel of an incident that is over depends on the tables alone; while it goes on, on what probers say."""
    row = incident(request)
    return None if not row or row["is_open"] else "over"


def figures(request: Request) -> Row:
    """How many outages and partitions, told apart by whose they are."""
    return request.snapshot.row("incident_figures", incident_id=incident(request)["incident_id"]) or FIGURES


def outages(request: Request) -> list[Row]:
    """The outages of the service that partitions had, with what a live file knows better."""
    return [row for row in everything(request) if is_of_service(row)]


def everything(request: Request) -> tuple[Row, ...]:
    """Every outage of the incident: of the service, of probers alone, of the controller."""
    return data.incident_outages(request.snapshot, incident(request)["incident_id"])


def is_of_service(row: Row) -> bool:
    """Whether an outage is one of a partition's service, and not of a prober alone or of the controller."""
    return bool(row["kind"] != "controller" and row["cause"] != "prober_alone")


def alone(rows: Sequence[Row]) -> list[Row]:
    """The outages that one prober alone saw."""
    return [row for row in rows if row["cause"] == "prober_alone"]
