import errno
import json

import pytest
import torch
from safetensors.torch import save, save_file

from training import tensor_file
from training.errors import CheckpointError
from training.tensor_file import FORMAT, pack_tensors, read_tensors, save_tensors, write_tensors

JOB = "sha256:abc"
OF_SOMEBODY_ELSE = (None, {"dermfed": "{"}, {"other": "{}"})
TENSORS = {"weight": torch.tensor([[1.0, -0.0], [float("inf"), 3e-40]]), "step": torch.tensor(3)}


def test_tensors_and_header_come_back(tmp_path):
    path = tmp_path / "file.safetensors"
    write_tensors(path, JOB, {"round": 4, "facts": {"m": 1.25, "names": ["ä"]}}, TENSORS)
    header, tensors = read_tensors(path, JOB)
    assert header["round"] == 4
    assert header["facts"] == {"m": 1.25, "names": ["ä"]}
    assert tensors.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert tensors[name].dtype == value.dtype
        assert tensors[name].numpy().tobytes() == value.numpy().tobytes()


def test_the_bytes_are_those_that_the_library_writes(tmp_path):
    kinds = (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.uint8,
        torch.bool,
    )
    tensors = {str(kind): torch.arange(6).view(2, 3).to(kind) for kind in kinds}
    tensors |= {"one": torch.tensor(3.5), "none": torch.empty(0, 4)}
    strided = {
        **tensors,
        "turned": torch.arange(6.0).view(2, 3).T,
        "learned": torch.ones(2, requires_grad=True),
    }
    whole = {name: tensor.detach().contiguous() for name, tensor in strided.items()}
    assert pack_tensors(strided) == save(whole)
    save_tensors(strided, tmp_path / "file.safetensors", {"said": "ä"})
    assert (tmp_path / "file.safetensors").read_bytes() == save(whole, {"said": "ä"})


def metadata(**header):
    return {"dermfed": json.dumps({"format": FORMAT, "job": JOB, **header})}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (metadata(job="sha256:other"), "belongs to job sha256:other, not to sha256:abc; use another"),
        (metadata(format=FORMAT + 1), f"has format {FORMAT + 1}; this version reads {FORMAT} alone"),
        *((other, r"file\.safetensors cannot be read .*remove it") for other in OF_SOMEBODY_ELSE),
    ],
)
def test_the_file_of_another_job_format_or_program_is_refused(tmp_path, written, said):
    path = tmp_path / "file.safetensors"
    save_file(TENSORS, path, metadata=written)
    with pytest.raises(CheckpointError, match=said):
        read_tensors(path, JOB)


@pytest.mark.parametrize("keep", [0, 4, 60, -1])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "file.safetensors"
    write_tensors(path, JOB, {}, TENSORS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_tensors(path, JOB)


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.safetensors"
    write_tensors(path, JOB, {"round": 1}, TENSORS)

    def full(tensors, temporary, metadata):
        temporary.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tensor_file, "save_tensors", full)
    with pytest.raises(CheckpointError, match="No space left"):
        write_tensors(path, JOB, {"round": 2}, TENSORS)
    assert read_tensors(path, JOB)[0]["round"] == 1
    assert list(tmp_path.iterdir()) == [path]
