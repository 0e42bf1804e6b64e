"""The codebook: federated k-means against that of all points, and what clients answer once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clients.store import ClientStore
from training.algorithms.objectives.codebook import (
    CELLS,
    MOMENTS,
    Codebook,
    answer_once,
    cells,
    draw_seeds,
    moments,
    nearest,
    parts_of,
)
from training.errors import DataError, MessageError
from training.messages import Broadcast
from training.models import ModelConfig
from training.models.patches import PatchGrid
from training.randomness import generator


def bytes_like(shape, seed):
    """Whole numbers from 0 to 255, clumped about a few colours."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 256, (4, shape[1]))
    noisy = centres[rng.integers(0, 4, shape[0])] + rng.normal(0, 20, shape)
    return noisy.round().clip(0, 255)


def naive_lloyd(points, centroids, steps, fewest=1):
    """k-means point by point; cells of fewer than `fewest` points do not count."""
    centroids = [row.copy() for row in centroids]
    for _ in range(steps):
        members = [[] for _ in centroids]
        for point in points:
            members[int(np.argmin([((point - c) ** 2).sum() for c in centroids]))].append(point)
        centroids = [
            np.mean(own, axis=0) if len(own) >= fewest else centroid
            for own, centroid in zip(members, centroids, strict=True)
        ]
    return np.array(centroids)


def test_steps_are_naive_lloyd_whoever_holds_the_points():
    points = bytes_like((120, 6), 0)
    seeds = draw_seeds(moments(torch.from_numpy(points)), 9, np.random.default_rng(1))
    parts = [torch.from_numpy(part) for part in np.split(points, [11, 70])]
    centroids = seeds
    for _ in range(5):
        first, *others = [cells(part, nearest(part, centroids), 9) for part in parts]
        centroids = sum(others, first).move(centroids)
    np.testing.assert_allclose(centroids, naive_lloyd(points, seeds.numpy(), 5), rtol=1e-12)


@given(seed=st.integers(0, 2**20), order=st.permutations(range(4)))
def test_sums_do_not_depend_on_the_order_of_clients_to_the_last_bit(seed, order):
    parts = [torch.from_numpy(bytes_like((n, 3), seed + n)) for n in (1, 7, 20, 33)]
    centroids = torch.from_numpy(np.random.default_rng(seed).uniform(0, 255, (5, 3)))

    def add(found):
        first, *others = found
        return sum(others, first)

    told = [cells(part, nearest(part, centroids), 5) for part in parts]
    straight, turned = add(told), add([told[i] for i in order])
    assert torch.equal(straight.totals, turned.totals)
    assert torch.equal(straight.counts, turned.counts)
    known = [moments(part) for part in parts]
    straight, turned = add(known), add([known[i] for i in order])
    assert torch.equal(straight.products, turned.products)
    whole = moments(torch.cat(parts))
    assert torch.equal(whole.products, straight.products)
    assert torch.equal(whole.total, straight.total)
    assert whole.n == straight.n == 61


def test_seeds_have_the_mean_and_the_covariance_of_the_points_and_are_none_of_them():
    points = bytes_like((500, 4), 3)
    seeds = draw_seeds(moments(torch.from_numpy(points)), 20000, np.random.default_rng(0)).numpy()
    np.testing.assert_allclose(seeds.mean(axis=0), points.mean(axis=0), atol=2)
    expected = np.cov(points.T, bias=True)
    np.testing.assert_allclose(np.cov(seeds.T), expected, atol=0.05 * expected.max())
    assert not {tuple(row) for row in seeds} & {tuple(row) for row in points}


@pytest.fixture
def restarted(make_client, tmp_path):
    """`restarted()`: the client in a new process, with the store that the one before left."""
    client = make_client("north")
    return lambda: replace(client, store=ClientStore(tmp_path / "store"))


def request(value, step=1):
    return Broadcast(
        "north",
        "0-pretrain",
        0,
        "codebook cells",
        "global",
        {"centroids": torch.full((2,), value)},
        {"step": step},
    )


@pytest.mark.parametrize("other", [request(1.001), request(1.0, step=2)], ids=["centroids", "options"])
def test_another_question_of_the_same_pictures_is_refused_after_a_restart_too(restarted, other):
    client = restarted()
    answer_once(request(1.0), client, "1")
    for asked in (client, restarted()):
        with pytest.raises(
            MessageError, match=r"north was asked `codebook cells` of pictures of which it has"
        ):
            answer_once(other, asked, "1")
    answer_once(request(1.0), restarted(), "1")


