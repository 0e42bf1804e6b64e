"""Files of weights that others made, ONNX graphs among them."""

import warnings
from argparse import Namespace
from collections import OrderedDict

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.encoder_files import is_onnx, read_file, read_onnx

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


WIDTH, HEADS, PATCH, SIZE, OWN = 24, 2, 4, 16, 24  # shown pictures of 16 px, positions of pictures of 24
PLAIN = {"mean": [0, 0, 0], "std": [1, 1, 1]}


class Scope(nn.Module):
    """Calls `forward_of` with the modules in it, so that nodes are named by their place."""

    def __init__(self, forward_of, **parts):
        super().__init__()
        self.forward_of = forward_of
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *given):
        return self.forward_of(self, *given)


def scale():
    return Scope(lambda self, x: x * self.lambda1, lambda1=nn.Parameter(torch.rand(WIDTH)))


def attention():
    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)

    inner = Scope(forward, **{name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")})
    dense = Scope(lambda self, x: self.dense(x), dense=nn.Linear(WIDTH, WIDTH))
    return Scope(lambda self, x: self.output(self.attention(x)), attention=inner, output=dense)


def block():
    def forward(self, x):
        x = x + self.layer_scale1(self.attention(self.norm1(x)))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))

    def perceptron(self, x):
        return self.fc2(F.gelu(self.fc1(x)))

    fc = {"fc1": nn.Linear(WIDTH, 4 * WIDTH), "fc2": nn.Linear(4 * WIDTH, WIDTH)}
    norms = {name: nn.LayerNorm(WIDTH, eps=1e-6) for name in ("norm1", "norm2")}
    scales = {"layer_scale1": scale(), "layer_scale2": scale()}
    return Scope(forward, attention=attention(), mlp=Scope(perceptron, **fc), **norms, **scales)


def embeddings():
    def forward(self, pictures):
        patches = self.patch_embeddings(pictures)
        side, own = SIZE // PATCH, OWN // PATCH
        grid = self.position_embeddings[:, 1:].reshape(1, own, own, WIDTH).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
        positions = torch.cat([self.position_embeddings[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)
        return torch.cat([self.cls_token.expand(len(patches), -1, -1), patches], dim=1) + positions

    projection = nn.Conv2d(3, WIDTH, PATCH, PATCH)
    return Scope(
        forward,
        cls_token=nn.Parameter(torch.randn(1, 1, WIDTH)),
        position_embeddings=nn.Parameter(torch.randn(1, 1 + (OWN // PATCH) ** 2, WIDTH)),
        patch_embeddings=Scope(
            lambda self, x: self.projection(x).flatten(2).transpose(1, 2), projection=projection
        ),
    )


def encoder():
    def layers(self, x):
        for each in self.layer:
            x = each(x)
        return x

    return Scope(
        lambda self, x: self.layernorm(self.encoder(self.embeddings(x))),
        embeddings=embeddings(),
        encoder=Scope(layers, layer=nn.ModuleList([block(), block()])),
        layernorm=nn.LayerNorm(WIDTH, eps=1e-6),
    )


@pytest.fixture
def exported(tmp_path):
    """A tiny DINOv2 in transformers' names with a layer behind it, as torch's older exporter writes it."""
    torch.manual_seed(3)
    network = Scope(
        lambda self, x: (self.decoder(self.backbone(x)), self.backbone(x)),
        backbone=encoder(),
        decoder=nn.Linear(WIDTH, 2),
    )
    for norm in (each for each in network.modules() if isinstance(each, nn.LayerNorm)):
        nn.init.normal_(norm.weight, mean=1, std=0.2)  # the exporter would keep one of several that are alike
        nn.init.normal_(norm.bias, std=0.2)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network.eval(), torch.zeros(2, 3, SIZE, SIZE), path, dynamo=False)
    return path


def as_timms(path, **changes):
    vit = {
        "name": "vit_small_patch14_dinov2",
        "options": {"patch_size": PATCH, "embed_dim": WIDTH, "depth": 2, "num_heads": HEADS},
        "normalisation": PLAIN,
        "weights": str(path),
        "layers": [0, 1],
        "components": 8,
    }
    return build_model(ModelConfig(encoders=[{**vit, **changes}]), 2, 0, SIZE).eval()


def test_the_encoder_of_a_graph_sees_what_the_graph_does(exported):
    graph = onnx.load(exported)
    nameless = [each.name for each in graph.graph.initializer if "::" in each.name]
    assert len(nameless) > 12, "the exporter kept the names: this shows nothing"
    pictures = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    session = onnxruntime.InferenceSession(exported.read_bytes())
    _, expected = session.run(None, {session.get_inputs()[0].name: pictures.numpy()})
    model = as_timms(exported)
    with torch.no_grad():
        [block] = model.encoder.forward_features(pictures)
    assert np.abs(block[:, 2 * WIDTH : 3 * WIDTH].numpy() - expected[:, 0]).max() < 1e-4
    assert np.abs(block[:, 3 * WIDTH :].numpy() - expected[:, 1:].mean(axis=1)).max() < 1e-4
    lines = model.origins[0].lines
    assert any("resampled to (1, 17, 24)" in line for line in lines)
    assert any("beside the encoder are left out: decoder" in line for line in lines)


def test_a_graph_of_another_size_or_one_that_is_not_whole_is_refused(exported, tmp_path):
    with pytest.raises(JobError, match="does not fit"):
        as_timms(exported, options={"patch_size": PATCH, "embed_dim": WIDTH, "depth": 3, "num_heads": HEADS})
    half = tmp_path / "half.onnx"
    half.write_bytes(exported.read_bytes()[: exported.stat().st_size // 2])
    assert is_onnx(half)
    with pytest.raises(JobError, match="fetch it again"):
        read_onnx(half)
    with pytest.raises(JobError, match="does not say how its encoder was shown pictures"):
        as_timms(exported, normalisation=None)
