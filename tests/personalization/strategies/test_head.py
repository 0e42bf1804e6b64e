"""The strategy `head`, against a linear layer trained on features that are computed once."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.closeness import assert_close_in_norm
from training.models import build_model
from training.randomness import generator

KEY, EPOCHS, BATCH, RATE, MOMENTUM = "0-personalize", 2, 6, 0.02, 0.9


def test_it_is_a_linear_layer_on_fixed_features(stages, make_job, stand, hospitals, newest):
    job = make_job(stages({"name": "head", "epochs": EPOCHS}))
    stage = stand(job, hospitals)
    stage.run()
    for track, client in (("light", "north"), ("dark", "south")):
        examples = hospitals.examples(client, "train")
        model = build_model(job.model, 3, seed=1).eval()
        model.load_state_dict(stage.start, strict=False)
        images = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        with torch.no_grad():
            features = model.embed(images)
        labels = torch.from_numpy(examples.labels)
        weight = stage.start["encoder.fc.weight"].clone().requires_grad_()
        bias = stage.start["encoder.fc.bias"].clone().requires_grad_()
        for epoch in range(1, EPOCHS + 1):
            optimizer = torch.optim.SGD([weight, bias], RATE, MOMENTUM)
            order = generator(job.seed, KEY, track, epoch, client, "order 0").permutation(len(labels))
            cuts = [cut for cut in range(BATCH, len(order), BATCH) if len(order) - cut > 1]
            for batch in np.split(order, cuts):
                optimizer.zero_grad()
                F.cross_entropy(features[batch] @ weight.T + bias, labels[batch]).backward()
                optimizer.step()
        end = newest(stage, track)
        assert_close_in_norm(end["encoder.fc.weight"], weight)
        assert_close_in_norm(end["encoder.fc.bias"], bias)


def test_statistics_stand_still_whatever_mode_the_objective_asks_for(
    stages, make_job, stand, hospitals, newest, changed
):
    """FixMatch looks at pictures in evaluation mode and then turns training mode on again."""
    data = hospitals.with_labels(
        "train", lambda labels: np.where(np.arange(len(labels)) % 3 == 0, -1, labels)
    )
    objective = {
        "name": "fixmatch",
        "batch_size": 6,
        "threshold": 0.0,
        "optimizer": {"name": "sgd", "lr": 0.02},
    }
    job = make_job(stages({"name": "head", "epochs": 1, "objective": objective}))
    stage = stand(job, data)
    stage.run()
    assert changed(stage.start, newest(stage, "light")) == {"encoder.fc.weight", "encoder.fc.bias"}
