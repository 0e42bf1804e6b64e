"""Test-time flips: one definition, in evaluation, in cached features and in the graph that is served."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from registry.bundle.cases import AGE, CaseInput
from registry.bundle.model import Graph
from tests.closeness import assert_close_in_norm
from tests.training.conftest import BASE
from training.models import ModelConfig, initial_model
from training.models.cases import Network
from training.models.classifier import CaseBatch, FrozenBatchNormClassifier
from training.models.export import EncoderPart, export_graph, split_graph

SIZE = 16
CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE,))
CONFIG = ModelConfig(**BASE["model"])


def moved(flips, case=None, config=CONFIG):
    """A model with weights that no layer has at the start, the same with flips and without."""
    model = initial_model(config.model_copy(update={"flips": flips}), 0, SIZE, 2, case).eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                noise = 0.1 * torch.randn(value.shape, generator=random)
                value.add_(noise.abs() if "running_var" in name else noise)
    return model


@pytest.fixture(scope="module")
def images():
    """Pictures whose sides differ: darker to the right."""
    drawn = np.random.default_rng(0).integers(0, 256, (6, SIZE, SIZE, 3)) * np.linspace(1, 0.2, SIZE)[:, None]
    return drawn.astype(np.uint8)


@pytest.fixture(scope="module")
def pixels(images):
    return torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def mirrored(images, axis=-2):
    return np.ascontiguousarray(np.flip(images, axis))


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224"])
def test_an_answer_is_the_mean_over_a_picture_and_its_mirror_image(pixels, name):
    config = CONFIG if name == "resnet18" else ModelConfig(name=name, options={"depth": 1})
    model, plain = moved(True, config=config), moved(False, config=config)
    sides = plain(pixels), plain(torch.from_numpy(mirrored(pixels.numpy(), -1)))
    assert_close_in_norm(model(pixels), (sides[0] + sides[1]) / 2)
    assert (sides[0] - sides[1]).abs().max() > 0.01
    of_sides = plain.features(pixels), plain.features(torch.from_numpy(mirrored(pixels.numpy(), -1)))
    assert_close_in_norm(model.features(pixels), (of_sides[0] + of_sides[1]) / 2)


def test_training_sees_pictures_as_they_lie(pixels):
    both = [model.train()(pixels) for model in (moved(True), moved(False))]
    assert torch.equal(*both)


@pytest.mark.parametrize(
    "wrapped",
    [lambda model: Network(model, nn.Linear(1, 1)), FrozenBatchNormClassifier, deepcopy],
    ids=["with heads", "frozen", "copied"],
)
def test_what_is_built_around_a_model_looks_as_it_does(pixels, wrapped):
    model = moved(True)
    around = wrapped(model).eval()
    assert torch.equal(around.embed(pixels), model.embed(pixels))
    assert not torch.equal(around.embed(pixels), moved(False).embed(pixels))


def test_the_graph_answers_alike_to_a_picture_and_its_mirror_image(images, pixels):
    model = moved(True)
    served = export_graph(model, SIZE)
    for some in (images, images[:1]):
        outputs, turned = Graph(served).run(some), Graph(served).run(mirrored(some))
        assert_close_in_norm(outputs.logits, model(pixels[: len(some)]).numpy())
        assert_close_in_norm(outputs.embedding, model.embed(pixels[: len(some)]).numpy())
        assert_close_in_norm(turned.logits, outputs.logits)
    plain = export_graph(moved(False), SIZE)
    assert np.abs(Graph(plain).run(images).logits - outputs.logits[:1]).max() > 0.01
    assert len(served) < len(plain) + 10_000  # every weight once
    encoder = EncoderPart(split_graph(served).encoder, 1)
    assert_close_in_norm(encoder.features(images), model.embed(pixels).numpy())


@pytest.mark.long
def test_of_a_case_each_picture_is_looked_at_from_both_sides(images, pixels):
    model, plain = moved(True, CASE), moved(False, CASE)
    kinds = np.array([[1, 2], [2, -1], [0, 1]])
    context = np.array([[70], [np.nan], [30]], np.float32)
    shown = pixels.view(3, 2, *pixels.shape[1:])
    case = CaseBatch(shown, torch.from_numpy(kinds), torch.from_numpy(context))
    sides = plain.features(pixels), plain.features(pixels.flip(-1))
    features = ((sides[0] + sides[1]) / 2).view(3, 2, -1)
    expected = plain(CaseBatch(features, case.kinds, case.context))
    assert_close_in_norm(model(case), expected)
    assert (model(case) - plain(case)).abs().max() > 1e-3
    whole = export_graph(model, SIZE)
    graph, encoder = Graph(whole), EncoderPart(split_graph(whole).encoder, 1)
    assert_close_in_norm(encoder.features(images), features.view(6, -1).numpy())
    stored = images.reshape(3, 2, SIZE, SIZE, 3)
    for given in (stored, mirrored(stored)):
        assert_close_in_norm(graph.run_cases(given, kinds, context).logits, expected.numpy())
