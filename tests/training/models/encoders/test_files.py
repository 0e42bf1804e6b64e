"""Files of weights that others made: read whole, and never run."""

import pickle
from argparse import Namespace
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file

from training.errors import JobError
from training.jobs.run_folder import OUTCOME, FinishedStage, save_finished
from training.jobs.stages.base import StageResult
from training.messages.message import GLOBAL
from training.models.encoders.files import read_file

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.zeros(1)}


def same(found):
    return found.keys() == TENSORS.keys() and all(torch.equal(found[key], TENSORS[key]) for key in found)


def test_safetensors_by_any_name(tmp_path):
    save_file(TENSORS, tmp_path / "weights.pth")
    assert same(read_file(tmp_path / "weights.pth").tensors)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "pickles one after the other"])
@pytest.mark.parametrize(
    ("content", "note"),
    [
        (TENSORS, ()),
        (OrderedDict(TENSORS), ()),
        ({"state_dict": TENSORS, "epoch": 3, "optimizer": {"step": 1}}, ("tensors taken from `state_dict`",)),
        ({"model": TENSORS}, ("tensors taken from `model`",)),
        ({"student": {}, "teacher": TENSORS}, ("tensors taken from `teacher`",)),
        ({"model": {"state_dict": TENSORS}}, ("tensors taken from `model.state_dict`",)),
    ],
    ids=["plain", "ordered", "state_dict", "model", "teacher", "nested"],
)
def test_what_torch_saved_with_what_others_wrap_around_it(tmp_path, content, note, legacy):
    torch.save(content, tmp_path / "weights.pt", _use_new_zipfile_serialization=not legacy)
    found = read_file(tmp_path / "weights.pt")
    assert same(found.tensors)
    assert found.notes == note


class Trap:
    """An object whose reading would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (type(self.path).touch, (self.path,))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_file_that_would_have_to_be_run_is_refused_with_how_to_convert_it(tmp_path, legacy):
    trap = {"state_dict": TENSORS, "args": Trap(tmp_path / "it-was-run")}
    torch.save(trap, tmp_path / "weights.pth", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(JobError, match="holds more than tensors") as caught:
        read_file(tmp_path / "weights.pth")
    assert not (tmp_path / "it-was-run").exists()
    assert "save_file(" in str(caught.value)
    assert "weights.safetensors" in str(caught.value)


def test_the_conversion_that_the_error_gives_works(tmp_path, monkeypatch):
    torch.save({"state_dict": TENSORS, "args": Namespace(lr=1)}, tmp_path / "weights.pth")
    with pytest.raises(JobError) as caught:
        read_file(tmp_path / "weights.pth")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(line.strip() for line in str(caught.value).splitlines()[1:]), {})
    assert same(read_file(tmp_path / "weights.safetensors").tensors)


def whole(path):
    torch.save(TENSORS, path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not found",
        lambda content: b"<html><body>404</body></html>",
        lambda content: content[: len(content) // 2],
        lambda content: b"\x10\0\0\0\0\0\0\0{",
    ],
    ids=["empty", "text", "a page", "half", "half a header"],
)
def test_a_file_that_is_not_whole_is_said(tmp_path, damage):
    path = tmp_path / "weights.pth"
    path.write_bytes(damage(whole(path)))
    with pytest.raises(JobError, match=r"model\.weights: .*weights\.pth .*fetch it again"):
        read_file(path)


def test_a_plain_pickle_is_refused(tmp_path):
    (tmp_path / "weights.pth").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(JobError, match=r"model\.weights"):
        read_file(tmp_path / "weights.pth")


def test_what_a_stage_left_is_its_global_model(tmp_path):
    save_finished(tmp_path, "sha256:0", FinishedStage(StageResult({GLOBAL: TENSORS, "V": TENSORS}), 1.0, 0))
    assert same(read_file(tmp_path / OUTCOME).tensors)