def test_of_another_part_another_question_is_answered_and_both_are_remembered(restarted):
    answer_once(request(1.0), restarted(), "1")
    answer_once(request(2.0), restarted(), "2")
    for part, asked_before in (("1", 2.0), ("2", 1.0)):
        with pytest.raises(MessageError, match="could tell single patches"):
            answer_once(request(asked_before), restarted(), part)


def test_a_client_that_remembers_nothing_would_answer(restarted, tmp_path):
    """What the store prevents: with it gone, the difference of two answers is there to be taken."""
    answer_once(request(1.0), restarted(), "1")
    for file in (tmp_path / "store").rglob("*.safetensors"):
        file.unlink()
    answer_once(request(1.001), restarted(), "1")


GRID = PatchGrid(4, 4, 4, 4)
OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2}


@pytest.fixture
def asking(make_client, make_job, tmp_path):
    """`asking(tokenizer, clients)`: asks clients, each time in a run of its own, and all their answers."""
    runs = []
    model = ModelConfig(name="vit_tiny_patch16_224", options=OPTIONS)
    job = make_job().model_copy(update={"model": model})

    def start(tokenizer, clients=("north", "south", "west"), grid=GRID, min_count=1, store=None):
        runs.append(store or f"store {len(runs)}")
        people = [
            replace(make_client(name, job=job), min_count=min_count, store=ClientStore(tmp_path / runs[-1]))
            for name in clients
        ]
        answers = []

        def ask(request, tensors, options=None):
            told = [
                tokenizer.answer(
                    Broadcast(person.id, "0-pretrain", 0, request, "global", tensors, options or {}),
                    person,
                    grid,
                )
                for person in people
            ]
            answers.extend(told)
            return told

        return ask, answers

    return start


@pytest.fixture
def dataset(make_dataset):
    """Two hospitals of some size and a small one."""
    some, few = (30, 2, 2, 2), (4, 2, 2, 2)
    return make_dataset({"north": {"light": some}, "south": {"dark": some}, "west": {"light": few}})


def patches_of(examples):
    """All patches of some examples, cut pixel by pixel, 0 to 255, and whose each is."""
    rows, whose = [], []
    for image, person in zip(examples.images[examples.rows].astype(float), examples.people, strict=True):
        for top in range(0, 16, 4):
            for left in range(0, 16, 4):
                rows.append(image[top : top + 4, left : left + 4].flatten())
                whose.append(person)
    return np.array(rows).reshape(-1, 48), np.array(whose)


def naive_lloyd_codebook(parts_of_clients, centroids, fewest, least):
    """k-means patch by patch, each step over its own part of each client's patches.

    A client's cell of fewer than `fewest` patches, or `least` patients, does not count.
    """
    for parts in zip(*parts_of_clients, strict=True):
        moved = centroids.copy()
        told = [[] for _ in centroids]
        for points, whose in parts:
            own = np.array([np.argmin(((centroids - point) ** 2).sum(axis=1)) for point in points])
            for cell in range(len(centroids)):
                if (own == cell).sum() >= fewest and len(set(whose[own == cell])) >= least:
                    told[cell] += list(points[own == cell])
        for cell, points in enumerate(told):
            if points:
                moved[cell] = np.mean(points, axis=0)
        centroids = moved
    return centroids


@pytest.mark.parametrize(("fewest", "least"), [(1, 1), (6, 1), (6, 2)])
def test_it_is_k_means_with_a_part_of_the_patches_for_each_step(asking, dataset, fewest, least):
    # A job may not ask for cells of one; here it shows that nothing but withholding sets the two apart.
    tokenizer = Codebook(size=12, iterations=3).model_copy(update={"min_members": fewest})
    ask, _ = asking(tokenizer, min_count=least)
    codes = tokenizer.prepare(ask, seed=9)["codebook"]
    clients = []
    for name in ("north", "south", "west"):
        examples = dataset.examples(name, "train")
        random = generator(7, name, "codebook's pictures")
        parts = parts_of(examples.people, 4, least, random)
        clients.append([patches_of(examples.where(parts == part)) for part in range(4)])
    points = np.concatenate([parts[0][0] for parts in clients if least == 1 or len(parts[0][0]) >= 48])
    seeds = draw_seeds(moments(torch.from_numpy(points)), 12, generator(9, "codebook")).numpy()
    expected = naive_lloyd_codebook([parts[1:] for parts in clients], seeds, fewest, least)
    np.testing.assert_allclose(codes.double() * 255, expected, rtol=1e-5, atol=1e-4)
    assert codes.dtype == torch.float32


