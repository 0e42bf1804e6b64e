"""A curious coordinator looks where nobody had: patients who withdraw one after another, and other numbers.

What it has of before and after are mean losses, numbers behind updates, answers by training pictures, and
what is missing of an answer. The hospital is the real node without its network.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clients.data.manifests.csv_file import read_manifest, write_manifest
from clients.node.rejoin import Rejoin
from clients.node.run_pictures import RunPictures
from personalization.stages.calibration_answers import embedding_sums
from personalization.stages.per_client import admitted_together
from tests.attacks.house import DATA, LEAST, PRIVACY, House, someone_in
from tests.attacks.summing import Anybody, identity
from training.algorithms.local_model import LocalModel
from training.data.picture_list import LABEL, PICTURE, PictureList
from training.data.told_before import ToldBefore
from training.engines.nvflare.handshake import shake_hands
from training.engines.nvflare.roster import DataChange
from training.federation.blocks import EvaluateQuestion, read_blocks
from training.federation.client import withdrawn
from training.federation.client.embed import ENCODER, encoder_digest
from training.federation.client.withdrawn import account_for_told
from training.federation.questions import EMBED, EVALUATE, NEIGHBOURS
from training.jobs.client_app import answer_privately
from training.jobs.job import Job
from training.messages.message import GLOBAL, Broadcast, Failure
from training.models import initial_model
from training.models.groups import float_state
from training.updates.secure_aggregation.kept import VALUES, kept_in

GROUPS = ("light", "dark")


@pytest.fixture
def build(tiny, tmp_path, monkeypatch):
    """`build(**changes)`: a hospital and its job."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))

    def make(**changes):
        return House(tmp_path, Job.model_validate({**tiny, "data": DATA, "privacy": PRIVACY, **changes}))

    return make


def another_of(house, cell):
    """A patient of this split, subgroup and class who is there still."""
    known = dict.fromkeys(row.patient_id for row in read_manifest(house.manifest).rows)
    return next(patient for patient in known if house.cell(patient)[:2] == cell[:2])


@pytest.mark.parametrize("accounted", [True, False])
def test_of_who_withdraws_after_others_no_loss_tells(build, monkeypatch, accounted):
    """Enough are gone together, then one more alone. Last, the control: held against the beginning alone."""
    if not accounted:
        alone = lambda self, told, now, data, least: ToldBefore(told, now, GROUPS, 2)  # noqa: E731
        monkeypatch.setattr(RunPictures, "told_before", alone)
    house = build()
    first = house.taken_up("run")
    before = house.ask(first, "fit")
    patient = someone_in(house, "train")
    cell = house.cell(patient)
    group = GROUPS[cell[1]]
    gone = [house.withdrawn(patient, beside=LEAST - 1)]
    together = house.ask(house.taken_up("run", *gone), "fit")
    assert group in together.losses, "of as many as are asked for"
    gone.append(house.withdrawn(another_of(house, cell)))
    one_more = house.taken_up("run", *gone)
    after = house.ask(one_more, "fit")
    assert (group in after.losses) == (not accounted)
    assert after.num_examples == together.num_examples == before.num_examples
    # Nor after a restart of the node, and again once enough are gone since.
    assert (group in house.ask(house.taken_up("run", *gone), "fit").losses) == (not accounted)
    gone += [house.withdrawn(another_of(house, cell)) for _ in range(LEAST - 1)]
    assert group in house.ask(house.taken_up("run", *gone), "fit").losses


@pytest.mark.parametrize("knows", [True, False])
def test_where_the_last_pictures_without_a_label_go_numbers_stay(build, monkeypatch, knows):
    """FixMatch counts all pictures. Last, the control: which kind is counted is guessed by the numbers."""
    if not knows:
        monkeypatch.setattr("training.jobs.client_app.learns_from_all", lambda stage: False)
    federate = {
        "stage": "federate",
        "rounds": 2,
        "objective": {"name": "fixmatch", "batch_size": 8},
        "aggregator": {"name": "fedavg"},
    }
    house = build(stages=[federate], privacy={**PRIVACY, "min_count": 1})  # few without a label are left out
    patient = someone_in(house, "train")
    drawn, read = house.drawn(), read_manifest(house.manifest)
    rows = [
        replace(row, split=drawn[row.image].split, label="" if row.patient_id == patient else row.label)
        for row in read.rows
    ]
    house.manifest = house.folder / "some-unlabelled.csv"
    write_manifest(read.keep(rows), house.manifest)
    before = house.ask(house.taken_up("run"), "fit")
    pictures = house.pictures_of(patient)
    after = house.ask(house.taken_up("run", house.withdrawn(patient)), "fit")
    told = sum(before.num_examples.values()) - sum(after.num_examples.values())
    assert told == (0 if knows else pictures)


