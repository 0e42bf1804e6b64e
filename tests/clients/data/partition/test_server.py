import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clients.data.errors import PartitionError, SplitError
from clients.data.manifest import Row
from clients.data.partition_roles import ELSEWHERE, draw_server, refuse_idle_server
from training.data.dataset import SPLITS
from training.data.settings import ServerConfig

TRAIN, VALIDATION = SPLITS.index("train"), SPLITS.index("validation")


def drawn(
    share: float,
    train: float,
    rows: list[Row],
    component_ids: list[int] | None = None,
    declared_holders: list[str] | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    places = declared_holders or ["0"] * len(rows)
    return draw_server(
        ServerConfig(share=share, train=train),
        rows,
        np.array(range(len(rows)) if component_ids is None else component_ids, dtype=np.int64),
        [(home, "", row.label) for home, row in zip(places, rows, strict=True)],
        seed=seed,
    )


def lesions(count: int, label: str = "NV", first: int = 0) -> list[Row]:
    return [Row(f"{n}.jpg", label, lesion_id=f"L{n}") for n in range(first, first + count)]


def order(rows: list[Row], seed: int = 0) -> list[int]:
    """The rows in the order of SHA-256 of (seed, purpose, lesion)."""
    keys = [hashlib.sha256(f"{seed}/server/lesion {row.lesion_id}".encode()).hexdigest() for row in rows]
    return sorted(range(len(rows)), key=keys.__getitem__)


def test_a_quarter_of_eight_lesions_by_hand():
    # s = 1/4: at the second lesion the server and the client both lack 1/2, and the server is first. The next
    # time is four lesions later. Half of the server's two are for training: the first.
    rows = lesions(8)
    places = order(rows)
    found = drawn(0.25, 0.5, rows)
    assert found[places[1]] == TRAIN
    assert found[places[5]] == VALIDATION
    assert (found == ELSEWHERE).sum() == 6


def test_each_client_gives_its_share_and_each_class_in_it():
    rows = [
        Row(f"{n}.jpg", "MEL" if n % 4 == 0 else "NV", lesion_id=f"L{n}") for n in range(600)
    ]  # fmt: skip
    declared_holders = ["a" if n < 400 else "b" for n in range(600)]
    found = drawn(0.1, 0.8, rows, declared_holders=declared_holders)
    for home, pictures in (("a", 400), ("b", 200)):
        mine = np.array([place == home for place in declared_holders])
        melanoma = np.array([row.label == "MEL" for row in rows])
        assert (found[mine] != ELSEWHERE).sum() == pictures / 10
        assert (found[mine & melanoma] != ELSEWHERE).sum() == pictures / 40
        assert abs((found[mine] == TRAIN).sum() - 0.08 * pictures) <= 1
    assert ((found == TRAIN).sum(), (found == VALIDATION).sum()) == (48, 12)


def test_what_the_server_has_of_a_client_does_not_depend_on_the_others_nor_on_what_it_trains_on():
    rows = [*lesions(50), *lesions(30, "MEL", 50)]
    declared_holders = ["a"] * 50 + ["b"] * 30
    together = drawn(0.3, 0.5, rows, declared_holders=declared_holders) != ELSEWHERE
    assert (together[50:] == (drawn(0.3, 0.9, rows[50:]) != ELSEWHERE)).all()
    for train in (0.0, 1.0):
        found = drawn(0.3, train, rows, declared_holders=declared_holders)
        assert (together == (found != ELSEWHERE)).all()
        assert set(found[together].tolist()) == {TRAIN if train else VALIDATION}


def test_another_seed_draws_others():
    assert len({tuple(drawn(0.3, 1, lesions(30), seed=seed).tolist()) for seed in range(5)}) == 5


def test_a_component_goes_whole_and_given_splits_stand():
    split = {0: "test", 1: "calibration", 2: "train", 3: "validation", 4: ""}
    rows = [Row(f"{n}.jpg", "NV", lesion_id=f"L{n // 2}", split=split[n // 2 % 5]) for n in range(200)]
    found = drawn(0.5, 0.5, rows, component_ids=[n // 2 for n in range(200)])
    there = found != ELSEWHERE
    assert there.sum() == 100
    for n in range(0, 200, 2):
        assert found[n] == found[n + 1]
    kinds = np.array([n // 2 % 5 for n in range(200)])
    assert not there[kinds <= 1].any()
    assert set(found[(kinds == 2) & there].tolist()) == {TRAIN}
    assert set(found[(kinds == 3) & there].tolist()) == {VALIDATION}
    assert set(found[(kinds == 4) & there].tolist()) == {TRAIN, VALIDATION}


def test_a_component_with_two_given_splits_is_refused():
    rows = [Row("a.jpg", "NV", split="train"), Row("b.jpg", "NV", split="test")]
    with pytest.raises(SplitError, match="both sides of a split"):
        drawn(0.5, 0.5, rows, component_ids=[0, 0])


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab"), st.sampled_from("AAB")), min_size=1),
    st.floats(0.01, 0.99),
    st.floats(0, 1),
    st.integers(0, 3),
)
def test_shares_are_kept_to_a_component_whatever_the_order_of_rows(components, share, train, seed):
    component_ids = [number for number, (size, _, _) in enumerate(components) for _ in range(size)]
    declared_holders = [components[number][1] for number in component_ids]
    rows = [Row(f"{n}.jpg", components[c][2], lesion_id=f"L{c}") for n, c in enumerate(component_ids)]
    found = drawn(share, train, rows, component_ids, declared_holders, seed)
    largest = max(size for size, _, _ in components)
    for home in set(declared_holders):
        mine = np.array([place == home for place in declared_holders])
        assert abs((found[mine] != ELSEWHERE).sum() - share * mine.sum()) <= largest
    there = (found != ELSEWHERE).sum()
    assert abs((found == TRAIN).sum() - train * there) <= largest
    places = list(range(len(rows)))
    random.Random(seed).shuffle(places)
    moved = (
        [rows[n] for n in places],
        [component_ids[n] for n in places],
        [declared_holders[n] for n in places],
    )
    shuffled = drawn(share, train, *moved, seed)
    assert (found[places] == shuffled).all()


def test_a_server_without_work_is_refused():
    nothing, training = np.array([ELSEWHERE] * 3), np.array([ELSEWHERE, TRAIN, VALIDATION])
    config = ServerConfig(share=0.1)
    with pytest.raises(PartitionError, match=r"share 0.1 of 3 pictures and 0.8 of that.*no labelled.*raise"):
        refuse_idle_server(config, nothing, ["NV"] * 3)
    with pytest.raises(PartitionError, match="no labelled pictures to train on"):
        refuse_idle_server(config, training, ["NV", "", "NV"])
    with pytest.raises(PartitionError, match=r"would have no pictures; raise `server.share`"):
        refuse_idle_server(ServerConfig(share=0.1, train=0), nothing, ["NV"] * 3)
    refuse_idle_server(config, training, ["", "NV", ""])
    refuse_idle_server(ServerConfig(share=0.1, train=0), training, [""] * 3)
