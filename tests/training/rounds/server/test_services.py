"""What an exchange may call at the coordinator: uploads on disk, and a judge of models."""

import numpy as np
import pytest
import torch

from registry.bundle.counting import count
from training.errors import CheckpointError, MessageError
from training.messages import Failure, reply
from training.rounds.requests import pack_blocks
from training.rounds.server.plan import UploadStore, validation_accuracy


def weights(value):
    return {"layer.weight": torch.full((2, 3), float(value)), "layer.bias": torch.tensor([value, 1.0])}


def test_what_was_put_comes_back_to_the_bit(tmp_path):
    store = UploadStore(tmp_path / "uploads", "job")
    store.put("clinic / north", 3, weights(0.1), None)
    found = UploadStore(tmp_path / "uploads", "job").get("clinic / north", 3)
    assert set(found) == set(weights(0.1))
    assert all(torch.equal(found[name], tensor) for name, tensor in weights(0.1).items())


def test_two_files_of_a_client_are_kept_the_newest_and_the_one_that_a_checkpoint_may_name(tmp_path):
    store = UploadStore(tmp_path, "job")
    previous = None
    for round_ in (2, 5, 9, 14):
        store.put("a", round_, weights(round_), previous)
        store.put("b", 1, weights(0), None)
        previous = round_
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "round-000009.safetensors",
        "round-000014.safetensors",
    ]
    assert float(store.get("a", 9)["layer.bias"][0]) == 9
    assert store.get("b", 1)


def test_a_round_that_is_done_again_forgets_what_came_after_its_checkpoint(tmp_path):
    store = UploadStore(tmp_path, "job")
    for round_, previous in ((2, None), (5, 2), (5, 2), (6, 2)):  # killed after 5; then 5 fails, and 6 comes
        store.put("a", round_, weights(round_), previous)
    assert float(store.get("a", 2)["layer.bias"][0]) == 2
    with pytest.raises(
        CheckpointError, match=r"round-000005.safetensors is missing: what a uploaded in round 5"
    ):
        store.get("a", 5)


def test_uploads_of_another_job_and_damaged_ones_are_refused(tmp_path):
    UploadStore(tmp_path, "job").put("a", 2, weights(1), None)
    with pytest.raises(CheckpointError, match="belongs to job job, not to other"):
        UploadStore(tmp_path, "other").get("a", 2)
    (file,) = (tmp_path / "a").iterdir()
    file.write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match="cannot be read"):
        UploadStore(tmp_path, "job").get("a", 2)


def test_all_is_forgotten_at_the_end(tmp_path):
    store = UploadStore(tmp_path / "uploads", "job")
    store.clear()
    store.put("a", 2, weights(1), None)
    store.clear()
    assert not (tmp_path / "uploads").exists()


WEIGHTS = {"weight": torch.tensor([1.0])}


class Answers:
    """An engine that gives one answer and remembers the request."""

    def __init__(self, answer):
        self._answer = answer

    def run_round(self, broadcasts):
        (self.asked,) = broadcasts
        return [self._answer(self.asked)]

    def close(self):
        pass


def counted(broadcast):
    malignant = np.array([False, True])
    light = count(np.eye(2)[[0, 1, 0]], np.array([0, 1, 1]), malignant=malignant)
    dark = count(np.eye(2)[[1, 1]], np.array([0, 1]), malignant=malignant)
    return reply(broadcast, tensors=pack_blocks({"light": light, "dark": dark}))


def test_an_upload_is_as_good_as_its_accuracy_on_the_servers_validation_pictures():
    engine = Answers(counted)
    assert validation_accuracy(engine, "server", "0-federate", ("light", "dark"), WEIGHTS) == 3 / 5
    assert engine.asked.client == "server"
    assert engine.asked.ask == "judge"
    assert engine.asked.tensors is WEIGHTS
    assert engine.asked.options["split"] == "validation"


@pytest.mark.parametrize("answer", [lambda b: Failure("server", "global", "no probabilities"), reply])
def test_a_model_that_cannot_be_counted_has_no_accuracy(answer):
    assert validation_accuracy(Answers(answer), "server", "0-federate", ("light",), WEIGHTS) is None


def test_an_answer_that_is_none_is_refused():
    with pytest.raises(MessageError, match="not a finite number"):
        validation_accuracy(
            Answers(lambda b: reply(b, scalars={"x": float("nan")})), "server", "0-federate", ("a",), WEIGHTS
        )
