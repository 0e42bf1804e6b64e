"""What a user can get wrong about pre-training, and what becomes of clients that hold little."""

import pytest
import torch

from tests.training.conftest import withheld
from training.errors import QuorumError
from training.models import ModelConfig

VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2},
}
MAE = {"name": "mae", "batch_size": 6, "decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2}
MOCO = {"name": "moco", "batch_size": 6, "features": 8}
FEATURES = {"exchange": {"name": "features"}}
NO_TOKEN = {"sync": {"name": "except", "groups": ["class_token"]}}
SUPERVISED = {"name": "supervised", "batch_size": 6}


def pretraining(objective, **changes):
    return {
        "stage": "pretrain",
        "rounds": 1,
        "objective": objective,
        "aggregator": {"name": "fedavg"},
        **changes,
    }


def vit(**options):
    return {**VIT, "options": {**VIT["options"], **options}}


# The command: a line that says how to mend it, and no training.

WRONG = {
    "an unknown objective": (
        pretraining({**MOCO, "name": "moko"}),
        vit(),
        "unknown objective `moko`; did you mean `moco`?",
    ),
    "patches that do not divide the picture": (
        pretraining(MAE),
        vit(patch_size=12),
        "patches of 12 pixels do not divide pictures of 16; choose data.image_size 12 or 24, or "
        "model.options.patch_size 8",
    ),
    "an encoder without what should stay": (
        pretraining(MAE, **NO_TOKEN),
        vit(class_token=False, global_pool="avg"),
        "the model has no `class_token` to keep apart; choose another group or another model",
    ),
    "an encoder without patches": (
        pretraining(MAE),
        {"name": "resnet18", "options": {"channels": [4, 8, 16, 32]}},
        "mae hides patches from a plain vision transformer; the model's encoder is a ResNet. Choose a model "
        "such as vit_tiny_patch16_224",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_command_says_what_is_wrong_and_what_would_be_right(
    case, train_command, job_file, tiny, tmp_path
):
    stage, model, told = WRONG[case]
    ended = train_command(job_file({**tiny, "model": model, "stages": [stage]}))
    assert ended.code == 2
    assert told in ended.err
    assert "Traceback" not in ended.err
    assert not list(tmp_path.glob("runs/*/checkpoints/*/*"))


# Clients that hold little.


@pytest.fixture
def masked_job(make_job):
    """A job that pre-trains with MAE in so large batches."""

    def build(batch_size=6, **blocks):
        model = ModelConfig(name=VIT["name"], options={**VIT["options"], "img_size": 16})
        stages = [pretraining({**MAE, "batch_size": batch_size})]
        return make_job(stages=stages, **blocks).model_copy(update={"model": model})

    return build


@pytest.fixture
def moco_job(make_job):
    """A job that pre-trains with MoCo and shared features in so large batches."""

    def build(batch_size=6, **blocks):
        return make_job(stages=[pretraining({**MOCO, "batch_size": batch_size}, **FEATURES)], **blocks)

    return build


@pytest.mark.parametrize("build", ["masked_job", "moco_job"])
def test_a_client_with_fewer_pictures_than_a_batch_trains_on_one_batch_of_all(
    build, request, run_job, tmp_path
):
    job = request.getfixturevalue(build)
    # The largest client holds 18 pictures, the others 9 and 7.
    whole, larger, smaller = (
        run_job(job(batch_size=size), out=tmp_path / str(size)).weights("0-pretrain") for size in (18, 500, 6)
    )
    assert all(torch.equal(whole[name], larger[name]) for name in whole)
    assert not all(torch.equal(whole[name], smaller[name]) for name in whole)


ONE = {
    "north": {"light": (9, 3, 0, 3)},
    "south": {"dark": (7, 3, 0, 3)},
    "west": {"light": (1, 3, 0, 3)},
}


def test_a_client_with_one_picture_stops_the_run_or_is_left_out_as_the_job_says(
    masked_job, run_job, make_dataset, tmp_path
):
    data, said = make_dataset(ONE), "west has fewer than two pictures to train on with mae; give it more, or"
    with pytest.raises(QuorumError, match=r"west has one training picture.*engine\.min_clients"):
        run_job(masked_job(), data, tmp_path / "all")
    ran = run_job(masked_job(engine={"min_clients": 2}), data, tmp_path / "two")
    (line,) = ran.lines
    assert line["answered"] == ["north", "south"]
    (failed,) = line["failed"]
    assert failed["client"] == "west"
    assert failed["reason"].startswith(said)


def test_an_exchange_that_opens_needs_every_client_whatever_the_job_says(moco_job, run_job, make_dataset):
    said = "`open` of 0-pretrain needs every client. west: west has fewer than two pictures .* with moco"
    with pytest.raises(QuorumError, match=said):
        run_job(moco_job(engine={"min_clients": 2}), make_dataset(ONE))


@pytest.mark.parametrize("masks", [{}, {"secure_aggregation": {"fewest": 3}}], ids=["open", "masked"])
def test_a_client_with_test_pictures_alone_trains_nothing_and_is_judged_by(
    run_job, make_job, federate_block, make_dataset, masks
):
    held = {name: {"light": (4, 2, 0, 3), "dark": (4, 2, 0, 3)} for name in ("north", "south", "west")}
    data = make_dataset({**held, "judge": {"light": (0, 0, 0, 5)}})
    job = make_job(stages=[federate_block(rounds=1)], privacy={"min_count": 1, **masks})
    ran = run_job(job, data)
    assert [line["asked"] for line in ran.lines] == [["north", "south", "west"]]
    (stage,) = ran.result.summary["stages"]
    assert stage["test"]["n"] == 3 * 6 + 5


def test_a_client_without_labels_pretrains_and_is_not_asked_to_fine_tune(
    run_job, make_job, federate_block, dataset
):
    """Its test pictures still count for the model that the others train."""
    data = withheld(dataset, {"west": 0})
    stages = [
        pretraining(MOCO, **FEATURES),
        {"stage": "finetune", "epochs": 1, "objective": SUPERVISED},
        federate_block(rounds=1),
    ]
    ran = run_job(make_job(stages=stages), data)
    assert {line["stage"]: line["asked"] for line in ran.lines} == {
        "0-pretrain": ["north", "south", "west"],
        "1-finetune": ["north", "south"],
        "2-federate": ["north", "south"],
    }
    _, alone, together = ran.result.summary["stages"]
    assert set(alone["facts"]["by_client"]) == {"north", "south"}
    tests = {name: len(data.examples(name, "test")) for name in data.clients}
    assert alone["test"]["n"] == tests["north"] + tests["south"]
    assert together["test"]["n"] == sum(tests.values())
