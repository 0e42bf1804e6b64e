from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clients import store as store_module
from clients.data.errors import ClientDataError
from clients.store import ClientStore
from training.algorithms.client import State


def state(value: float) -> State:
    return State({"a": torch.full((2, 3), value), "n": torch.tensor([1, 2])}, {"momentum": value})


def value_at(store: ClientStore, round: int, client: str = "c", stage: str = "s") -> float | None:
    found = store.load(client, stage, round)
    return None if found is None else found.scalars["momentum"]


def test_what_is_saved_is_loaded_by_the_next_round(tmp_path):
    kept = State(
        {
            "bank": torch.arange(6).reshape(2, 3).T,  # not contiguous
            "half": torch.tensor([1.5], dtype=torch.bfloat16),
            "none": torch.empty(0, 4),
            "scalar": torch.tensor(2.5, requires_grad=True),
        },
        {"tau": 0.1, "steps": 7.0},
    )
    ClientStore(tmp_path).save("c", "pretrain", 3, kept)
    found = ClientStore(tmp_path).load("c", "pretrain", 4)
    assert found is not None
    assert found.scalars == kept.scalars
    assert set(found.tensors) == set(kept.tensors)
    for name, tensor in kept.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor.detach())


def test_tensors_that_share_memory_are_both_kept(tmp_path):
    tensor = torch.ones(4)
    ClientStore(tmp_path).save("c", "s", 0, State({"a": tensor, "b": tensor, "part": tensor[:2]}))
    found = ClientStore(tmp_path).load("c", "s", 1)
    assert found is not None
    assert {name: kept.tolist() for name, kept in found.tensors.items()} == {
        "a": [1, 1, 1, 1],
        "b": [1, 1, 1, 1],
        "part": [1, 1],
    }


def test_a_transaction_keeps_all_of_it_or_nothing(tmp_path):
    store = ClientStore(tmp_path)
    store.save("c", "s", 2, state(2))
    before = files(tmp_path)

    def fail() -> None:
        with store.transaction():
            store.save("c", "s", 2, state(20))
            store.save("c", "t", 0, state(7))
            assert (value_at(store, 3), value_at(store, 1, stage="t")) == (20, 7)  # within it, it is there
            assert value_at(ClientStore(tmp_path), 3) == 2
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert (value_at(store, 3), value_at(store, 1, stage="t")) == (2, None)
    assert files(tmp_path) == before
    with store.transaction() as drop:
        store.save("c", "s", 3, state(3))
        drop()
        store.save("c", "t", 0, state(8))
    assert (value_at(store, 9), value_at(store, 1, stage="t")) == (2, 8)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_only_rounds_before_the_asked_one_count(tmp_path):
    store = ClientStore(tmp_path)
    assert value_at(store, 5) is None
    store.save("c", "s", 2, state(2))
    store.save("c", "s", 5, state(5))
    assert [value_at(store, round) for round in (2, 3, 5, 6, 99)] == [None, 2, 2, 5, 5]


def test_the_two_newest_rounds_are_kept(tmp_path):
    store = ClientStore(tmp_path)
    for round in (0, 1, 9, 10):
        store.save("c", "s", round, state(round))
    assert [value_at(store, round) for round in (9, 10, 11)] == [None, 9, 10]
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


def test_a_node_that_is_ahead_steps_back(tmp_path):
    store = ClientStore(tmp_path)
    store.save("c", "s", 1, state(1))
    store.save("c", "s", 2, state(2))
    assert value_at(store, 2) == 1
    store.save("c", "s", 1, state(100))
    assert value_at(store, 99) == 100


def test_clients_and_stages_do_not_meet(tmp_path):
    store = ClientStore(tmp_path)
    store.save("c", "s", 1, state(1))
    store.save("c", "t", 5, state(2))
    store.save("d", "s", 1, state(3))
    assert value_at(store, 9) == 1
    assert value_at(store, 9, stage="t") == 2
    assert value_at(store, 9, client="d") == 3


NAMES = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(["", ".", "..", "/", "a/b", "a", "A", "%41", "+a", "CON", "ä", "a\0", "~", "x" * 300,
                         "x" * 301]),
    ),
    unique=True, min_size=2, max_size=8,
)  # fmt: skip


@given(NAMES)
def test_no_two_client_ids_share_a_file_even_where_case_does_not_count(names):
    files = [store_module._file_name(name) for name in names]
    assert len({file.lower() for file in files}) == len(names)
    assert all(0 < len(file.encode()) <= 255 and "/" not in file and "\0" not in file for file in files)
    assert not any(file.startswith(".") for file in files)


@pytest.mark.parametrize("client", ["../../etc", "Klinik für Haut / Wien", "", "..", "a\\b:c*?"])
def test_any_client_id_stays_inside_the_store(tmp_path, client):
    store = ClientStore(tmp_path / "store")
    store.save(client, "s", 0, state(4))
    assert value_at(store, 1, client=client) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_save_that_fails_leaves_the_last_state(tmp_path, monkeypatch):
    store = ClientStore(tmp_path)
    store.save("c", "s", 0, state(1))

    def no_space(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", no_space)
    with pytest.raises(ClientDataError, match=r"client 'c' .*No space left"):
        store.save("c", "s", 1, state(2))
    assert value_at(store, 9) == 1
    assert len(list((tmp_path / "+c" / "+s").iterdir())) == 1


def test_a_damaged_state_is_named(tmp_path):
    store = ClientStore(tmp_path)
    store.save("c", "s", 0, state(1))
    path = next(tmp_path.rglob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ClientDataError, match=r"round-000000.safetensors cannot be read: .*; delete it"):
        store.load("c", "s", 1)


def test_what_is_of_later_rounds_is_forgotten_here_and_below_and_nowhere_else(tmp_path):
    store = ClientStore(tmp_path)
    for stage in ("s", "s/residual", "st", "s2/residual"):
        for round in (1, 2):
            store.save("c", stage, round, state(round))
    store.save("other", "s", 2, state(2.0))
    store.forget("c", "s", after=1)
    assert [value_at(store, 3, stage=stage) for stage in ("s", "s/residual", "st", "s2/residual")] == [
        1,
        1,
        2,
        2,
    ]
    assert value_at(store, 3, client="other") == 2.0
    store.forget("nobody", "s", after=0)
