"""How is a derived thing named for good, so that the record and the fast lane speak of the same?

A name is a hash of what identifies the thing; it does not change when later evidence moves the thing's bounds.
"""

import hashlib

from pipelines.domain.facts import Stream
from pipelines.domain.unavailability import Outage


def identity(*parts: object) -> str:
    """A short stable name made of the parts that identify a row."""
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=12).hexdigest()


def outage_id(cluster_id: str, stream: Stream, outage: Outage) -> str:
    """Names an outage: the stream and the issue of its first bad probe."""
    names = (stream.resource, stream.shard, stream.kind, stream.lane, stream.prober_id)
    return identity(cluster_id, *names, outage.first_bad_issued_us)
