"""What does an incident look like? Pure functions from rows of a dataset to figures: no I/O, no clock, no page.

Shared rules. The x axis is seconds after the incident's zero, the earliest instant at which it can have begun; hovering gives UTC.
What is certain is solid. Where only bounds are known the bar is striped: the truth is in there, and nowhere does a figure pick a
point. A phase that does not apply is not drawn at all. An outage that is open ends in an arrow. Text from clusters is escaped:
plotly reads a subset of HTML.

Example: an outage with start in [0.00, 0.10] s and end in [9.05, 9.20] s is striped to 0.10, solid to 9.05, striped to 9.20.
"""

from dashboards.figures.phases import waterfall
from dashboards.figures.replication import replication_timeline
from dashboards.figures.rto import MAX_ROWS, partitions_timeline, rto_by_kind

__all__ = ["MAX_ROWS", "partitions_timeline", "replication_timeline", "rto_by_kind", "waterfall"]
