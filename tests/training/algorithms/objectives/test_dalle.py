"""DALL-E's encoder with random weights: its shape, its arithmetic, and files that are not it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from training.algorithms.objectives.beit import Dalle, DalleEncoder, load_encoder
from training.errors import JobError
from training.models.patches import PatchGrid


def random_tensors(encoder):
    """Random weights under the encoder's names."""
    rng = torch.Generator().manual_seed(0)
    # Small biases, so that what is seen decides and not one token's bias.
    return {
        name: torch.randn(buffer.shape, generator=rng)
        * (0.01 if buffer.ndim == 1 else (2 / buffer[0].numel()) ** 0.5)
        for name, buffer in encoder.named_buffers()
    }


@pytest.fixture
def small():
    """A narrow encoder of few tokens, its tensors, and the file's path."""
    encoder = DalleEncoder(8, 11)
    return encoder, random_tensors(encoder)


def by_hand(images, w):
    """The encoder written out from its description, without modules."""

    def conv(x, name):
        weight = w[f"{name}.w"]
        return F.conv2d(F.pad(x, [weight.shape[-1] // 2] * 4), weight, w[f"{name}.b"])

    x = conv((1 - 2 * 0.1) * images + 0.1, "blocks.input")
    for group in (1, 2, 3, 4):
        for block in (1, 2):
            path = f"blocks.group_{group}.block_{block}"
            y = x
            for place in (1, 2, 3, 4):
                y = conv(y.clamp(min=0), f"{path}.res_path.conv_{place}")
            widens = group > 1 and block == 1
            x = (conv(x, f"{path}.id_path") if widens else x) + y / 64
        if group < 4:
            n, c, height, width = x.shape
            x = x.reshape(n, c, height // 2, 2, width // 2, 2).amax(dim=(3, 5))
    return conv(x.clamp(min=0), "blocks.output.conv")


def test_it_computes_what_its_description_says(small, tmp_path):
    encoder, tensors = small
    save_file(tensors, tmp_path / "encoder.safetensors")
    loaded = load_encoder(encoder, tmp_path / "encoder.safetensors")
    images = torch.rand(2, 3, 32, 16, generator=torch.Generator().manual_seed(1))
    logits = loaded(images)
    assert logits.shape == (2, 11, 4, 2)
    torch.testing.assert_close(logits, by_hand(images, tensors))


def test_tokens_are_the_likeliest_at_each_patch_whatever_the_patches_size(small, tmp_path):
    encoder, tensors = small
    save_file(tensors, tmp_path / "encoder.safetensors")
    load_encoder(encoder, tmp_path / "encoder.safetensors")
    tokenizer = Dalle(weights="unused")
    colours = torch.rand(40, 3, 4, 3, generator=torch.Generator().manual_seed(1))
    images = F.interpolate(colours, (32, 24))
    found = tokenizer.tokens(images, PatchGrid(4, 3, 8, 8), encoder, {})
    expected = by_hand(images, tensors).argmax(dim=1).flatten(1)
    assert torch.equal(found, expected)
    assert len(found.unique()) > 2
    finer = tokenizer.tokens(images, PatchGrid(8, 6, 4, 4), encoder, {})
    doubled = F.interpolate(images, (64, 48), mode="bilinear", antialias=True)
    assert torch.equal(finer, by_hand(doubled, tensors).argmax(dim=1).flatten(1))


def test_the_real_one_has_openais_names_and_sizes():
    with torch.device("meta"):
        encoder = DalleEncoder(256, 8192)
    shapes = {name: tuple(buffer.shape) for name, buffer in encoder.named_buffers()}
    assert shapes["blocks.input.w"] == (256, 3, 7, 7)
    assert shapes["blocks.group_1.block_1.res_path.conv_1.w"] == (64, 256, 3, 3)
    assert shapes["blocks.group_2.block_1.id_path.w"] == (512, 256, 1, 1)
    assert shapes["blocks.group_4.block_2.res_path.conv_4.b"] == (2048,)
    assert shapes["blocks.output.conv.w"] == (8192, 2048, 1, 1)
    assert "blocks.group_1.block_1.id_path.w" not in shapes
    expected = 256 * (3 * 49 + 1) + 8192 * (2048 + 1)
    for before, after in [(1, 1), (1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8)]:
        n, out, quarter = 256 * before, 256 * after, 64 * after
        expected += quarter * (9 * n + 1) + 2 * quarter * (9 * quarter + 1) + out * (quarter + 1)
        expected += out * (n + 1) if n != out else 0
    assert sum(np.prod(shape, dtype=int) for shape in shapes.values()) == expected


def test_files_that_are_not_the_encoder_are_refused(small, tmp_path):
    encoder, tensors = small
    path = tmp_path / "encoder.safetensors"
    with pytest.raises(
        JobError, match=r"does not exist; give a safetensors file .* or use the tokenizer codebook"
    ):
        Dalle(weights=str(path)).network()
    path.write_bytes(b"pickled")
    with pytest.raises(JobError, match="is no safetensors file"):
        load_encoder(encoder, path)
    fewer = {name: tensor for name, tensor in tensors.items() if name != "blocks.input.b"}
    for wrong, first in [
        (fewer, "blocks.input.b"),
        ({**tensors, "blocks.more.w": torch.zeros(1)}, "blocks.more.w"),
        ({**tensors, "blocks.output.conv.b": torch.zeros(12)}, "blocks.output.conv.b"),
    ]:
        save_file(wrong, path)
        with pytest.raises(
            JobError, match=f"is not the encoder of DALL-E's dVAE: 1 tensors .* first {first}"
        ):
            load_encoder(encoder, path)
