"""The codebook: what clients say, what the server makes of it, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from training.algorithms.objectives.tokenizers.codebook import CELLS, MOMENTS, Codebook
from training.algorithms.objectives.tokenizers.kmeans import draw_seeds, moments
from training.errors import DataError, MessageError
from training.messages.message import Broadcast
from training.models import ModelConfig
from training.models.patches import PatchGrid
from training.seeds import generator

GRID = PatchGrid(4, 4, 4, 4)
OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2}


@pytest.fixture
def asking(make_client, make_job):
    """`asking(tokenizer, clients)`: asks clients, and the list of all their answers."""
    model = ModelConfig(name="vit_tiny_patch16_224", options=OPTIONS)
    job = make_job().model_copy(update={"model": model})

    def start(tokenizer, clients=("north", "south", "west"), grid=GRID):
        people, answers = [make_client(name, job=job) for name in clients], []

        def ask(question, tensors, options=None):
            told = [
                tokenizer.answer(
                    Broadcast(person.id, "0-pretrain", 0, question, "global", tensors, options or {}),
                    person,
                    grid,
                )
                for person in people
            ]
            answers.extend(told)
            return told

        return ask, answers

    return start


def patches_of(dataset, *clients):
    """All training patches of some clients, cut pixel by pixel, 0 to 255."""
    rows = []
    for client in clients:
        for image in dataset.examples(client, "train").images.astype(float):
            for top in range(0, 16, 4):
                for left in range(0, 16, 4):
                    rows.append(image[top : top + 4, left : left + 4].flatten())  # noqa: PERF401
    return np.array(rows)


def naive_lloyd(points, centroids, steps, fewest, parts):
    """k-means patch by patch; a client's cell of fewer than `fewest` patches does not count."""
    for _ in range(steps):
        own = np.array([np.argmin(((centroids - point) ** 2).sum(axis=1)) for point in points])
        moved = centroids.copy()
        for cell in range(len(centroids)):
            told = [np.flatnonzero((own == cell) & (parts == part)) for part in np.unique(parts)]
            told = np.concatenate([members for members in told if len(members) >= fewest] or [[]]).astype(int)
            if len(told):
                moved[cell] = points[told].mean(axis=0)
        centroids = moved
    return centroids


@pytest.mark.parametrize("fewest", [1, 6])
def test_it_is_k_means_over_all_patches_from_the_same_seeds(asking, dataset, fewest):
    # A job may not ask for cells of one; here it shows that nothing but withholding sets the two apart.
    tokenizer = Codebook(size=12, iterations=3).model_copy(update={"min_members": fewest})
    ask, _ = asking(tokenizer)
    codes = tokenizer.prepare(ask, seed=9)["codebook"]
    clients = ("north", "south", "west")
    points = patches_of(dataset, *clients)
    parts = np.repeat([0, 1, 2], [len(patches_of(dataset, name)) for name in clients])
    seeds = draw_seeds(moments(torch.from_numpy(points)), 12, generator(9, "codebook")).numpy()
    expected = naive_lloyd(points, seeds, 3, fewest, parts)
    np.testing.assert_allclose(codes.double() * 255, expected, rtol=1e-5, atol=1e-4)
    assert codes.dtype == torch.float32


def test_the_order_of_clients_does_not_matter_to_the_last_bit(asking):
    tokenizer = Codebook(size=12, iterations=3)
    books = [
        tokenizer.prepare(asking(tokenizer, order)[0], seed=4)["codebook"]
        for order in (("north", "south", "west"), ("west", "north", "south"))
    ]
    assert torch.equal(*books)


def test_no_message_holds_a_patch_and_no_cell_of_few_is_disclosed(asking, dataset):
    tokenizer = Codebook(size=60, iterations=4, min_members=5)
    ask, answers = asking(tokenizer)
    tokenizer.prepare(ask, seed=1)
    known = {tuple(row) for row in patches_of(dataset, "north", "south", "west")}
    withheld = 0
    for update in answers:
        for tensor in update.tensors.values():
            rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim else tensor.reshape(1, 1)
            assert not {tuple(row) for row in rows.tolist()} & known
        if update.ask == CELLS:
            counts, totals = update.tensors["counts"], update.tensors["totals"]
            assert ((counts == 0) | (counts >= 5)).all()
            assert (totals[counts == 0] == 0).all()
            held = 16 * len(dataset.examples(update.client, "train"))
            withheld += held - int(counts.sum())
    assert withheld > 0
    assert len(answers) == 3 * (1 + 4)


