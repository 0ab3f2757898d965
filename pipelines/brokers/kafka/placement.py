"""Which brokers should lead, and which should follow, so that the canary sees every way to fail?

The rule: a write with acks=all waits for the leader and its followers, so what can fail alike is a *leader-follower set*: a leader and
the set of its followers. The canary's topics get one partition for each such set that Kafka itself could make (replicas on different
racks, where there are enough racks), and never less than one for each leader. Where there are more sets than `partitions_max`, each
leader gets its fair share of them, nearest neighbours first.

Examples: 3 brokers, 3 replicas: 3 sets, 3 partitions. 6 brokers on 3 racks, 3 replicas: 6 * 2 * 2 = 24. 6 brokers without racks: 60.
100 brokers: 100 partitions when `partitions_max` is 64, since every broker must lead one.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

Assignment = list[int]
"""The replicas of a partition, the preferred leader first."""


def placement(racks: Mapping[int, str | None], replicas: int, partitions_max: int) -> list[Assignment]:
    """The replicas of each partition, for brokers given with their racks. The leaders take turns."""
    brokers = sorted(racks)
    followers = min(replicas, len(brokers)) - 1
    share = max(1, partitions_max // max(1, len(brokers)))
    by_leader = [list(itertools.islice(_sets(leader, brokers, racks, followers), share)) for leader in brokers]
    return [one for turn in itertools.zip_longest(*by_leader) for one in turn if one is not None]


def uncovered(assignments: Sequence[Sequence[int]], racks: Mapping[int, str | None], replicas: int) -> list[Assignment]:
    """For each broker that is the preferred leader of no partition, the replicas of one that it would lead."""
    led = {one[0] for one in assignments if one}
    return [one for one in placement(racks, replicas, partitions_max=1) if one[0] not in led]


def _sets(leader: int, brokers: list[int], racks: Mapping[int, str | None], followers: int) -> Iterator[Assignment]:
    at = brokers.index(leader)
    others = brokers[at + 1 :] + brokers[:at]
    has_racks = None not in racks.values() and len(set(racks.values())) > followers
    for chosen in itertools.combinations(others, followers):
        one = [leader, *chosen]
        if not has_racks or len({racks[broker] for broker in one}) == len(one):
            yield one
