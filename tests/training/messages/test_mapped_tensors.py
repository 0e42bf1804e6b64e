"""Tensors as views of a file's pages: the same bytes, and nothing that is written to them comes back."""

import json

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from training.tensor_file import TYPES, map_tensors


def of_every_type():
    made = {name: (torch.arange(12) % 2).to(dtype).reshape(3, 4) for name, dtype in TYPES.items()}
    return {**made, "scalar": torch.tensor(2.5), "nothing": torch.zeros(0, 3)}


def test_every_type_and_shape_is_what_safetensors_reads(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file(of_every_type(), path, metadata={"said": "of them"})
    found, theirs = map_tensors(path), load_file(path)
    assert set(found) == set(theirs)
    for name, value in theirs.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert torch.equal(found[name], value)


def test_a_change_stays_with_whoever_made_it_and_views_outlive_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(5000)}, path)
    one, other = map_tensors(path)["x"], map_tensors(path)["x"]
    one += 1
    path.unlink()
    assert one.sum() == 10000
    assert other.sum() == 5000


def test_tensors_that_are_not_aligned_are_read(tmp_path):
    values = torch.tensor([1.5, -2.0, 3.25])
    header = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    for spaces in range(4):
        padded = header + b" " * spaces
        content = len(padded).to_bytes(8, "little") + padded + values.numpy().tobytes()
        (tmp_path / "x").write_bytes(content)
        assert torch.equal(map_tensors(tmp_path / "x")["x"], values)


def test_a_type_that_is_not_read_is_named(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.ones(4, dtype=torch.complex64)}, path)
    with pytest.raises(SafetensorError, match="a tensor of type C64; read are F64, F32"):
        map_tensors(path)