def test_a_process_that_is_killed_after_a_withdrawal_tells_as_the_one_before(build, tmp_path):
    """What it agreed on and what losses were of lie on its disk; it cannot be talked into the beginning."""
    house = build()
    before = house.ask(house.taken_up("run"), "fit")
    patient = someone_in(house, "train")
    group = GROUPS[house.cell(patient)[1]]
    change = DataChange(
        client="north", **dict(zip(("before", "after"), house.withdrawn(patient), strict=True))
    )
    path = tmp_path / "run" / "session.json"
    taken_up = house.start("run")
    taken_up.rejoin = Rejoin(path, "s1")
    taken_up.greet(shake_hands(house.job.digest, "s1").model_dump_json())
    assert house.join(taken_up, change)
    in_its_place = house.start("run")
    rejoin = Rejoin(path, "s1")
    assert rejoin.before
    rejoin.replay(in_its_place)
    for handler in (taken_up, in_its_place):
        after = house.ask(handler, "fit")
        assert after.num_examples == before.num_examples
        assert before.losses.keys() - after.losses.keys() == {group}
    # Another roster, which tells of no change, in the same session: what is gone is gone.
    assert house.join(in_its_place)
    again = house.ask(in_its_place, "fit", 2)
    assert again.num_examples == before.num_examples
    assert group not in again.losses


PROBE = {"stage": "probe", "rounds": 1, "objective": {"name": "supervised", "batch_size": 8}, "neighbours": 1}


def embedded(house, handler, number):
    """Its pictures' features are made, with the encoder that the job begins with."""
    model = initial_model(house.job.model, house.job.seed, 16, 2)
    encoder = encoder_digest(LocalModel(model, "cpu", house.job.engine.precision))
    answer = house.ask(handler, EMBED, number, tensors={}, **{ENCODER: encoder})
    assert not isinstance(answer, Failure), answer


def neighbours(house, handler, number):
    """How test pictures are answered by training pictures, by subgroup."""
    question = EvaluateQuestion(split="test", subgroups=GROUPS).model_dump()
    blocks = read_blocks(house.ask(handler, NEIGHBOURS, number, tensors={}, **question).tensors)
    return {name: block.point.confusion for name, block in blocks.items()}


@pytest.mark.parametrize("hidden", [True, False])
def test_training_pictures_of_before_and_after_do_not_answer_both(build, monkeypatch, hidden):
    """Whose nearest picture is gone is answered by another. Last, the control: the class can be read."""
    if not hidden:
        monkeypatch.setattr(ToldBefore, "hidden_losses", lambda *_: frozenset())
    house = build(stages=[PROBE])
    first = house.taken_up("run")
    embedded(house, first, 1)
    before, gone = neighbours(house, first, 2), []
    assert before.keys() == {*GROUPS}
    labels = []
    for _ in range(LEAST - 1):
        patient = someone_in(house, "train")
        labels.append(house.cell(patient)[2])
        gone.append(house.withdrawn(patient))
    second = house.taken_up("run", *gone)
    embedded(house, second, 1)
    after = neighbours(house, second, 2)
    if hidden:
        assert after == {}
        return
    assert after.keys() == {*GROUPS}
    fewer = sum((before[name] - after[name]).sum(axis=0) for name in GROUPS)
    assert fewer.any(), "some picture's nearest one is gone"
    assert labels


def test_what_an_encoder_made_of_their_pictures_goes_with_them(build):
    """And whoever asks on without having features made anew gets no answer from those of before."""
    house = build(stages=[PROBE])
    first = house.taken_up("run")
    embedded(house, first, 1)

    def kept():
        return [path for path in (house.folder / "run").rglob("round-*") if "features" in str(path)]

    assert len(kept()) == 4
    house.taken_up("run")
    assert len(kept()) == 4, "nobody is gone"
    gone = house.withdrawn(someone_in(house, "train"))
    second = house.taken_up("run", gone)
    assert kept() == []
    question = EvaluateQuestion(split="test", subgroups=GROUPS).model_dump()
    answer = house.ask(second, NEIGHBOURS, 1, tensors={}, **question)
    assert isinstance(answer, Failure)
    embedded(house, second, 2)
    assert len(kept()) == 4
    house.taken_up("run", gone)
    assert len(kept()) == 4, "they are made once"


class Without:
    """A dataset without one patient."""

    def __init__(self, dataset, person):
        self._dataset, self._person = dataset, person

    def __getattr__(self, name):
        return getattr(self._dataset, name)

    def examples(self, client, split):
        found = self._dataset.examples(client, split)
        return found.where(found.identities[:, 1] != self._person)


