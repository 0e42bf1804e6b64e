"""Counts of predictions: what is in them, and what never leaves a client."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from registry.bundle.counting import count
from registry.bundle.labels import Label
from registry.bundle.metrics.classification import malignancy_auroc
from registry.bundle.score_bins import score_bin
from training.data.dataset import Examples
from training.errors import MessageError
from training.messages import Broadcast, Update
from training.rounds.client.evaluate import evaluate, predict, predictions
from training.rounds.requests import EvaluateRequest, add_blocks, pack_blocks, read_blocks, unpack_blocks

MALIGNANT = np.array([False, True])


def ask(client, **request):
    given = {"split": "validation", "subgroups": ("light", "dark", "undeclared"), **request}
    options = EvaluateRequest(**given).model_dump()
    return evaluate(Broadcast(client.id, "0-federate", 1, "evaluate", options=options), client)


def subgroups_sent(update):
    return {name.partition("/")[2] for name in update.tensors}


@pytest.fixture
def with_validation(make_dataset):
    """North's validation pictures (4 light, 3 dark) with these labels or lesions."""

    def change(labels=None, lesions=None):
        dataset = make_dataset()
        old = dataset.examples("north", "validation")
        dataset.held["north", "validation"] = Examples(
            old.images,
            old.rows,
            old.labels if labels is None else np.array(labels),
            old.subgroups,
            old.lesions if lesions is None else np.array(lesions),
        )
        return dataset

    return change


def test_counts_are_those_of_the_models_own_answers(make_client):
    client = make_client("north")
    blocks = unpack_blocks(ask(client))
    examples, model = client.examples("validation"), client.local_model.model.eval()
    with torch.no_grad():
        images = torch.from_numpy(examples.images.astype(np.float32)).permute(0, 3, 1, 2) / 255
        answers = model(images).argmax(dim=1).numpy()
    for place, name in enumerate(("light", "dark")):
        confusion = np.zeros((2, 2), dtype=int)
        for label, answer, subgroup in zip(examples.labels, answers, examples.subgroups, strict=True):
            confusion[label, answer] += subgroup == place
        np.testing.assert_array_equal(blocks[name].point.confusion, confusion)
        assert blocks[name].point.scores[:, 1].sum() == confusion.sum()


@pytest.mark.parametrize(("minimum", "sent"), [(2, {"light", "undeclared"}), (3, set())])
def test_a_block_under_the_minimum_never_leaves(make_client, make_job, minimum, sent):
    # west holds 3 light and 2 undeclared pictures, each of 2 lesions; a lesion stands for a patient.
    update = ask(make_client("west", job=make_job(privacy={"min_count": minimum})))
    assert subgroups_sent(update) == sent
    assert not sent or all(tensor.dtype == torch.int32 for tensor in update.tensors.values())
    assert update.scalars == update.losses == update.num_examples == {}


def test_only_the_subgroups_that_were_asked_for_are_answered(make_client):
    assert subgroups_sent(ask(make_client("north"), subgroups=("dark",))) == {"dark"}


def test_pictures_without_a_label_count_neither_in_the_block_nor_towards_the_minimum(
    make_client, with_validation
):
    client = make_client("north", with_validation(labels=[0, 1, -1, 0, 1, -1, -1]))
    blocks = unpack_blocks(ask(client))  # of dark, one labelled picture is left, and the minimum is two
    assert {name: block.point.n for name, block in blocks.items()} == {"light": 3}


def test_one_picture_per_lesion_counts_the_first_of_each(make_client, with_validation):
    data = with_validation(labels=[1, 0, 0, 0, 1, 1, 0], lesions=[7, 7, 8, 7, 9, 5, 5])
    client = replace(make_client("north", data), min_count=1)
    blocks = unpack_blocks(ask(client, one_per_lesion=True))
    # light: pictures 0 and 2; dark: 4 and 5.
    assert blocks["light"].point.confusion.sum(axis=1).tolist() == [1, 1]
    assert blocks["dark"].point.confusion.sum(axis=1).tolist() == [0, 2]
    assert unpack_blocks(ask(client))["light"].point.n == 4


