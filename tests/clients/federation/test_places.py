"""Which of two nodes with one kit is let in, and how their places are told apart."""

import json
import shutil

import pytest

from clients.federation.federation_file import Federation
from clients.federation.kit import Kit, KitFacts
from clients.federation.news import News
from clients.federation.place import FILE, place_of
from clients.federation.places import ASKED, RETURNS, SILENT, TURN, Places

HERE, THERE = "here", "there"


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def started(tmp_path, clock):
    """`started()`: the coordinator's places, as it finds them at its start."""
    return lambda: Places(tmp_path / "places.json", clock=lambda: clock[0])


@pytest.fixture
def places(started, clock):
    """North is there, from `HERE`."""
    made = started()
    clock[0] += 2 * RETURNS
    assert made.ask("north", HERE, None) == ""
    assert made.register("north", None) == ""
    return made


def test_while_one_is_there_another_is_kept_out_and_the_one_may_come_again(places):
    assert "another node of north was heard 4 seconds ago" in places.ask("north", THERE, 4.2)
    assert places.ask("north", HERE, 4.2) == "", "it was killed and started again"
    assert places.register("north", 5) == ""
    assert places.ask("south", THERE, None) == "", "another hospital"


def test_one_that_is_silent_or_has_gone_is_followed_by_another(places):
    assert places.ask("north", THERE, SILENT - 1) != ""
    assert places.ask("north", THERE, SILENT) == ""
    assert places.register("north", SILENT + 1) == ""
    assert places.ask("north", HERE, 3) != "", "now it is the other's"


def test_one_that_has_left_leaves_its_name_at_once(places):
    assert places.ask("north", THERE, None) == ""


def test_after_the_coordinators_own_start_nodes_get_time_to_be_heard_of(places, started, clock):
    again = started()
    assert "may come back yet" in again.ask("north", THERE, None)
    assert again.ask("north", HERE, None) == ""
    other = started()
    clock[0] += RETURNS
    assert other.ask("north", THERE, None) == ""


def test_two_that_come_at_once_come_one_after_the_other(started, clock):
    made = started()
    clock[0] += RETURNS
    assert made.ask("north", HERE, None) == ""
    assert "is just coming in" in made.ask("north", THERE, None)
    assert made.register("north", None) == ""
    assert made.ask("north", THERE, 1) != ""


def test_one_that_asked_and_never_came_stands_in_nobodys_way_for_long(started, clock):
    made = started()
    clock[0] += RETURNS
    assert made.ask("north", HERE, None) == ""
    clock[0] += ASKED
    assert made.ask("north", THERE, None) == ""


@pytest.mark.parametrize("changes", [False, True])
def test_who_only_asks_keeps_the_one_that_was_there_out_for_minutes_and_not_for_good(places, clock, changes):
    """A thief with the kit asks every minute while the hospital's node is stopped, and never comes."""
    out = []
    for minute in range(20):
        out.append(places.ask("north", f"{THERE} {minute * changes}", None))
        clock[0] += 1
        if places.ask("north", HERE, None) == "":
            break
        clock[0] += 59
    assert minute <= ASKED // 60
    assert "has its turn" in out[-1]
    assert places.register("north", None) == ""
    assert "was heard" in places.ask("north", THERE, 2)


def test_without_the_others_turn_it_does(places, clock, monkeypatch):
    """The control."""
    monkeypatch.setattr("clients.federation.places.TURN", 0.0)
    for minute in range(60):
        places.ask("north", f"{THERE} {minute}", None)
        clock[0] += 1
        assert places.ask("north", HERE, None) != ""
        clock[0] += 59


def test_one_that_asked_and_came_late_may_ask_again_after_the_others_turn(places, clock):
    assert places.ask("north", THERE, None) == ""
    clock[0] += ASKED
    assert "has its turn" in places.ask("north", THERE, None)
    clock[0] += TURN
    assert places.ask("north", THERE, None) == ""
    assert places.register("north", None) == ""


def test_a_thief_that_copies_the_number_too_is_taken_for_the_node_itself(places):
    """What is left: nothing tells the two apart. Disabling the name does."""
    assert places.ask("north", HERE, 4) == ""


def test_one_that_does_not_ask_is_taken_as_ever_unless_another_is_known_to_be_there(places, started):
    assert "has not asked" in places.register("north", 4)
    assert places.register("north", SILENT) == "", "the other has gone"
    assert places.ask("north", HERE, 2) == "", "whose place nobody knows"
    assert started().register("west", 4) == ""


@pytest.mark.parametrize("text", ["", "[1]", '{"north": 1}'])
def test_a_file_that_cannot_be_read_keeps_nobody_out(tmp_path, text):
    (tmp_path / "places.json").write_text(text)
    assert Places(tmp_path / "places.json").ask("north", THERE, 4) == ""


@pytest.fixture
def kit_at(tmp_path):
    """`kit_at(name)`: the kit in this folder, as far as its place goes."""

    def build(name):
        federation = {"name": "skin", "coordinator": {"host": "x"}, "hospitals": [{"name": "north"}]}
        facts = KitFacts(role="hospital", name="north", identity="north", organisation="o")
        (tmp_path / name / "private").mkdir(parents=True, exist_ok=True)
        return Kit(tmp_path / name, facts, Federation.model_validate(federation))

    return build


def test_a_kit_that_is_copied_has_another_place_and_its_original_the_same(kit_at, tmp_path):
    machine = tmp_path / "machine-id"
    first = place_of(kit_at("a"), machine)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert place_of(kit_at("a"), machine) == first
    second = place_of(kit_at("b"), machine)
    assert second != first
    assert place_of(kit_at("b"), machine) == second
    machine.write_text("another machine, the same folder\n")
    assert place_of(kit_at("a"), machine) not in (first, second)


def test_a_place_is_drawn_and_made_of_nothing_that_is_here(kit_at, tmp_path):
    kit = kit_at("a")
    place = place_of(kit)
    assert (kit.private / FILE).stat().st_mode & 0o077 == 0
    (kit.private / FILE).write_text("{")
    assert place_of(kit) != place, "the same machine and folder"
    assert len(place) == len(place_of(kit)) == 16


def test_news_are_what_came_since(tmp_path):
    path = tmp_path / "news.jsonl"
    News(path).add("before")
    reader, writer = News(path), News(path)
    assert reader.new() == []
    writer.add("one")
    writer.add("two\nlines")
    with path.open("a") as file:
        file.write(json.dumps("half")[:3])
    assert reader.new() == ["one", "two\nlines"]
    assert reader.new() == []
    assert News(tmp_path / "none.jsonl").new() == []
