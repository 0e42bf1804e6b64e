"""Rounds on cases with every setting that makes training fit: resumed exactly, and judged as served."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from registry.bundle.cases import CaseInput, read_pattern
from registry.bundle.decision import decide
from registry.bundle.labels import malignant_classes
from registry.bundle.model import Graph
from training.data.dataset import Cases
from training.data.settings import CasesConfig
from training.errors import JobError
from training.models.export import answer, graph_inputs
from training.rounds.server.checkpoint import Checkpoints

CASES = {"slots": 2, "kinds": ["close-up", "dermoscopic"], "facts": ["age"]}
FITS = {
    "rounds": 3,
    "objective": {"name": "supervised", "batch_size": 6, "label_smoothing": 0.1, "mixup": 0.4},
    "progressive_resizing": {"rounds": 2, "image_size": 8},
}


@dataclass(frozen=True)
class OfCases:
    """A made-up dataset whose every picture has a fellow of the other kind, but every fourth, and an age."""

    inner: object
    case: CaseInput = CasesConfig(**CASES).input

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def examples(self, client, split):
        examples = self.inner.examples(client, split)
        rows, alone = examples.rows, np.arange(len(examples)) % 4 == 3
        pictures = np.stack([rows, np.where(alone, -1, np.roll(rows, 1))], axis=1)
        kinds = np.where(pictures < 0, -1, [1, 2])
        ages = np.where(alone, np.nan, 40 + 30 * examples.labels)[:, None].astype(np.float32)
        return replace(examples, cases=Cases(pictures, kinds, ages))


@pytest.fixture
def cases(dataset):
    return OfCases(dataset)


@pytest.fixture
def fitting_job(make_job, federate_block):
    return make_fitting_job(make_job, federate_block)


def make_fitting_job(make_job, federate_block, calibrate=(), **blocks):
    stages = [federate_block(**FITS), {"stage": "export"}, {"stage": "calibrate", **dict(calibrate)}]
    model = {"flips": True, "fusion": {"width": 0}}
    return make_job(stages=stages, data={"unit": "lesion", "cases": CASES}, model=model, **blocks)


def test_a_personal_head_of_cases_leaves_the_encoder_as_it_is(
    make_job, run_job, federate_block, cases, monkeypatch
):
    seen, save = {}, Checkpoints.save

    def save_and_look(self, checkpoint):
        seen.update(checkpoint.tensors)
        save(self, checkpoint)

    monkeypatch.setattr(Checkpoints, "save", save_and_look)
    personalize = {"stage": "personalize", "strategy": {"name": "head", "epochs": 1}}
    model = {"name": "resnet18", "options": {"channels": [4, 4, 8, 8]}}
    data = {"unit": "lesion", "cases": CASES}
    job = make_job(stages=[federate_block(rounds=1), personalize], data=data, model=model)
    begun = run_job(job, cases).weights()
    for tone in ("light", "dark"):
        moved = {name for name, value in begun.items() if not value.equal(seen[f"{tone}/weights/{name}"])}
        assert {name.partition(".")[0] for name in moved} == {"fusion", "head"}


def judged(graph, cases, shown=lambda *all_of_it: all_of_it):
    """How many test cases a graph answers rightly, and of how many: those of which something is `shown`."""
    right, n = 0, 0
    for client in cases.clients:
        examples = cases.examples(client, "test")
        images, *rest = graph_inputs(examples, np.arange(len(examples)))
        kinds, context = shown(*rest)
        left = (kinds >= 0).any(axis=1)
        given = graph.run_cases(images[left], kinds[left], context[left]).probabilities
        right += int((given.argmax(axis=1) == examples.labels[left]).sum())
        n += int(left.sum())
    return right, n


def test_the_figures_are_those_of_the_graph_that_is_served(fitting_job, run_job, cases):
    ran = run_job(fitting_job, cases)
    graph = Graph(ran.result.stages["2-calibrate"].outcome.bundles["global"].graph)
    for client in cases.clients:
        examples = cases.examples(client, "test")
        images, *rest = graph_inputs(examples, np.arange(len(examples)))
        given = answer(graph, (images, *rest)).logits
        mirrored = answer(graph, (np.ascontiguousarray(images[..., ::-1, :]), *rest)).logits
        np.testing.assert_allclose(mirrored, given, atol=1e-5)
    test = ran.result.summary["test"]
    assert (round(test["accuracy"] * test["n"]), test["n"]) == judged(graph, cases)
    assert graph.size == 16


@pytest.mark.parametrize("width", [0, 4])
def test_a_converged_head_on_cases_is_exported_as_it_was_judged(
    make_job, run_job, cases, encoder_file, width
):
    """Without a perceptron the facts are the head's own columns; with one the fit is refused."""
    job = make_job(
        stages=[
            {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}},
            {"stage": "export"},
        ],
        data={"unit": "lesion", "cases": CASES},
        model={"weights": encoder_file, "flips": True, "fusion": {"width": width}},
        privacy={"min_count": 1},
    )
    if width:
        with pytest.raises(JobError, match=r"fusion\.context.*width: 0"):
            run_job(job, cases)
        return
    ran = run_job(job, cases)
    graph = Graph(ran.result.stages["1-export"].outcome.bundles["global"].graph)
    test = ran.result.summary["test"]
    assert round(test["accuracy"] * test["n"]) == judged(graph, cases)[0]


