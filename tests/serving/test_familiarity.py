"""A picture unlike those a version was trained on, through the function that answers requests."""

from datetime import UTC, datetime

import numpy as np
import pytest

from registry.bundle.diagnose import ask
from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import Gaussians, Graph
from registry.bundle.pictures.rule import decode_picture
from registry.records import Version
from serving.inference.predictor import LoadedVersion, build_diagnosis, decode
from serving.protocol.parameters import Parameters
from tests.thresholds import concluding


@pytest.mark.parametrize(("away", "decision"), [(0, "report"), (50, "refer")])
def test_it_is_referred_and_the_answer_keeps_its_form(bundle, picture, away, decision):
    content = picture("PNG")
    plain = bundle()
    embedding = Graph(plain.model).run(decode_picture(content, plain.manifest.picture)[None]).embedding
    near = Gaussians(embedding + np.float32(away), np.eye(3, dtype=np.float32))
    known = OutOfDistribution.of(near, ["MEL"], trained_on=80, rate=0.1, n=40, threshold_bin=700)
    drawn = bundle(conclusions=concluding(-3), out_of_distribution=known)
    version = Version(drawn.manifest.model, 1, drawn.digest, drawn.manifest.subgroup, datetime.now(UTC))
    loaded = LoadedVersion.of(version, drawn)
    decoded = decode(loaded, [content], max_pixels=10_000)
    outputs = ask(loaded.graph, [decoded.question])
    told = build_diagnosis(loaded, decoded, outputs, Parameters(), "unknown-tone", request_id="1").model_dump(
        mode="json"
    )
    assert told["decision"] == decision
    warned = [said for said in told["warnings"] if "unlike the pictures the model was trained on" in said]
    assert len(warned) == (away > 0)
    assert "unfamiliar" not in told
