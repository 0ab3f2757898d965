"""Which controller is asked next."""

from pipelines.brokers.kafka.connection import Address
from pipelines.brokers.kafka.turns import UNREACHED_SECONDS, Turns

A, B, C = (Address("127.0.0.1", port) for port in (1, 2, 3))


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_after_the_other_is_asked_and_all_again() -> None:
    turns = Turns((A, B, C))
    asked = []
    for _ in range(6):
        asked.append(turns.current)
        turns.ask_another(None, is_unreached=False)

    assert asked == [A, B, C, A, B, C]


def test_the_leader_that_is_named_comes_next() -> None:
    turns = Turns((A, B, C))
    turns.ask_another(C, is_unreached=False)

    assert turns.current == C


def test_a_leader_that_is_named_by_an_address_that_is_no_good_from_here_is_not_asked_in_a_circle() -> None:
    named_elsewhere = Address("10.0.0.9", 9093)
    turns = Turns((A, B), Clock())
    turns.learn(named_elsewhere)
    turns.ask_another(named_elsewhere, is_unreached=False)
    turns.ask_another(None, is_unreached=True)
    first = turns.current
    turns.ask_another(named_elsewhere, is_unreached=False)

    assert {first, turns.current} == {A, B}


def test_a_leader_that_was_slow_to_answer_once_is_asked_again_although_the_rest_is_dead() -> None:
    clock = Clock()
    turns = Turns((A, B, C), clock)
    turns.ask_another(A, is_unreached=False)
    turns.ask_another(None, is_unreached=True)  # A has just been elected, and does not answer in time
    turns.ask_another(None, is_unreached=True)  # B is dead
    assert turns.current == C
    turns.ask_another(A, is_unreached=False)
    assert turns.current == C, "nobody else is left for now"
    clock.now = UNREACHED_SECONDS
    turns.ask_another(A, is_unreached=False)

    assert turns.current == A


def test_when_nobody_can_be_reached_everybody_is_tried_again() -> None:
    turns = Turns((A, B), Clock())
    turns.ask_another(None, is_unreached=True)
    turns.ask_another(None, is_unreached=True)
    asked = {turns.current}
    turns.ask_another(None, is_unreached=True)

    assert asked | {turns.current} == {A, B}


def test_an_answer_clears_what_failed_before_it() -> None:
    turns = Turns((A, B, C), Clock())
    turns.ask_another(None, is_unreached=True)
    turns.answered()
    turns.ask_another(A, is_unreached=False)

    assert turns.current == A