@pytest.mark.long
def test_figures_of_a_pattern_or_without_a_part_are_of_the_graph_that_is_given_nothing_else(
    make_job, federate_block, run_job, cases
):
    """Also of a pattern that is called as a part that is left out elsewhere."""
    ran = run_job(make_fitting_job(make_job, federate_block, privacy={"min_count": 1}), cases)
    calibrated = ran.result.stages["2-calibrate"].outcome
    graph, told = Graph(calibrated.bundles["global"].graph), calibrated.facts
    assert told["left_out"].keys() == {"close-up", "dermoscopic", "age"}

    def check(figures, shown):
        assert (figures["n"], round(figures["accuracy"] * figures["n"])) == judged(graph, cases, shown)[::-1]

    check(told["left_out"]["age"], lambda kinds, context: (kinds, np.full_like(context, np.nan)))
    for place, kind in enumerate(CASES["kinds"], start=1):

        def alone(kinds, context, place=place):
            return np.where(kinds == place, kinds, -1), np.full_like(context, np.nan)

        def without(kinds, context, place=place):
            return np.where(kinds == place, -1, kinds), context

        check(told["patterns"][kind], alone)
        check(told["left_out"][kind], without)


def test_what_is_decided_under_a_pattern_at_a_working_point_is_what_was_counted(
    make_job, federate_block, run_job, cases
):
    asks = {"sensitivity": 0.9, "coverage": 0.5, "target_risk": 0.9}
    job = make_fitting_job(make_job, federate_block, asks, privacy={"min_count": 1})
    calibrated = run_job(job, cases).result.stages["2-calibrate"].outcome
    bundle = calibrated.bundles["global"]
    graph, manifest = Graph(bundle.graph), bundle.manifest
    fits = calibrated.facts["models"]["global"]["patterns"]
    assert all(one.conformal.guarantee == "global" for one in manifest.patterns)
    for place, kind in enumerate(CASES["kinds"]):
        pattern = read_pattern(kind)
        own = manifest.rules_of(pattern).working_point
        assert {name: getattr(own, name) for name in fits[kind]["working_point"]} == fits[kind][
            "working_point"
        ]
        decisions, malignant = decided_under(pattern, 1 + place, cases, "test", graph, manifest)
        above = np.array([one.malignancy.above for one in decisions])
        figures = calibrated.facts["patterns"][kind]
        assert figures["sensitivity_at_threshold"] == pytest.approx(above[malignant].mean())
        assert figures["specificity_at_threshold"] == pytest.approx(1 - above[~np.array(malignant)].mean())
        assert figures["reported"] == pytest.approx(np.mean([one.reported for one in decisions]))
        levels = [one.triage.level for one in decisions]
        answered = [one.reported or level != "routine" for one, level in zip(decisions, levels, strict=True)]
        assert figures["answered"] == pytest.approx(np.mean(answered))


def decided_under(pattern, kind, cases, split, graph, manifest):
    """Of cases of one picture, of this kind: decisions, and which are malignant; to fit, one a lesion."""
    decisions, malignant = [], []
    for client in cases.clients:
        examples = cases.examples(client, split)
        images, kinds, context = graph_inputs(examples, np.arange(len(examples)))
        kinds = np.where(kinds == kind, kinds, -1)
        left = np.flatnonzero((kinds >= 0).any(axis=1))
        if split == "calibration":
            left = left[np.unique(examples.lesions[left], return_index=True)[1]]
        nothing = np.full_like(context[left], np.nan)
        given = graph.run_cases(images[left], kinds[left], nothing).probabilities
        decisions += [decide(row, manifest, pattern=pattern) for row in given]
        malignant += malignant_classes(manifest.labels)[examples.labels[left]].tolist()
    return decisions, malignant