class Embeds:
    """A model whose embeddings are made up."""

    head = SimpleNamespace(num_features=2)

    def run(self, examples):
        made = np.random.default_rng(0).normal(size=(len(examples), 2))
        return SimpleNamespace(embedding=made.astype(np.float32))


@pytest.mark.parametrize("withdrew", [True, False])
def test_which_classes_sums_are_missing_does_not_tell_a_class(make_client, make_job, dataset, withdrew):
    """A patient of the smaller class is gone. Last, the control: its class alone is missing."""
    job = make_job(privacy={"min_count": 2})
    whole = PictureList.of(dataset, "north")
    examples = dataset.examples("north", "train")
    malignant = examples.where(examples.labels == 1)
    person = malignant.identities[-1, 1]
    client = make_client("north", job=job, data=Without(dataset, person))
    now = PictureList.of(client.dataset, "north")
    assert len(whole) - len(now) == 1
    told = ToldBefore(whole, now, GROUPS, 2)
    account_for_told(client.releases, "north", told, 2)
    sums = embedding_sums(Embeds(), replace(client, told=told if withdrew else None), "train")
    assert sums.present.tolist() == ([] if withdrew else [0])
    assert whole.rows[~np.isin(whole.rows[:, PICTURE], now.rows[:, PICTURE]), LABEL] == 1


@pytest.mark.parametrize("accounted", [True, False])
def test_small_subgroups_that_are_answered_of_together_are_held_against_the_census(
    make_client, make_job, make_dataset, monkeypatch, accounted
):
    """A hospital's own model is judged by all its pictures. Last, the control: each is entered by itself."""
    if not accounted:
        monkeypatch.setattr(withdrawn, "small_together", lambda *_: False)
    job = make_job(privacy={"min_count": 4})
    sizes = {"light": (13, 8, 4, 6), "dark": (5, 3, 3, 4), "undeclared": (3, 2, 2, 2)}
    dataset = make_dataset({"north": sizes})
    examples = dataset.examples("north", "validation")
    person = examples.identities[examples.subgroups == 1][0, 1]
    client = make_client("north", job=job, data=Without(dataset, person))
    whole, now = PictureList.of(dataset, "north"), PictureList.of(client.dataset, "north")
    account_for_told(client.releases, "north", ToldBefore(whole, now, GROUPS, 2), 4)
    question = EvaluateQuestion(split="validation", subgroups=(*GROUPS, "undeclared"))
    counted = admitted_together(client, question)
    there = np.bincount(counted["north"].labels, minlength=2) if counted else np.zeros(2, dtype=np.int64)
    missing = np.bincount(examples.labels, minlength=2) - there
    label = examples.labels[examples.subgroups == 1][0]
    assert (missing.tolist() == [int(label == 0), int(label == 1)]) == (not accounted)
    assert accounted or len(counted["north"]) == 12


@pytest.mark.parametrize("kept", [True, False])
def test_under_masks_a_question_that_comes_again_is_answered_the_same(
    make_client, make_job, dataset, monkeypatch, kept
):
    """A round is done again after somebody withdrew, and all others answer as before. Last, the control."""
    if not kept:
        monkeypatch.setattr("training.jobs.client_app.told_again", lambda update, *_: update)
    job = make_job(privacy={"min_count": 2, "counts": {"masks": True}})
    client, signs = make_client("north", job=job), identity("north", Anybody())
    options = EvaluateQuestion(split="validation", subgroups=GROUPS).model_dump()

    def given(to, weights):
        """What the client adds to the sum."""
        answer_privately(
            job, Broadcast("north", "0-federate", 1, EVALUATE, GLOBAL, weights, options), to, signs
        )
        return dict(kept_in(to, Broadcast("north", "0-federate", 1, EVALUATE), EVALUATE, VALUES))

    weights = float_state(client.local_model.model)
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    before = given(client, weights)
    examples = dataset.examples("north", "validation")
    left = Without(dataset, examples.identities[-1, 1])  # of `dark`
    told = ToldBefore(PictureList.of(dataset, "north"), PictureList.of(left, "north"), GROUPS, 2)
    account_for_told(client.releases, "north", told, 2)
    gone = replace(client, dataset=left, told=told)
    again = given(gone, weights)
    assert any(name.endswith("dark") for name in before)
    assert (again.keys() == before.keys()) == kept
    assert not kept or all(torch.equal(again[name], tensor) for name, tensor in before.items())
    other = {name: tensor + 1 for name, tensor in weights.items()}
    assert not any(name.endswith("dark") for name in given(gone, other)), "another question"
