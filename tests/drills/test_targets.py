"""Roles are resolved by what the cluster is when they are due, and stay."""

from dataclasses import dataclass, field

import pytest

from pipelines.brokers.kafka.admin import PartitionState
from pipelines.brokers.kafka.metadata import Metadata
from pipelines.drills import conditions, targets
from pipelines.drills.conditions import FORMS
from pipelines.errors import ConnectionFailed, LabError


@dataclass(eq=False)
class FakeNode:
    node_id: int


@dataclass
class FakeAdmin:
    states: list = field(default_factory=lambda: [PartitionState(0, 2, (2, 3, 1), (2, 3, 1)), PartitionState(1, None, (3, 1), (3,))])

    def partitions(self, topic):
        if topic == "unreachable":
            raise ConnectionFailed("nobody answers")
        return self.states

    def brokers(self):
        return frozenset({1, 3})

    def broker_settings(self, broker):
        return {"broker.rack": f"az{broker}"}


@dataclass
class FakeLab:
    nodes: list = field(default_factory=lambda: [FakeNode(1), FakeNode(2), FakeNode(3)])
    admin: FakeAdmin = field(default_factory=FakeAdmin)

    def node(self, node_id):
        return self.nodes[node_id - 1]

    def leader(self, topic, partition):
        leader = self.admin.states[partition].leader
        return None if leader is None else self.node(leader)

    def partition(self, topic, partition):
        return self.admin.partitions(topic)[partition]

    def metadata(self):
        """What the broker that knows best tells; not what the zombie does."""
        return Metadata("cluster", dict.fromkeys(self.admin.brokers()), {})

    def active_controller(self, timeout=0):
        return self.nodes[2]


@dataclass
class FakeContext:
    lab: FakeLab = field(default_factory=FakeLab)
    roles: dict = field(default_factory=dict)

    def node_of(self, role):
        return self.roles[role][0]


@pytest.fixture
def context():
    return FakeContext()


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ("leader of orders/0", [2]),
        ("a follower of orders/0", [1]),
        ("active controller", [3]),
        ("not the controller", [1]),
        ("every broker", [1, 2, 3]),
        ("node 2", [2]),
        ("rack az3", [3]),
        ("not victim", [1, 3]),
        ("victim", [2]),
    ],
)
def test_a_target_is_who_it_is_now(context, target, ids):
    context.roles["victim"] = [context.lab.nodes[1]]
    assert targets.problem(target, {"victim"}) is None
    assert [node.node_id for node in targets.resolve(context, target)] == ids


def test_nobody_to_hit_is_an_error_and_not_somebody_else(context):
    with pytest.raises(LabError, match="orders/1 has no leader"):
        targets.resolve(context, "leader of orders/1")
    with pytest.raises(LabError, match="no broker is in rack az9; there are az1, az2, az3"):
        targets.resolve(context, "rack az9")


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("isr of orders/0 is victim", False),
        ("isr of orders/1 is last", True),
        ("isr of orders/1 is last, victim", False),
        ("isr of orders/1 lacks victim", True),
        ("isr of orders/0 lacks victim", False),
        ("isr of orders/0 has victim", True),
        ("leader of orders/0 is victim", True),
        ("leader of orders/0 is not victim", False),
        ("leader of orders/0 is not last", True),
        ("leader of orders/1 is not victim", False),
        ("orders/1 has no leader", True),
        ("orders/0 has no leader", False),
        ("victim is fenced", True),
        ("last is fenced", False),
        ("last is back", True),
        ("victim is back", False),
        ("active controller is not victim", True),
        ("active controller is not last", False),
        ("unreachable/0 has no leader", False),
    ],
)
def test_a_condition_is_what_the_cluster_says(context, text, is_so):
    context.roles |= {"victim": [context.lab.nodes[1]], "last": [context.lab.nodes[2]]}
    assert conditions.problem(text, {"victim", "last"}) is None
    assert conditions.holds(context, text) is is_so


def test_every_form_of_a_condition_says_how_it_is_written():
    sample = {"TOPIC": "orders", "ROLE, ..": "victim", "ROLE": "victim", "/P": "/0", "N ": "7 ", " N": " 7"}
    for shown in FORMS:
        text = shown
        for word, value in sample.items():
            text = text.replace(word, value)
        assert conditions.problem(text, {"victim"}) is None, text
