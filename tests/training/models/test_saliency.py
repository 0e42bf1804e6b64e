"""Maps of an exported model: they add up to what the linear head says, wherever a picture lies."""

import numpy as np
import pytest
import torch

from registry.bundle.cases import CaseInput, read_given
from registry.bundle.diagnose import Question
from registry.bundle.model import Graph, Promise
from registry.bundle.model_check import check_answers
from serving.inference.batcher import run_batch
from tests.closeness import assert_close_in_norm
from tests.training.conftest import BASE
from tests.training.models.conftest import stirred
from training.models import ModelConfig, build_model, initial_model
from training.models.cases import FusionConfig
from training.models.export import ServedCases, ServedModel, export_graph, set_temperature
from training.models.saliency import cell_rule

SIZE = 64
RESNET = {"name": "resnet18", "options": {"channels": [4, 8, 8, 12]}}
NETWORKS = {
    "resnet": (RESNET, "mean"),
    "convnext": ({"name": "convnext_atto", "options": {"depths": [1, 1, 1, 1]}}, "norm of mean"),
    "swin": ({"name": "swin_tiny_patch4_window7_224", "options": {"depths": [1, 1, 1, 1]}}, "mean"),
    "vit": ({"name": "vit_tiny_patch16_224", "options": {"depth": 1}}, "token"),
    "vit of means": (
        {"name": "vit_tiny_patch16_224", "options": {"depth": 1, "global_pool": "avg"}},
        "norm of mean",
    ),
}


def pictures(number=3):
    return torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (number, SIZE, SIZE, 3), dtype=np.uint8)
    )


def centred(values):
    return values - values.mean(1, keepdims=True)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("flips", [False, True])
def test_the_cells_of_a_map_add_up_to_the_logits(name, flips):
    config, pooling = NETWORKS[name]
    model = stirred(build_model(ModelConfig(**config, flips=flips), 3, 0, SIZE))
    rule = cell_rule(model, SIZE)
    assert rule.pooling == pooling
    with torch.no_grad():
        _, logits, embedding, maps = ServedModel(model, 1.0, rule)(pictures())
        plain = ServedModel(model, 1.0)(pictures())
    head = model.encoder.get_classifier()
    assert_close_in_norm(embedding, plain[2])
    assert_close_in_norm(logits, plain[1])
    assert maps.shape[:2] == (3, 3)
    assert maps.std() > 0.01
    if pooling != "token":
        found = maps.mean(dim=(2, 3)).detach().numpy()
        assert_close_in_norm(found, centred((logits - head.bias).detach().numpy()), 1e-4)


def test_the_cells_are_those_of_the_last_feature_map_by_hand():
    model = stirred(build_model(ModelConfig(**RESNET), 3, 0))
    with torch.no_grad():
        scaled = pictures(1).permute(0, 3, 1, 2).float() / 255
        features = model.encoder.forward_features((scaled - model.mean) / model.std)[0].numpy()
        found = ServedModel(model, 1.0, cell_rule(model, SIZE))(pictures(1))[3][0].numpy()
    weight = model.encoder.fc.weight.detach().numpy()
    for k in range(3):
        for row in range(2):
            for column in range(2):
                by_hand = sum(
                    (weight[k, j] - weight[:, j].mean()) * features[j, row, column] for j in range(12)
                )
                assert found[k, row, column] == pytest.approx(by_hand, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("config", [{"name": "mobilenetv3_small_050"}, {**RESNET, "size": 32}])
def test_an_encoder_that_pools_otherwise_or_to_one_cell_has_no_map(config):
    size = config.pop("size", 32) if "size" in config else 32
    model = build_model(ModelConfig(**config), 3, 0).eval()
    assert cell_rule(model, size) is None


@pytest.fixture(scope="module")
def exported():
    """A classifier, and its graph."""
    model = stirred(build_model(ModelConfig(**BASE["model"]), 2, 0), 0.1)
    return model, export_graph(model, SIZE)


def test_the_graph_tells_the_same_map_and_only_where_it_is_asked(exported):
    model, content = exported
    graph = Graph(content)
    images = pictures().numpy()
    with torch.no_grad():
        expected = ServedModel(model, 1.0, cell_rule(model, SIZE))(pictures())[3].numpy()
    outputs = graph.run(images, with_map=True)
    assert graph.map_shape == (2, 2)
    assert_close_in_norm(outputs.map, expected, 1e-4)
    assert graph.run(images).map is None
    np.testing.assert_array_equal(graph.run(images).probabilities, outputs.probabilities)
    hot = Graph(set_temperature(content, 3.0))
    np.testing.assert_array_equal(hot.run(images, with_map=True).map, outputs.map)


@pytest.mark.long
def test_each_picture_of_a_case_has_its_map_and_only_who_asked():
    case = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=())
    model = stirred(initial_model(ModelConfig(**RESNET, fusion=FusionConfig(width=4)), 0, SIZE, 3, case))
    graph = Graph(export_graph(model, SIZE))
    assert graph.map_shape == (2, 2)
    images = pictures().numpy()
    both = read_given(case, ["close-up", "dermoscopic"], {})
    alone = read_given(case, [None], {})
    requests = [
        Question(images[:1], alone),
        Question(images[:2], both, with_map=True),
        Question(images[2:], alone, with_map=True),
    ]
    first, second, third = run_batch(graph, requests)
    assert first.map is None
    assert second.map.shape == (1, 2, 3, 2, 2)
    assert third.map.shape == (1, 1, 3, 2, 2)
    (by_itself,) = run_batch(graph, [requests[1]])
    assert_close_in_norm(second.map, by_itself.map, 1e-4)
    check_answers(graph, Promise(SIZE, 3, slots=3, kinds=2))


def test_the_maps_of_a_case_add_up_to_what_its_pictures_say():
    case = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=())
    model = stirred(initial_model(ModelConfig(**RESNET, fusion=FusionConfig(width=4)), 0, SIZE, 3, case))
    kinds = torch.tensor([[1, 2, -1], [1, 1, 2], [0, -1, -1]])
    images = pictures(9).view(3, 3, SIZE, SIZE, 3)
    with torch.no_grad():
        _, logits, _, maps, _ = ServedCases(model, torch.ones(8), cell_rule(model, SIZE))(images, kinds)
        nothing = model.head.weight.clone()
        width = model.fusion.kinds * model.num_features
        of_pictures = nothing[:, :width]
        model.head.weight[:, width:] = 0
        model.head.bias.zero_()
        _, alone, _, _, _ = ServedCases(model, torch.ones(8), cell_rule(model, SIZE))(images, kinds)
    assert of_pictures.abs().sum() > 0
    assert not torch.allclose(alone, logits)
    assert_close_in_norm(maps.mean(dim=(3, 4)).sum(dim=1).numpy(), centred(alone.numpy()), 1e-4)
    assert not maps[kinds < 0].any()
    assert maps[kinds >= 0].abs().amax(dim=(1, 2, 3)).min() > 0
