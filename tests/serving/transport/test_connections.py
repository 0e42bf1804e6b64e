from dataclasses import dataclass

import pytest

from serving.transport.connections import Connections, Phase, peer_of


@dataclass(eq=False)
class Line:
    """A connection that does nothing."""

    peer: str = "192.0.2.1"
    phase: Phase = Phase.HEAD
    unread: bool = False
    aborted: bool = False

    def has_unread(self):
        return self.unread

    def abort(self):
        self.aborted = True


def full(*lines, most=None):
    table = Connections(len(lines) if most is None else most)
    for line in lines:
        assert table.admit(line, 0.0)
    return table


def test_the_oldest_on_which_nothing_was_asked_makes_room():
    old, young, kept = Line(), Line(), Line()
    table = full(kept, old, young)
    table.move(kept, Phase.IDLE)
    assert table.admit(Line(), 1.0)
    assert [line.aborted for line in (kept, old, young)] == [False, True, False]
    assert len(table) == 3


def test_the_address_that_holds_most_makes_room_for_others():
    mine = Line("192.0.2.9")
    theirs = [Line("192.0.2.1", Phase.IDLE) for _ in range(3)]
    table = full(mine, *theirs)
    assert table.admit(Line("192.0.2.1"), 1.0)
    assert not mine.aborted
    assert [line.aborted for line in theirs] == [True, False, False]


def test_what_has_come_and_was_not_read_is_spared_where_another_can_go():
    first, second = Line(unread=True), Line()
    table = full(first, second)
    assert table.admit(Line(unread=True), 1.0)
    assert (first.aborted, second.aborted) == (False, True)
    assert table.admit(Line(), 1.0)  # all have unread bytes now: the oldest goes
    assert first.aborted


def test_who_is_answered_stays_and_another_is_refused():
    line = Line()
    table = full(line)
    table.move(line, Phase.ANSWERING)
    assert not table.admit(Line(), 1.0)
    assert not line.aborted
    table.move(line, Phase.IDLE)
    assert table.admit(Line(), 2.0)
    assert line.aborted


def test_whoever_is_gone_leaves_nothing():
    lines = [Line(f"192.0.2.{number}") for number in range(5)]
    table = full(*lines)
    for line in lines:
        table.move(line, Phase.ANSWERING)
        table.move(line, Phase.IDLE)
        table.forget(line)
        table.move(line, Phase.CLOSING)  # told late
    assert len(table) == 0
    assert not table._waiting


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_callers_are_counted_by_what_one_of_them_has(one, other, same):
    assert (peer_of(one) == peer_of(other)) is same