def test_a_client_of_few_patches_sends_zeros_and_without_any_other_there_is_no_codebook(asking):
    tokenizer = Codebook(size=4, min_members=200)
    ask, answers = asking(tokenizer, ("west", "north"))
    tokenizer.prepare(ask, seed=0)
    west, north = answers[:2]
    assert all((tensor == 0).all() for tensor in west.tensors.values())
    assert north.tensors["n"] == 18 * 16
    alone, _ = asking(tokenizer, ("west",))
    with pytest.raises(
        DataError, match=r"no client has 200 patches .* lower objective\.tokenizer\.min_members"
    ):
        tokenizer.prepare(alone, seed=0)


def test_a_client_may_use_some_of_its_pictures_the_same_in_every_step(asking, dataset):
    tokenizer = Codebook(size=3, iterations=2, min_members=2, pictures=4)
    ask, answers = asking(tokenizer, ("north",))
    tokenizer.prepare(ask, seed=0)
    first, *steps = answers
    assert first.tensors["n"] == 64
    images = dataset.examples("north", "train").images
    assert 0 < first.tensors["total"].sum() < images.sum()
    for step in steps:
        assert step.tensors["counts"].sum() == 64
        torch.testing.assert_close(step.tensors["totals"].sum(0), first.tensors["total"])


def test_a_token_is_the_nearest_code():
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 1, (2, 3, 16, 16)).astype(np.float32)
    book = rng.uniform(0, 1, (5, 48)).astype(np.float32)
    given = {"codebook": torch.from_numpy(book)}
    found = Codebook(size=5).tokens(torch.from_numpy(images), GRID, torch.nn.Identity(), given)
    assert found.shape == (2, 16)
    for image, tokens in zip(images, found.tolist(), strict=True):
        for place, token in enumerate(tokens):
            top, left = 4 * (place // 4), 4 * (place % 4)
            patch = image[:, top : top + 4, left : left + 4].transpose(1, 2, 0).flatten()
            assert token == np.argmin(((book - patch) ** 2).sum(axis=1))


def test_answers_that_cannot_be_are_refused_on_arrival(asking):
    tokenizer = Codebook(size=4, iterations=1, min_members=3)
    ask, _ = asking(tokenizer)

    def spoil(question, name, change):
        def spoilt(asked, tensors, options=None):
            told = list(ask(asked, tensors, options))
            if asked == question:
                told[1] = replace(told[1], tensors={**told[1].tensors, name: change(told[1].tensors[name])})
            return told

        return spoilt

    def one_of_two(counts):
        counts = counts.clone()
        counts[0] = 2
        return counts

    for question, name, change, message in [
        (MOMENTS, "products", lambda t: t[:3], r"south sent products as \(3, 48\); expected \(48, 48\)"),
        (MOMENTS, "total", lambda t: t[:5], r"south sent total as \(5,\); expected \(48,\)"),
        (MOMENTS, "n", lambda t: -t, "south tells of patches whose pixels are not from 0 to 255"),
        (MOMENTS, "total", lambda t: t * torch.nan, "south sent total with values that are not finite"),
        (CELLS, "totals", lambda t: t * 1000, "south tells of patches whose pixels are not from 0 to 255"),
        (CELLS, "totals", lambda t: t.long(), "south sent totals as torch.int64"),
        (CELLS, "counts", lambda t: t[:2], r"south sent counts as \(2,\); expected \(4,\)"),
        (CELLS, "counts", one_of_two, "south tells of a cell of 2 patches; those of fewer than 3 stay"),
    ]:
        with pytest.raises(MessageError, match=message):
            tokenizer.prepare(spoil(question, name, change), seed=0)


def test_what_a_client_refuses(asking):
    tokenizer = Codebook(size=4)
    ask, _ = asking(tokenizer)
    with pytest.raises(MessageError, match=r"north was sent centroids of shape \(4, 3\); expected \(4, 48\)"):
        ask(CELLS, {"centroids": torch.zeros(4, 3)})
    with pytest.raises(MessageError, match=r"north was sent centroids of shape \(0,\)"):
        ask(CELLS, {})
    with pytest.raises(MessageError, match="knows no question `pictures`"):
        ask("pictures", {})
    large, _ = asking(tokenizer, grid=PatchGrid(4, 4, 8, 8))
    with pytest.raises(DataError, match="north has pictures of 16 x 16 pixels; the encoder takes 32 x 32"):
        large(MOMENTS, {})
    with pytest.raises(DataError, match="the codebook that was given before the first round is lost"):
        tokenizer.tokens(torch.zeros(1, 3, 16, 16), GRID, torch.nn.Identity(), {})
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        Codebook(min_members=1)
