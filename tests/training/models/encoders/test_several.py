"""Several encoders, layers and views in one model: its blocks, their projection, and the exported graph."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from safetensors.torch import save_file

from registry.bundle.cases import AGE, SEX, CaseInput
from registry.bundle.model import Graph
from training.data.dataset import Cases, Examples
from training.errors import JobError
from training.models import ModelConfig, build_model, initial_model
from training.models.classifier import as_inputs
from training.models.export import (
    EncoderPart,
    answer,
    export_graph,
    graph_inputs,
    largest_differences,
    split_graph,
)
from training.models.saliency import cell_rule
from training.models.several_encoders import middle_of, principal, triangle

SIZE = 32
CASE = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))
RESNET = {"name": "resnet18", "options": {"channels": [4, 8, 8, 16], "layers": [1, 1, 1, 1]}}
VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"embed_dim": 12, "depth": 2, "num_heads": 2, "patch_size": 8},
    "normalisation": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}
COUNTS = {"resnet18": 6, "vit_tiny_patch16_224": 10}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    encoders = []
    for number, each in enumerate((VIT, RESNET)):
        path = tmp_path_factory.mktemp("encoders") / f"{number}.safetensors"
        drawn = build_model(ModelConfig(**each), 0, 3 + number, SIZE).encoder
        with torch.no_grad():
            for name, tensor in drawn.state_dict().items():
                if tensor.is_floating_point() and not name.endswith("running_var"):
                    tensor.add_(0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(5)))
        save_file(drawn.state_dict(), path)
        layers = {"layers": [0, 1]} if each is VIT else {}
        encoders.append({**each, "weights": str(path), "components": COUNTS[each["name"]], **layers})
    return ModelConfig(encoders=encoders, views=["full", "center"], fusion={"width": 0})


def pictures(n=40):
    return np.random.default_rng(0).integers(0, 256, (n, SIZE, SIZE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def model(config):
    """Projected as on these pictures, with a head that is not zero."""
    made = initial_model(config, 0, SIZE, 3, CASE).eval()
    several = made.encoder
    shown = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        for n, raw in enumerate(several.forward_features(shown)):
            raw = raw.double()
            centre, rows = principal(len(raw), raw.sum(dim=0), triangle(raw.T @ raw), several.kept[n])
            several.get_buffer(f"centre{n}").copy_(centre)
            several.get_buffer(f"components{n}").copy_(rows)
        torch.nn.init.normal_(made.head.weight, std=0.3, generator=torch.Generator().manual_seed(0))
    return made


def blocks_by_hand(config, shown):
    """The raw features of each encoder and view, without the module that makes them together."""
    inside = slice(3, 29)  # 26 of 32 pixels
    centre = F.interpolate(shown[:, :, inside, inside], (SIZE, SIZE), mode="bicubic").clamp(0, 1)
    for each, colours in zip(config.encoders, (0.5, None), strict=True):
        alone = build_model(
            ModelConfig(name=each.name, weights=each.weights, options=each.options), 0, 0, SIZE
        ).encoder.eval()
        for view in (shown, centre):
            mean = torch.tensor([0.485, 0.456, 0.406] if colours is None else [0.5] * 3).view(1, 3, 1, 1)
            std = torch.tensor([0.229, 0.224, 0.225] if colours is None else [0.5] * 3).view(1, 3, 1, 1)
            seen = (view - mean) / std
            if colours is None:
                yield alone.forward_features(seen).mean(dim=(2, 3))
                continue
            tokens, kept = alone._pos_embed(alone.patch_embed(seen)), []
            for number, block in enumerate(alone.blocks):
                tokens = block(tokens)
                if number in each.layers:
                    normed = alone.norm(tokens)
                    kept += [normed[:, 0], normed[:, 1:].mean(dim=1)]
            yield torch.cat(kept, dim=1)


def test_blocks_are_layers_and_views_projected_to_their_principal_components(config, model):
    shown = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        raw, features = model.encoder.forward_features(shown), model.features(shown)
        expected = list(blocks_by_hand(config, shown))
    start = 0
    for found, wanted, count in zip(raw, expected, (10, 10, 6, 6), strict=True):
        assert torch.allclose(found, wanted, atol=1e-5)
        centred = (wanted - wanted.mean(dim=0)).double().numpy()
        left, values, _ = np.linalg.svd(centred, full_matrices=False)  # not by a Gram matrix
        scale = np.sqrt((values[:count] ** 2).mean() / len(centred))
        block = features[:, start : start + count].double().numpy()
        np.testing.assert_allclose(np.abs(block), np.abs(left * values)[:, :count] / scale, atol=2e-4)
        start += count
    assert start == features.shape[1] == model.num_features


def test_the_graph_answers_as_torch_does_for_cases_of_several_pictures(model):
    images = pictures(9)
    cases = Cases(
        np.array([[0, 1, -1], [2, -1, -1], [3, 4, 5], [6, -1, -1], [7, 8, -1]]),
        np.array([[1, 2, -1], [2, -1, -1], [1, 1, 2], [0, -1, -1], [2, 0, -1]]),
        np.array([[70, 1], [np.nan, 0], [np.nan] * 2, [np.nan] * 2, [33, np.nan]], np.float32),
    )
    numbers = np.arange(5)
    examples = Examples(images, cases.pictures[:, 0], numbers % 3, 0 * numbers, numbers, cases=cases)
    graph = export_graph(model, SIZE)
    outputs = answer(Graph(graph), graph_inputs(examples, numbers))
    inputs = as_inputs(examples, numbers, torch.device("cpu"))
    with torch.no_grad():
        logits, embedded = model(inputs).numpy(), model.embed(inputs).numpy()
        features = model.features(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255).numpy()
    assert np.abs(outputs.logits - logits).max() < 1e-4
    width = model.num_features  # case 1 is picture 2, of kind 2, whose features the head takes as they are
    assert np.abs(embedded[1, 2 * width : 3 * width] - features[2]).max() < 1e-5
    assert np.ptp(outputs.logits[:, 0]) > 0.1
    assert largest_differences(graph, model, examples, 1).max() < 1e-5
    assert cell_rule(model, SIZE) is None
    first = EncoderPart(split_graph(graph).encoder, 1)
    assert np.abs(first.features(images) - features).max() < 1e-4


def test_the_middle_is_resampled_as_torch_resamples_it():
    picture = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    wanted = F.interpolate(picture[:, :, 22:202, 22:202], (224, 224), mode="bicubic")
    found = middle_of(224) @ picture @ middle_of(224).T
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "resnet18"}, "not both"),
        ({"weights": "package:some"}, "are of one encoder"),
        ({"flips": True}, "are of one encoder"),
        ({"views": []}, "views are none"),
        ({"views": ["full", "full"]}, "name each once"),
        ({"encoders": []}, "not both"),
        ({"encoders": [], "name": "resnet18"}, "views are of `encoders`"),
    ],
)
def test_two_ways_to_name_encoders_do_not_mix(config, changes, said):
    plain = config.model_dump()
    assert ModelConfig.model_validate(plain) == config
    with pytest.raises(ValidationError, match=said):
        ModelConfig.model_validate({**plain, **changes})


@pytest.mark.parametrize(
    ("place", "changes", "said"),
    [
        (0, {"layers": [2]}, "has blocks 0 to 1"),
        (1, {"layers": [1]}, "is no ViT"),
        (1, {"components": 17}, "17 components .* whose features here are 16"),
        (1, {"weights": "/no/model.bin"}, r"^model\.encoders\.1\.weights: /no/model\.bin does"),
    ],
)
def test_an_encoder_has_its_layers_and_components(config, place, changes, said):
    encoders = list(config.encoders)
    encoders[place] = encoders[place].model_copy(update=changes)
    with pytest.raises(JobError, match=said):
        initial_model(config.model_copy(update={"encoders": tuple(encoders)}), 0, SIZE, 3, CASE)
