"""Two operators at once: what is done holds for the state that it was compared with; the later is refused."""

import pytest

from registry.errors import AliasMoved, GateRefusal
from registry.gates import GateSet, SpreadGate
from registry.releases import promote
from registry.releases.rollout import Share
from tests.thorough import mostly_long

MODEL = "skin-lesion"
TO = {"to": "production"}

# The command, held back before it writes until as many have compared; the guard can be switched off.
COMMAND = """
import sys, time
from pathlib import Path
from registry.cli.app import main
from registry.releases import promote

folder, name, others, guard = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
swap = promote.swap

def held_back(*given):
    (folder / name).touch()
    end = time.time() + 60
    while len(list(folder.iterdir())) < others and time.time() < end:
        time.sleep(0.01)
    return swap(*given)

promote.swap = held_back
promote.probe_model = lambda *given: None  # it takes longest
if guard == "off":
    promote.release_number = lambda release: 0
sys.argv[1:] = sys.argv[5:]
main()
"""


@pytest.fixture
def running(registry, bundle, tested, dark, light):
    """Version 1 for everybody runs as release 1; 2 is for dark, 3 for light, 4 a better one for everybody."""
    figures = tested(light=0.9, dark=0.85)
    registry.add(
        [
            bundle(metrics=figures),
            bundle(dark, tested(dark=0.88)),
            bundle(light, tested(light=0.92)),
            bundle(metrics=figures, seed=1),
        ]
    )
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.2),)), reason="a test")
    registry.promote(MODEL, [1], **TO)
    return registry


def promote_elsewhere(places):
    """Promotes version 2, as another process would."""
    with places.open() as second:
        second.promote(MODEL, [2], **TO)


def answering(registry):
    release = registry.release(MODEL, "production")
    return None if release is None else [one.number for one in release.versions]


@pytest.fixture
def at_once(monkeypatch):
    """Has something done in the midst of a promotion: after it has compared, and before it writes."""

    def then(action):
        swap = promote.swap

        def interrupted(*given):
            monkeypatch.setattr(promote, "swap", swap)
            action()
            return swap(*given)

        monkeypatch.setattr(promote, "swap", interrupted)

    return then


@pytest.mark.both_databases
@pytest.mark.parametrize("guard", mostly_long(["on", "off"], "on"))
def test_of_two_promotions_at_once_one_holds(running, places, start, tmp_path, guard):
    """Two processes compare at once with the release that runs: without the guard their mixture answers."""
    folder = tmp_path / "compared"
    folder.mkdir()
    where = ("--url", places.url, "--store", places.store)
    processes = {
        number: start(
            COMMAND, folder, number, 2, guard, *where, "promote", MODEL, number, "--to", "production"
        )
        for number in (2, 3)
    }
    told = {number: process.communicate(timeout=120) for number, process in processes.items()}
    codes = {number: process.returncode for number, process in processes.items()}
    if guard == "off":
        assert list(codes.values()) == [0, 0], told
        assert answering(running) == [1, 2, 3]
        return
    assert sorted(codes.values()) == [0, 1], told
    (won,), (lost,) = ([number for number, code in codes.items() if code == wanted] for wanted in (0, 1))
    assert answering(running) == [1, won]
    out, error = told[lost]
    assert f"{MODEL}, production: release 2 -> versions 1, 2, 3" in out
    assert error == (
        f"AliasMoved: version {lost} of {MODEL} was not promoted: production of {MODEL} was expected to "
        "point to release 1, and points to release 2 now. Look at what would change there, and do it again "
        "with --expect 2\n"
    )
    assert running.verify() == ()
    assert running.promote(MODEL, [lost], **TO, expect=2) is not None
    assert answering(running) == [1, 2, 3]


def test_whoever_promotes_the_same_at_once_has_nothing_to_do(running, places, at_once):
    at_once(lambda: promote_elsewhere(places))
    assert running.promote(MODEL, [2], **TO) is None
    assert answering(running) == [1, 2]


def test_while_a_model_is_tried_out_the_alias_may_not_move_either(running, places, monkeypatch):
    """A promotion begins before its versions are probed, which takes long."""
    probe = promote.probe_model

    def slow(*given):
        monkeypatch.setattr(promote, "probe_model", probe)
        promote_elsewhere(places)
        probe(*given)

    monkeypatch.setattr(promote, "probe_model", slow)
    with pytest.raises(AliasMoved):
        running.promote(MODEL, [3], **TO)
    assert answering(running) == [1, 2]


def test_a_canary_is_of_the_release_that_was_compared(running, places, at_once):
    at_once(lambda: promote_elsewhere(places))
    with pytest.raises(AliasMoved):
        running.promote(MODEL, [3], **TO, share=Share(0.1))
    assert running.canaries(MODEL) == {}


def test_a_rollback_of_a_release_that_was_replaced_meanwhile_is_refused(running):
    """One goes back from release 2 while another promotes over it: before that is the bad one again."""
    running.promote(MODEL, [2], **TO)
    running.promote(MODEL, [3], **TO)
    with pytest.raises(AliasMoved, match=r"expected to point to release 2, and points to release 3 now"):
        running.rollback(MODEL, alias="production", reason="complaints about version 2", expect=2)
    assert answering(running) == [1, 2, 3]
    running.rollback(MODEL, alias="production", reason="complaints about version 3", expect=3)
    assert answering(running) == [1, 2]


def test_gates_that_refuse_what_would_result_now_say_so_too(running, places, at_once):
    def other():
        with places.open() as second:
            second.set_gates(GateSet(gates=(SpreadGate(limit=0.01),)), reason="at once")

    at_once(other)
    with pytest.raises(GateRefusal):
        running.promote(MODEL, [2], **TO)
    assert answering(running) == [1]