@given(st.lists(st.integers(0, 60), max_size=200), st.integers(1, 11), st.integers(1, 10))
def test_a_patient_is_in_one_part_and_a_part_is_of_many_patients(people, parts, least):
    people = np.array(people, dtype=np.int64)
    found = parts_of(people, parts, least, np.random.default_rng(0))
    places = {person: set(found[people == person].tolist()) for person in people.tolist()}
    assert all(len(of) == 1 for of in places.values())
    sizes = [sum(of == {part} for of in places.values()) for part in range(max(parts, 2))]
    assert sum(sizes) == len(places)
    assert all(size == 0 or size >= 4 * least for size in sizes[2:])


def test_no_message_holds_a_patch_and_no_cell_of_few_is_disclosed(asking, dataset):
    tokenizer = Codebook(size=60, iterations=2, min_members=5)
    ask, answers = asking(tokenizer, min_count=2)
    tokenizer.prepare(ask, seed=1)
    known = {tuple(row) for name in dataset.clients for row in patches_of(dataset.examples(name, "train"))[0]}
    told = 0
    for update in answers:
        for tensor in update.tensors.values():
            rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim else tensor.reshape(1, 1)
            assert not {tuple(row) for row in rows.tolist()} & known
        if update.ask == CELLS:
            counts, totals = update.tensors["counts"], update.tensors["totals"]
            assert ((counts == 0) | (counts >= 5)).all()
            assert (totals[counts == 0] == 0).all()
            told += int(counts.sum())
    assert 0 < told < 16 * sum(len(dataset.examples(name, "train")) for name in dataset.clients)
    assert len(answers) == 3 * (1 + 2)


def test_a_client_of_few_patches_sends_zeros_and_without_any_other_there_is_no_codebook(asking):
    tokenizer = Codebook(size=4, iterations=2, min_members=60)
    ask, answers = asking(tokenizer, ("west", "north"))
    tokenizer.prepare(ask, seed=0)
    west, north = answers[:2]
    assert all((tensor == 0).all() for tensor in west.tensors.values())
    assert north.tensors["n"] >= 60
    alone, _ = asking(tokenizer, ("west",))
    with pytest.raises(DataError, match=r"no client has patches of enough patients .* bring more pictures"):
        tokenizer.prepare(alone, seed=0)


def test_moments_of_fewer_patches_than_pixels_stay_at_home(asking):
    """Of two pictures of 16 patches: 48 x 48 products would be more equations than there are pixels."""
    tokenizer = Codebook(size=4, min_members=2, pictures=4)
    ask, answers = asking(tokenizer, ("north",), min_count=2)
    with pytest.raises(DataError, match="no client has patches of enough"):
        tokenizer.prepare(ask, seed=0)
    assert answers[0].tensors["n"] == 0


def test_answers_that_cannot_be_are_refused_on_arrival(asking):
    tokenizer = Codebook(size=4, iterations=1, min_members=3)

    def spoil(request, name, change):
        ask, _ = asking(tokenizer)

        def spoilt(asked, tensors, options=None):
            told = list(ask(asked, tensors, options))
            if asked == request:
                told[1] = replace(told[1], tensors={**told[1].tensors, name: change(told[1].tensors[name])})
            return told

        return spoilt

    def one_of_two(counts):
        counts = counts.clone()
        counts[0] = 2
        return counts

    for request, name, change, message in [
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
            tokenizer.prepare(spoil(request, name, change), seed=0)


def test_what_a_client_refuses(asking):
    tokenizer = Codebook(size=4)
    ask, _ = asking(tokenizer)
    with pytest.raises(MessageError, match=r"north was sent centroids of shape \(4, 3\); expected \(4, 48\)"):
        ask(CELLS, {"centroids": torch.zeros(4, 3)})
    with pytest.raises(MessageError, match=r"north was sent centroids of shape \(0,\)"):
        ask(CELLS, {})
    for step in ({}, {"step": 0}, {"step": 11}, {"step": "1"}):
        with pytest.raises(MessageError, match=r"north was asked for step .*; expected 1 to 10"):
            ask(CELLS, {"centroids": torch.zeros(4, 48)}, step)
    with pytest.raises(MessageError, match="knows no request `pictures`"):
        ask("pictures", {})
    large, _ = asking(tokenizer, grid=PatchGrid(4, 4, 8, 8))
    with pytest.raises(DataError, match="north has pictures of 16 x 16 pixels; the encoder takes 32 x 32"):
        large(MOMENTS, {})
    with pytest.raises(DataError, match="the codebook that was given before the first round is lost"):
        tokenizer.tokens(torch.zeros(1, 3, 16, 16), GRID, torch.nn.Identity(), {})
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        Codebook(min_members=1)
