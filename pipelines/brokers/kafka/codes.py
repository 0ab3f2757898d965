"""What does a failed Kafka request mean for a probe?

The rule, code by code, by what the broker had done when it said so:

- REJECTED: refused before the append, so the record is not in the log (for reads: nothing was served);
- UNKNOWN: it failed, and the record may be in the log, or may get there;
- VOID: our own failure; it says nothing about whether the partition is served.

A code that is not listed is UNKNOWN: a newer Kafka may refuse in ways that this list does not know, and "may have been done"
is the statement that is never wrong. For a read, which leaves nothing behind, every failure but our own is REJECTED.

Example: `NOT_ENOUGH_REPLICAS` is REJECTED (checked before the append), `NOT_ENOUGH_REPLICAS_AFTER_APPEND` is UNKNOWN.
"""

from pipelines.brokers.kafka.wire import NoAnswer, NotLetIn, NotSupported, WireError
from pipelines.domain.observations import Outcome

REFUSED_BEFORE_APPEND = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER",  # asked a follower, or a leader that was just deposed
        "LEADER_NOT_AVAILABLE",  # there is no leader at the moment
        "FENCED_LEADER_EPOCH",  # our view is older than the broker's
        "UNKNOWN_LEADER_EPOCH",  # our view is newer than the broker's
        "UNKNOWN_TOPIC_OR_PARTITION",  # the broker does not have it: deleted, or not told of yet
        "UNKNOWN_TOPIC_ID",  # the same, by id
        "BROKER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",  # acks=all and fewer in-sync replicas than min.insync.replicas
        "OFFSET_NOT_AVAILABLE",  # a new leader does not know yet how far records are committed
        "OFFSET_OUT_OF_RANGE",  # the record that was acknowledged is not there
    }
)
MAYBE_APPENDED = frozenset(
    {
        "REQUEST_TIMED_OUT",  # appended here; the in-sync replicas did not confirm in time
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",  # as it says
        "KAFKA_STORAGE_ERROR",  # the disk failed, possibly in the middle
        "NETWORK_EXCEPTION",
        "UNKNOWN_SERVER_ERROR",
    }
)
OUR_OWN = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "AUTHENTICATION_FAILED",
        "ILLEGAL_SASL_STATE",
        "UNSUPPORTED_SASL_MECHANISM",
        "SECURITY_DISABLED",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_REQUIRED_ACKS",
        "INVALID_TIMESTAMP",
        "INVALID_RECORD",  # a rule of the topic, e.g. compaction wants keys
        "INVALID_REQUEST",
        "CORRUPT_MESSAGE",  # the checksum of what we sent does not fit
        "UNSUPPORTED_VERSION",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "POLICY_VIOLATION",
        "THROTTLING_QUOTA_EXCEEDED",
    }
)

THROTTLED = "THROTTLED"
"""The code of a probe that failed while the broker held our connection back for a quota."""


def of_write(code: str) -> Outcome:
    """Of a write that a broker answered with this error (its name)."""
    if code in OUR_OWN:
        return Outcome.VOID
    return Outcome.REJECTED if code in REFUSED_BEFORE_APPEND else Outcome.UNKNOWN


def of_read(code: str) -> Outcome:
    """Of a read that a broker answered with this error. A checksum that does not fit is the broker's there."""
    return Outcome.VOID if code in OUR_OWN and code != "CORRUPT_MESSAGE" else Outcome.REJECTED


def of_no_connection(error: WireError) -> Outcome:
    """Of a probe that could not be sent: nobody listens, no route, or we were not let in. TLS that fails is the service's
    failure as much as ours (an expired certificate), wrong credentials are our own."""
    if isinstance(error, NotSupported) or (isinstance(error, NotLetIn) and error.code != "TLS_FAILED"):
        return Outcome.VOID
    return Outcome.REJECTED


def is_refusal(error: WireError) -> bool:
    """Whether an attempt to connect was refused or cut, and did not only meet silence."""
    return not isinstance(error, NoAnswer)
