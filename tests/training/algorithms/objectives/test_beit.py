"""BEiT: the loss against NumPy, and what a round trains."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from training.algorithms.objectives import beit
from training.algorithms.objectives.beit import BEiT, predict
from training.algorithms.objectives.codebook import Codebook
from training.errors import DataError, JobError
from training.models import ModelConfig, build_model
from training.models.cases import Network
from training.models.patches import draw_block_masks

OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2}
AVERAGED = {"class_token": False, "global_pool": "avg"}
SMALL = {"batch_size": 6, "tokenizer": {"name": "codebook", "size": 5}}
BOOK = torch.from_numpy(np.random.default_rng(0).uniform(0, 1, (5, 48)).astype(np.float32))


def vit(**changes):
    options = {**OPTIONS, **changes}
    return build_model(ModelConfig(name="vit_tiny_patch16_224", options=options), 2, seed=1)


@pytest.fixture
def begin(work_of):
    """Begin a client's round of BEiT on a given codebook; gives the task and its network."""

    def start(objective, client="north", round_=1, given=None, **options):
        model = vit(**options)
        torch.manual_seed(2)
        network = Network(model, objective.heads(model)).train()
        work = work_of(client, "0-pretrain", round_)
        work.shared_state.update({"codebook": BOOK} if given is None else given)
        return objective.begin(network, work), network

    return start


@pytest.mark.parametrize("options", [{}, AVERAGED], ids=["class token", "average"])
def test_the_loss_is_the_cross_entropy_of_masked_patches_the_mean_picture_by_picture(
    begin, work_of, options, monkeypatch
):
    # Large blocks often leave less than the largest share masked.
    monkeypatch.setattr(beit, "SMALLEST_BLOCK", 0.6)
    task, network = begin(BEiT(**SMALL, mask_ratio=0.7), round_=3, **options)
    random = work_of("north", "0-pretrain", 3).numpy_generator("masks")
    book, told, shares = BOOK.numpy(), [], set()
    for batch in task.batches(0):
        loss = task.loss(batch).item()
        masks = draw_block_masks(len(batch.images), 4, 4, 0.7, 0.6, random)
        with torch.no_grad():
            logits = predict(network, network.heads, batch.images, masks).double().numpy()
        rows, losses = iter(logits), []
        for image, mask in zip(batch.images.numpy(), masks.numpy(), strict=True):
            errors = []
            for place in np.flatnonzero(mask):
                top, left = 4 * (place // 4), 4 * (place % 4)
                patch = image[:, top : top + 4, left : left + 4].transpose(1, 2, 0).flatten()
                token = np.argmin(((book - patch) ** 2).sum(axis=1))
                row = next(rows)
                errors.append(np.log(np.exp(row).sum()) - row[token])
            losses.append(np.mean(errors))
            shares.add(len(errors))
        assert loss == pytest.approx(np.mean(losses), rel=1e-5)
        told += losses
    assert len(shares) > 1  # pictures of one and of several masked patches weigh the same
    counts, means = task.num_examples(), task.losses()
    assert sum(means[name] * counts[name] for name in counts) == pytest.approx(sum(told), rel=1e-5)


def test_tokens_are_the_same_under_reduced_precision(begin, monkeypatch):
    """Codes so close that bfloat16 cannot tell them apart."""
    given = {"codebook": 0.5 + torch.linspace(-0.01, 0.01, 5).view(5, 1).expand(5, 48)}
    seen, tokens = [], Codebook.tokens

    def watch(self, *args):
        seen.append((args, tokens(self, *args)))
        return seen[-1][1]

    monkeypatch.setattr(Codebook, "tokens", watch)
    for enabled in (False, True):
        task, _ = begin(BEiT(**SMALL), given=given)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = task.loss(next(iter(task.batches(0))))
        assert loss.dtype == torch.float32
    (args, exact), (_, reduced) = seen
    assert torch.equal(exact, reduced)
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(tokens(Codebook(size=5), *args), exact)


def test_what_cannot_work_is_refused(begin):
    with pytest.raises(ValidationError, match="less than 1"):
        BEiT(mask_ratio=1)
    with pytest.raises(ValidationError, match="unknown tokenizer `codebok`; did you mean `codebook`"):
        BEiT(tokenizer={"name": "codebok"})
    with pytest.raises(JobError, match="patches of 12 pixels do not divide pictures of 16"):
        BEiT(**SMALL).heads(vit(patch_size=12))
    with pytest.raises(JobError, match=r"objective\.tokenizer\.weights: none\.safetensors does not exist"):
        BEiT(tokenizer={"name": "dalle", "weights": "none.safetensors"}).heads(vit())
    with pytest.raises(DataError, match=r"north has pictures of 16 x 16 pixels; the encoder takes 32 x 32"):
        begin(BEiT(**SMALL), img_size=32)
