"""A read probe asks for a record that must be there."""

from pipelines.collect.canary.committed import KEPT, THINNED, Committed


def test_the_newest_acknowledged_record_is_asked_for() -> None:
    known = Committed()
    assert known.target() == (b"", None)

    known.acknowledged(b"a", 5)
    known.acknowledged(b"b", 6)
    known.acknowledged(b"c", None)

    assert known.target() == (b"b", 6)


def test_when_it_is_gone_an_older_one_is() -> None:
    known = Committed()
    for position in range(1000):
        known.acknowledged(b"%d" % position, position)

    known.is_gone(999)
    assert known.target() == (b"960", 960)
    known.is_gone(960)
    assert known.target() == (b"896", 896)


def test_that_another_one_is_gone_changes_nothing() -> None:
    known = Committed()
    known.acknowledged(b"a", 5)
    known.is_gone(4)

    assert known.target() == (b"a", 5)


def test_when_all_are_gone_nothing_can_be_asked_for_until_the_next_write() -> None:
    known = Committed()
    for position in range(3):
        known.acknowledged(b"x", position)
    for position in (2, 0):
        known.is_gone(position)

    assert known.target() == (b"", None)
    known.acknowledged(b"y", 9)
    assert known.target() == (b"y", 9)


def test_what_is_kept_is_bounded() -> None:
    known = Committed()
    for position in range(THINNED * KEPT * 2):
        known.acknowledged(b"x", position)

    gone = 0
    while known.target()[1] is not None:
        known.is_gone(known.target()[1])
        gone += 1
    assert gone == KEPT + 1