@pytest.mark.parametrize(
    ("lesions", "counted"),
    [
        # Of light two patients have two pictures each: as many as min_count; of dark one has, whom the
        # difference to counts of all pictures would tell.
        ([7, 7, 8, 8, 9, 5, 5], {"light": 2, "dark": 3}),
        # The choice comes before the minimum.
        ([7, 7, 7, 7, 1, 2, 3], {"dark": 3}),
    ],
)
def test_one_picture_per_lesion_of_few_patients(make_client, with_validation, lesions, counted):
    blocks = unpack_blocks(ask(make_client("north", with_validation(lesions=lesions)), one_per_lesion=True))
    assert {name: block.point.n for name, block in blocks.items()} == counted


def test_occupied_bins_are_of_several_pictures(make_client, make_job):
    client = make_client("north", job=make_job(privacy={"min_count": 3}))
    for block in unpack_blocks(ask(client)).values():
        for histogram in (*block.point.scores, block.point.confidence):
            of_bin = histogram.sum(axis=0)
            assert of_bin[of_bin > 0].min() >= 2


def block(seed, n):
    rng = np.random.default_rng(seed)
    return count(rng.dirichlet([1, 2], n), rng.integers(0, 2, n), malignant=MALIGNANT)


def test_blocks_add_up_by_subgroup():
    first, second, third = block(1, 5), block(2, 7), block(3, 2)
    total = add_blocks([{"light": first, "dark": second}, {"light": third}, {}])
    np.testing.assert_array_equal(
        total["light"].point.confusion, first.point.confusion + third.point.confusion
    )
    np.testing.assert_array_equal(total["dark"].point.scores, second.point.scores)


def test_blocks_travel_as_named_tensors():
    blocks = {"light": block(1, 5), "a/b": block(2, 3)}
    back = read_blocks(pack_blocks(blocks))
    assert back.keys() == blocks.keys()
    np.testing.assert_array_equal(back["a/b"].point.confidence, blocks["a/b"].point.confidence)


def test_counts_that_do_not_add_up_are_refused_with_the_clients_name():
    tensors = pack_blocks({"light": block(1, 5)})
    tensors["confusion/light"] = tensors["confusion/light"] + 1
    with pytest.raises(MessageError, match="north sent counts that do not add up"):
        unpack_blocks(Update("north", "0-federate", 1, "evaluate", tensors=tensors))


def test_a_model_whose_answers_are_not_finite_is_said_with_the_clients_name(make_client):
    client = make_client("north")
    with torch.no_grad():
        client.local_model.model.encoder.get_classifier().weight.fill_(float("nan"))
    with pytest.raises(MessageError, match="north: the model's answers are no probabilities"):
        ask(client)


FOUR = tuple(
    Label(code=code, name=code, malignancy=kind)
    for code, kind in (("AK", "premalignant"), ("MEL", "malignant"), ("NV", "benign"), ("X", "unknown"))
)


def test_folding_takes_the_highest_class_and_sums_each_side():
    # The second picture's highest class is benign, though AK and MEL together have more.
    probabilities = np.array(
        [[0.1, 0.6, 0.2, 0.1], [0.3, 0.3, 0.4, 0.0], [0.4, 0.1, 0.2, 0.3]], dtype=np.float32
    )
    told = predictions(probabilities, FOUR, folded=True)
    np.testing.assert_allclose(told["probabilities"], [[0.3, 0.7], [0.4, 0.6], [0.5, 0.5]], rtol=1e-6)
    assert told["answers"].tolist() == [1, 0, 1]
    counts = count(labels=np.array([1, 1, 0]), **told).point
    assert counts.confusion.tolist() == [[0, 1], [1, 1]]
    # Confidence is that of the answer: 0.7 right, 0.4 wrong, 0.5 wrong.
    assert counts.confidence[1].nonzero()[0].tolist() == [int(score_bin(np.float32(0.7)))]
    assert counts.confidence[0].nonzero()[0].tolist() == score_bin(np.float32([0.4, 0.5])).tolist()
    assert float(malignancy_auroc(counts)) == 1


def test_a_folded_question_is_answered_with_two_classes(make_client, make_dataset):
    labels = (FOUR[0], FOUR[2])  # both classes of the model, in the job's order: AK first
    dataset = replace(make_dataset(), labels=labels)
    client = make_client("south", dataset)
    (block,) = unpack_blocks(ask(client, folded=True)).values()
    given = dataset.examples("south", "validation")
    expected = predict(client.local_model, given)
    answers = 1 - expected.argmax(axis=1)
    assert block.point.confusion.tolist() == [
        [int(((given.labels == true) & (answers == said)).sum()) for said in (0, 1)] for true in (0, 1)
    ]
