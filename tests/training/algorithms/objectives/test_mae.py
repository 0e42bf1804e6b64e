"""MAE: masking and loss against NumPy, and what a round trains."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.closeness import assert_close_in_norm
from training.algorithms.objectives.mae import MAE, Decoder, reconstruct
from training.errors import DataError, JobError
from training.models import ModelConfig, build_model
from training.models.cases import Network
from training.models.classifier import float_state, group_names
from training.models.patches import PatchGrid

OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2}
SMALL = {"decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2, "batch_size": 6}
AVERAGED = {"class_token": False, "global_pool": "avg"}


def vit(**changes):
    options = {**OPTIONS, **changes}
    return build_model(ModelConfig(name="vit_tiny_patch16_224", options=options), 2, seed=1)


@pytest.fixture
def begin(work_of):
    """Begin a client's round of MAE; gives the task and its network."""

    def start(objective, client="north", round_=1, **options):
        model = vit(**options)
        torch.manual_seed(2)
        network = Network(model, objective.heads(model)).train()
        return objective.begin(network, work_of(client, "0-pretrain", round_)), network

    return start


def cut(image, side):
    """Patches of one picture `(3, height, width)`, as the code of MAE cuts them."""
    rows = image.shape[1] // side
    return np.einsum("chpwq->hwpqc", image.reshape(3, rows, side, rows, side)).reshape(rows * rows, -1)


def naive_loss(images, predicted, masked, *, norm_pix, everywhere):
    """The loss of each picture, patch by patch in double precision."""
    mean = np.array([0.485, 0.456, 0.406])[:, None, None]
    std = np.array([0.229, 0.224, 0.225])[:, None, None]
    losses = []
    for image, guess, hidden in zip(images, predicted, masked, strict=True):
        errors = []
        for i, patch in enumerate(cut((image - mean) / std, 4)):
            if not everywhere and i not in hidden:
                continue
            wanted = patch
            if norm_pix:
                spread = ((patch - patch.mean()) ** 2).sum() / (len(patch) - 1)
                wanted = (patch - patch.mean()) / np.sqrt(spread + 1e-6)
            errors.append(((guess[i] - wanted) ** 2).mean())
        losses.append(np.mean(errors))
    return np.array(losses)


@pytest.mark.parametrize("options", [{}, AVERAGED], ids=["class token", "average"])
@pytest.mark.parametrize("norm_pix", [False, True])
@pytest.mark.parametrize("on", ["masked", "all"])
def test_the_loss_is_the_squared_error_patch_by_patch(begin, work_of, options, norm_pix, on):
    objective = MAE(**SMALL, norm_pix_loss=norm_pix, loss_on=on, mask_ratio=0.6)
    task, network = begin(objective, **options)
    masks = work_of("north", "0-pretrain").torch_generator("masks")
    told = []
    for batch in task.batches(0):
        loss = task.loss(batch).item()
        order = torch.rand(len(batch.images), 16, generator=masks).argsort(dim=1)
        visible, masked = order[:, :6], order[:, 6:]
        with torch.no_grad():
            normalised = (batch.images - network.mean) / network.std
            predicted = reconstruct(network, normalised, visible).double().numpy()
        expected = naive_loss(
            batch.images.double().numpy(),
            predicted,
            [set(row) for row in masked.tolist()],
            norm_pix=norm_pix,
            everywhere=on == "all",
        )
        assert loss == pytest.approx(expected.mean(), rel=1e-5)
        told += expected.tolist()
    counts, losses = task.num_examples(), task.losses()
    assert counts == {"light": 13, "dark": 5}
    assert sum(losses[name] * counts[name] for name in counts) == pytest.approx(sum(told), rel=1e-5)


def test_the_decoder_sees_the_mask_token_where_nothing_was_visible_each_at_its_position():
    """On one picture, token by token."""
    torch.manual_seed(0)
    decoder = Decoder(MAE(**SMALL), PatchGrid(2, 3, 4, 4)).eval()
    prefix, patches, visible = torch.randn(1, 1, 8), torch.randn(1, 2, 8), torch.tensor([[4, 1]])
    tokens = [prefix[0, 0]]
    for place in range(6):
        own = {4: patches[0, 0], 1: patches[0, 1]}.get(place, decoder.mask_token[0, 0])
        row, column = divmod(place, 3)
        # Two bands to each axis, 1 and 1/100: the sines, then the cosines.
        angles = torch.tensor([row, row / 100, column, column / 100])
        tokens.append(own + torch.cat([angles.sin(), angles.cos()]))
    by_hand = decoder.pixels(decoder.norm(decoder.blocks(torch.stack(tokens)[None])))[:, 1:]
    assert_close_in_norm(decoder(prefix, patches, visible), by_hand)


def test_the_groups_of_a_masked_autoencoder_and_that_positions_do_not_travel(begin):
    _, network = begin(MAE(**SMALL))
    projection = {"heads.decoder_projection.weight", "heads.decoder_projection.bias"}
    assert group_names(network, "decoder_projection") == projection
    decoder = group_names(network, "decoder")
    assert decoder == {name for name in float_state(network) if name.startswith("heads.")}
    assert projection < decoder
    assert "heads.decoder.mask_token" in decoder
    assert not any("positions" in name for name in network.state_dict())
    with pytest.raises(JobError, match="the model has no `decoder` to keep apart"):
        group_names(vit(), "decoder")


def test_settings_that_cannot_work_are_refused_with_a_way_out(begin):
    with pytest.raises(ValidationError, match="less than 1"):
        MAE(mask_ratio=1)
    with pytest.raises(ValidationError, match="greater than 0"):
        MAE(mask_ratio=0)
    with pytest.raises(ValidationError, match=r"decoder_width 10 must be a multiple of .* choose 12"):
        MAE(decoder_width=10, decoder_heads=3)
    with pytest.raises(JobError, match="patches of 12 pixels do not divide pictures of 16"):
        MAE(**SMALL).heads(vit(patch_size=12))
    with pytest.raises(DataError, match=r"north has pictures of 16 x 16 pixels; the encoder takes 32 x 32"):
        begin(MAE(**SMALL), img_size=32)
