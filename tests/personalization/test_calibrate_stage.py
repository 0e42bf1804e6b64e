"""The stage `calibrate` on graphs built here by hand, whose every answer NumPy can give too."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import binom
from sklearn.covariance import oas

from personalization.stages.calibration_answers import TONES as HOW_MANY
from registry.bundle.consistency import contradictions
from registry.bundle.decision import decide
from registry.bundle.folder import bundle_digest
from registry.bundle.labels import Subgroup, TonePatients
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile, canonical, read_manifest
from registry.bundle.model import Graph, distance_bin, upper_edge
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS, score_bin
from registry.bundle.skin_tone import ToneRanges
from training.errors import JobError
from training.jobs.stages.base import BundleDraft, StageResult
from training.messages import GLOBAL
from training.models.export import as_bytes
from training.privacy.settings import CountsConfig, PrivacyConfig
from training.rounds.requests import EMBED

HOLDER = {"light": "north", "dark": "south"}
TONES = {"light": ("1", "2"), "dark": ("5", "6")}


def sharpness(name: str) -> float:
    """How overconfident each made-up model is."""
    return {GLOBAL: 25.0, "light": 40.0, "dark": 15.0}[name]


def weights(name: str) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.array([[1.0, -0.6, -0.4], [-0.5, 1.0, -0.5], [-0.5, -0.4, 1.0]]) * sharpness(name)
    return matrix.astype(np.float32), np.array([0.1, 0.3, -0.2], np.float32)


def logits_of(name: str, images: np.ndarray) -> np.ndarray:
    """What the graph computes before its temperature: a linear map of the mean colour."""
    matrix, bias = weights(name)
    return (images.astype(np.float32) / 255).mean(axis=(1, 2)) @ matrix + bias


def graph(name: str, side: int = 16) -> bytes:
    """Mean colour, a linear layer, a temperature of 1 and a softmax, as ONNX."""
    matrix, bias = weights(name)
    constants = {
        "scale": np.array(255, np.float32),
        "sides": np.array([1, 2], np.int64),
        "matrix": matrix,
        "bias": bias,
        "temperature": np.array([1], np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["images"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["floats", "scale"], ["scaled"]),
        helper.make_node("ReduceMean", ["scaled", "sides"], ["embedding"], keepdims=0),
        helper.make_node("MatMul", ["embedding", "matrix"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["raw"]),
        helper.make_node("Div", ["raw", "temperature"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    answers = [
        helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", 3])
        for output in ("probabilities", "logits", "embedding")
    ]
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", side, side, 3])
    initial = [numpy_helper.from_array(value, at) for at, value in constants.items()]
    made = helper.make_graph(nodes, "by hand", [images], answers, initial)
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(made, opset_imports=opset, ir_version=10).SerializeToString()


def exported(job, dataset) -> StageResult:
    """What a stage of export would leave: three models that promise nothing yet."""
    bundles = {}
    for name in (GLOBAL, *TONES):
        whom = Subgroup() if name == GLOBAL else Subgroup(name=name, scale="fitzpatrick", values=TONES[name])
        content = graph(name)
        manifest = BundleManifest(
            model=job.name,
            file=ModelFile.of(content),
            labels=dataset.labels,
            picture=job.data.picture,
            subgroup=whom,
            lineage=Lineage(job=job.digest, recipe=job.name, seed=job.seed, code_version="0"),
        )
        bundles[name] = BundleDraft(manifest, content)
    return StageResult({GLOBAL: {}, "light": {}, "dark": {}}, bundles)


def calibrate_job(make_job, privacy: int = 2, **settings):
    strategy = {"name": "finetune", "epochs": 1, "objective": {"name": "supervised"}}
    stages = [
        {"stage": "personalize", "strategy": strategy},
        {"stage": "export"},
        {"stage": "calibrate", **settings},
    ]
    return make_job(stages, privacy={"min_count": privacy})


def run(job, dataset, stand, name: str = "run") -> StageResult:
    return stand(job, dataset, place=2, name=name).run(exported(job, dataset))


@pytest.fixture
def calibrated(make_job, stand, hospitals):
    """`calibrated(data=hospitals, name="run", **settings)`: what the stage leaves with these settings."""

    def make(data=hospitals, name="run", **settings):
        return run(calibrate_job(make_job, **settings), data, stand, name)

    return make


def answered_by(name: str) -> tuple[str, ...]:
    return tuple(HOLDER) if name == GLOBAL else (name,)


def pictures(dataset, name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels on which a model is calibrated, one picture of each lesion, or judged."""
    parts = [dataset.examples(HOLDER[subgroup], split) for subgroup in answered_by(name)]
    kept = [
        np.unique(part.lesions, return_index=True)[1] if split == "calibration" else np.arange(len(part))
        for part in parts
    ]
    return tuple(
        np.concatenate([getattr(part, of)[rows] for part, rows in zip(parts, kept, strict=True)])
        for of in ("images", "labels")
    )


def best_temperature(dataset, name: str) -> tuple[float, int]:
    """The exact optimum on the pooled logits."""
    images, labels = pictures(dataset, name, "calibration")
    logits = logits_of(name, images).astype(np.float64)

    def loss(log_t: float) -> float:
        return -log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(labels)), labels].mean()

    found = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x)), len(labels)


def test_temperatures_are_the_optimum_on_pooled_logits_shrunk_in_log(hospitals, calibrated):
    models = calibrated().facts["models"]
    # Sums of so few pictures are rounded by a good part of what the fit itself is uncertain by.
    of_all, n = best_temperature(hospitals, GLOBAL)
    assert models[GLOBAL]["temperature"]["value"] == pytest.approx(of_all, rel=0.1)
    assert models[GLOBAL]["temperature"]["n"] == n == 42
    for name in HOLDER:
        own, n = best_temperature(hospitals, name)
        shrunk = np.exp((n * np.log(own) + 20 * np.log(of_all)) / (n + 20))
        assert models[name]["temperature"]["fitted"] == pytest.approx(own, rel=0.1)
        assert models[name]["temperature"]["value"] == pytest.approx(shrunk, rel=0.1)
    assert models["light"]["temperature"]["value"] > 1.05, "a made-up model that is too sure of itself"


def test_the_temperature_is_in_the_graph_and_changes_no_answer(hospitals, calibrated):
    outcome = calibrated()
    for name, bundle in outcome.bundles.items():
        images, _ = pictures(hospitals, name, "test")
        before, after = Graph(graph(name)).run(images), Graph(bundle.graph).run(images)
        temperature = bundle.manifest.temperature.value
        assert temperature == outcome.facts["models"][name]["temperature"]["value"]
        assert temperature != pytest.approx(1, abs=0.02)
        np.testing.assert_allclose(after.logits, logits_of(name, images) / temperature, rtol=1e-4, atol=1e-4)
        expected = softmax(logits_of(name, images) / temperature, axis=1)
        np.testing.assert_allclose(after.probabilities, expected, atol=1e-5)
        assert np.abs(after.probabilities - before.probabilities).max() > 0.01
        assert (after.probabilities.argmax(axis=1) == before.probabilities.argmax(axis=1)).all()
        np.testing.assert_array_equal(after.embedding, before.embedding)


def test_reference_histograms_tell_how_they_were_merged(hospitals, calibrated):
    bundles = calibrated(privacy=6).bundles
    everybody = bundles[GLOBAL].manifest.reference
    told = {one.subgroup.name: one for one in everybody.by_subgroup}
    assert set(told) == set(HOLDER)
    assert (everybody.smallest_cell, everybody.parts) == (3, 2)  # one subgroup at each of two hospitals
    for name, one in told.items():
        assert (one.smallest_cell, one.parts) == (3, 1)
        assert min(count for row in (one.confidence, *one.scores) for count in row if count) >= 3
        assert bundles[name].manifest.reference.parts == 1
    fine = calibrated(name="fine").bundles[GLOBAL].manifest
    assert fine.reference.smallest_cell == 1


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_thresholds_are_those_of_the_served_probabilities(coverage, hospitals, calibrated):
    outcome = calibrated(coverage=coverage, target_risk=0.4)
    for name, bundle in outcome.bundles.items():
        images, labels = pictures(hospitals, name, "calibration")
        served = Graph(bundle.graph).run(images).probabilities
        of_truth = np.sort(score_bin(served[np.arange(len(labels)), labels]))[::-1]
        rank = ceil((len(labels) + 1) * Fraction(str(coverage)))
        assert bundle.manifest.conformal.n == len(labels)
        expected = of_truth[rank - 1] if rank <= len(labels) else 0
        assert bundle.manifest.conformal.threshold_bin == expected
        assert bundle.manifest.conformal.alpha == pytest.approx(1 - coverage)

        metrics, covered = bundle.manifest.metrics, []
        for subgroup in answered_by(name):
            part = hospitals.examples(HOLDER[subgroup], "test")
            inside = score_bin(Graph(bundle.graph).run(part.images).probabilities) >= expected
            covered.append(inside[np.arange(len(part.labels)), part.labels])
            figures = metrics["by_subgroup"][subgroup]
            assert figures["coverage"] == pytest.approx(covered[-1].mean())
            low, high = figures["intervals"]["coverage"]
            assert low <= figures["coverage"] <= high
        assert metrics["coverage"] == pytest.approx(np.concatenate(covered).mean())
        assert set(metrics["intervals"]) >= {"coverage", "accuracy"}


@pytest.mark.parametrize("sensitivity", [0.6, 0.95])
def test_a_working_point_is_that_of_the_served_probabilities(sensitivity, hospitals, calibrated):
    outcome = calibrated(sensitivity=sensitivity)
    for name, bundle in outcome.bundles.items():
        images, labels = pictures(hospitals, name, "calibration")
        malignancy = score_bin(Graph(bundle.graph).run(images).probabilities[:, 0])  # mel alone is malignant
        own = np.sort(malignancy[labels == 0])
        missed = [m for m in range(len(own)) if binom.cdf(m, len(own), 1 - sensitivity) <= 0.05]
        point = bundle.manifest.working_point
        assert (point.target, point.level, point.n) == (sensitivity, 0.95, len(own))
        assert point.reached is bool(missed)
        assert point.threshold_bin == own[max(missed, default=0)]
        assert asdict_of(point) == outcome.facts["models"][name]["working_point"]
        assert read_manifest(canonical(bundle.manifest)) == bundle.manifest
        assert bundle.manifest.triage.ruled_out_below <= point.threshold_bin


@pytest.mark.parametrize(("missed", "false_alarms"), [(0.2, 0.3), (0.5, 0.5)])
def test_triage_is_that_of_the_served_probabilities(missed, false_alarms, hospitals, calibrated):
    triage = {"missed": missed, "false_alarms": false_alarms}
    outcome = calibrated(triage=triage)
    found = 0
    for name, bundle in outcome.bundles.items():
        rules, malignancy, ruled_out = bundle.manifest.triage, {}, []
        for tone in HOLDER if name == GLOBAL else [name]:
            images, labels = pictures(hospitals, tone, "calibration")
            malignancy[tone] = score_bin(Graph(bundle.graph).run(images).probabilities[:, 0]), labels == 0
            scores = malignancy[tone][0][labels == 0]
            shown = [
                t
                for t in range(SCORE_BINS)
                if binom.cdf((scores < t).sum(), len(scores), missed) <= 0.05 and len(scores)
            ]
            ruled_out.append(max(shown, default=0))
        assert rules.ruled_out_below == min(ruled_out)
        found += rules.ruled_out_below > 0
        every = np.concatenate([scores[~malignant] for scores, malignant in malignancy.values()])
        alarms = [
            t for t in range(SCORE_BINS) if binom.cdf((every >= t).sum(), len(every), false_alarms) <= 0.05
        ]
        assert (every >= rules.urgent_from).sum() == (
            max((every >= t).sum() for t in alarms) if alarms else 0
        )
        assert (rules.n_other, rules.false_alarms_seen) == (len(every), (every >= rules.urgent_from).sum())
        assert read_manifest(canonical(bundle.manifest)) == bundle.manifest
    assert bool(found) is (missed == 0.5), "few lesions show no more"


@pytest.mark.parametrize("target_risk", [0.3, 0.6])
def test_conclusions_are_those_of_the_served_probabilities(target_risk, hospitals, calibrated):
    """Each level by hand, on what finer ones left over: strictest first, until one is not shown."""
    triage = {"missed": 0.5, "false_alarms": 0.5}
    outcome = calibrated(triage=triage, target_risk=target_risk)
    found = 0
    for name, bundle in outcome.bundles.items():
        manifest, tree = bundle.manifest, bundle.manifest.tree
        images, labels = pictures(hospitals, name, "calibration")
        probabilities = Graph(bundle.graph).run(images).probabilities
        malignancy = score_bin(probabilities[:, 0])  # mel alone is malignant
        ruled_out = (malignancy < manifest.triage.ruled_out_below) & (
            malignancy < manifest.triage.urgent_from
        )
        left, rules, spent = np.ones(len(labels), dtype=bool), [], 0.0
        for level, nodes in enumerate(tree.levels):
            summed = np.stack([probabilities[:, list(node.classes)].sum(axis=1) for node in nodes], axis=1)
            answers = summed.argmax(axis=1)
            sizes = {}
            for place, node in enumerate(nodes):
                own = left & (answers == place) & (ruled_out != node.malignant)
                sizes[place] = own, score_bin(summed[:, place])
            delta = (0.05 - spent) / (len(tree.levels) - level)
            able = len(nodes)
            while (
                able
                and (
                    fewer := sum((1 - target_risk) ** own.sum() <= delta / able for own, _ in sizes.values())
                )
                < able
            ):
                able = fewer
            spent += delta * bool(able)
            taken = np.zeros(len(labels), dtype=bool)
            for place, (own, bins) in sizes.items():
                best = None
                steps = [ceil(own.sum() * part / 5) for part in range(1, 6)]
                fifths = {
                    min((t for t in bins[own] if (own & (bins >= t)).sum() <= n), default=0) for n in steps
                }
                for t in sorted(fifths - {0}, reverse=True):
                    at = own & (bins >= t)
                    wrong = ~np.isin(labels[at], nodes[place].classes)
                    if not able or (1 - target_risk) ** at.sum() > delta / able:
                        continue
                    if binom.cdf(wrong.sum(), at.sum(), target_risk) > delta / able:
                        break
                    best = (nodes[place].code, t, at.sum(), wrong.sum())
                if best is not None:
                    rules.append(best)
                    taken |= own & (bins >= best[1])
            left &= ~taken
        told = [(rule.code, rule.threshold_bin, rule.n, rule.wrong) for rule in manifest.conclusions.nodes]
        assert told == rules
        found += len(rules)
    assert found, "the control"


def test_what_the_rules_do_on_the_test_split_is_told(hospitals, calibrated):
    rules = {"coverage": 0.7, "target_risk": 0.5, "triage": {"missed": 0.5, "false_alarms": 0.5}}
    outcome = calibrated(sensitivity=0.6, **rules)
    concluded = 0
    for name in HOLDER:
        bundle, manifest = outcome.bundles[name], outcome.bundles[name].manifest
        images, labels = pictures(hospitals, name, "test")
        served, malignant = Graph(bundle.graph).run(images).probabilities, labels == 0
        decisions = [decide(row, manifest, **declared(name)) for row in served]
        sets = score_bin(served) >= manifest.conformal.threshold_bin
        told = np.array([one.reported for one in decisions])
        above = np.array([one.malignancy.above for one in decisions])
        levels = np.array([one.triage.level for one in decisions])
        nodes = [one.conclusion and one.conclusion.node for one in decisions]
        wrong = [node is not None and k not in node.classes for node, k in zip(nodes, labels, strict=True)]
        assert [node is not None for node in nodes] == told.tolist()
        expected = {
            "coverage": sets[np.arange(len(labels)), labels].mean(),
            "set_size": sets.sum(axis=1).mean(),
            "reported": told.mean(),
            "reported_risk": sum(wrong) / told.sum() if told.any() else None,
            "answered": (told | (levels != "routine")).mean(),
            "sensitivity_at_threshold": above[malignant].mean(),
            "specificity_at_threshold": 1 - above[~malignant].mean(),
            "ruled_out_malignant": (levels[malignant] == "ruled-out").mean(),
            "ruled_out_other": (levels[~malignant] == "ruled-out").mean(),
            "urgent_malignant": (levels[malignant] == "urgent").mean(),
            "urgent_other": (levels[~malignant] == "urgent").mean(),
        }
        metrics = manifest.metrics
        for figures in (outcome.facts["by_subgroup"][name], metrics, metrics["by_subgroup"][name]):
            assert {key: figures[key] for key in expected} == pytest.approx(expected)
        assert metrics["n_malignant"] == malignant.sum()
        (kind,) = metrics["by_kind"].values()
        assert (kind["ruled_out"], kind["urgent"]) == (
            metrics["ruled_out_malignant"],
            metrics["urgent_malignant"],
        )
        said = [node and f"{node.level}/{node.code}" for node in nodes]
        assert metrics.get("by_answer", {}) == {
            node: {
                "n": said.count(node),
                "wrong": sum(w for s, w in zip(said, wrong, strict=True) if s == node),
            }
            for node in set(said) - {None}
        }
        concluded += told.sum()
        point = outcome.test[name].point
        assert (point.n, np.trace(point.confusion)) == (len(labels), (served.argmax(axis=1) == labels).sum())
        # The global model tells those who declare this tone what it found of them.
        everybody = outcome.bundles[GLOBAL].manifest
        said_to_them = decide(np.array([0.2, 0.5, 0.3]), everybody, **declared(name)).malignancy
        of_tone = everybody.metrics["by_subgroup"][name]
        assert said_to_them.sensitivity == of_tone["sensitivity_at_threshold"]
        assert said_to_them.n == malignant.sum()
    assert concluded, "the control"


def declared(name: str) -> dict[str, str]:
    return {"skin_tone": TONES[name][0], "skin_tone_scale": "fitzpatrick"}


def asdict_of(entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in type(entry).model_fields}


def test_where_nothing_is_asked_for_nothing_is_asked_or_written(calibrated, make_job):
    """No sensitivity, and no triage."""
    digests = {of: calibrate_job(make_job, triage=None, sensitivity=of).digest for of in (None, 0.95)}
    assert calibrate_job(make_job, triage=None).digest == digests[None] != digests[0.95]
    plain = calibrated(name="plain", triage=None)
    for bundle in plain.bundles.values():
        assert (bundle.manifest.working_point, bundle.manifest.triage) == (None, None)
        assert not any("at_threshold" in key for key in bundle.manifest.metrics)
    assert calibrated(name="asked", sensitivity=0.95, triage=None).traffic.up > plain.traffic.up


def test_no_malignant_calibration_lesion_gives_no_working_point(hospitals, calibrated):
    benign = tuple(label.model_copy(update={"malignancy": "benign"}) for label in hospitals.labels)
    data = replace(hospitals, labels=benign)
    outcome = calibrated(sensitivity=0.95, data=data)
    assert {bundle.manifest.working_point for bundle in outcome.bundles.values()} == {None}


def test_drift_is_measured_against_the_served_scores_of_the_test_pictures(hospitals, calibrated):
    """Each subgroup has its own reference in the model for everybody, with the tones that it is told by."""
    outcome = calibrated(novelty_rate=0.2)
    edges = LOGIT_BINS.edges
    for name, bundle in outcome.bundles.items():
        reference = bundle.manifest.reference
        parts = {
            one: Graph(bundle.graph).run(hospitals.examples(HOLDER[one], "test").images)
            for one in answered_by(name)
        }
        shares = np.concatenate([part.probabilities for part in parts.values()])
        assert reference.confidence == tuple(np.histogram(shares.max(axis=1), edges)[0])
        assert np.sum(reference.distances) == len(shares)
        of_each = {one.subgroup.name: one for one in reference.by_subgroup}
        assert set(of_each) == (set(parts) if name == GLOBAL else set())
        for one, told in of_each.items():
            assert told.subgroup == Subgroup(name=one, scale="fitzpatrick", values=TONES[one])
            assert told.confidence == tuple(np.histogram(parts[one].probabilities.max(axis=1), edges)[0])
            assert told.malignancy == tuple(np.histogram(parts[one].probabilities[:, 0], edges)[0])


def far_by_hand(trained: tuple[np.ndarray, np.ndarray], images: np.ndarray, min_count: int) -> np.ndarray:
    """Squared Mahalanobis distances to the nearest class, from all training pictures in one place."""
    colours = [part.astype(np.float64).mean(axis=(1, 2)) / 255 for part in (trained[0], images)]
    counted = [k for k in range(3) if (trained[1] == k).sum() >= min_count]
    means = {k: colours[0][trained[1] == k].mean(axis=0) for k in counted}
    kept = np.isin(trained[1], counted)
    apart = colours[0][kept] - np.array([means[k] for k in trained[1][kept]])
    precision = np.linalg.inv(oas(apart, assume_centered=True)[0])
    each = [np.einsum("ni,ij,nj->n", x, precision, x) for x in (colours[1] - mean for mean in means.values())]
    return np.min(each, axis=0)


def test_what_is_unfamiliar_follows_from_pictures_of_three_splits(hospitals, calibrated):
    outcome = calibrated(novelty_rate=0.2)
    for name in (GLOBAL, "light"):
        trained = pictures(hospitals, name, "train")
        images, _ = pictures(hospitals, name, "calibration")
        far = np.sort(far_by_hand(trained, images, 2))
        rank = ceil((len(images) + 1) * Fraction("0.8"))
        known, facts = outcome.bundles[name].manifest.out_of_distribution, outcome.facts["models"][name]
        assert abs(known.threshold_bin - distance_bin(far[rank - 1])) <= 1, "the graph computes in float32"
        on_test = far_by_hand(trained, pictures(hospitals, name, "test")[0], 2)
        assert facts["novelty"] == {
            "threshold": upper_edge(known.threshold_bin),
            "rate": 0.2,
            "n": len(images),
            "trained_on": len(trained[1]),
            "classes": ["mel", "nv", "bkl"],
            "flagged": pytest.approx(np.mean(on_test > known.threshold), abs=1.5 / len(on_test)),
        }
        assert (known.n, known.rate, known.trained_on) == (len(images), 0.2, len(trained[1]))


def test_a_disease_never_trained_on_is_referred_though_the_model_is_certain(calibrated):
    # Nearly all may be wrong and missed here, so that something would be concluded.
    triage = {"missed": 0.9, "false_alarms": 0.1}
    outcome = calibrated(target_risk=0.9, novelty_rate=0.05, triage=triage)
    bundle, tone = outcome.bundles["light"], declared("light")
    unseen = np.zeros((2, 16, 16, 3), np.uint8)
    unseen[0, ..., 0] = unseen[1, ..., 2] = 255  # pure red and pure blue
    outputs = Graph(bundle.graph).run(unseen)
    assert (outputs.probabilities.max(axis=1) > 0.95).all()
    for probabilities, embedding in zip(outputs.probabilities, outputs.embedding, strict=True):
        assert decide(probabilities, bundle.manifest, **tone).reported
        decision = decide(probabilities, bundle.manifest, embedding=embedding, **tone)
        assert not decision.reported
        assert any("unlike the pictures the model was trained on" in said for said in decision.warnings)


def test_classes_of_few_pictures_have_no_gaussian(hospitals, calibrated):
    examples = hospitals.examples("north", "train")
    held = np.bincount(examples.labels, minlength=3)
    patients = np.array([examples.where(examples.labels == k).num_people for k in range(3)])
    least = int(np.sort(patients)[1])  # one class of the larger hospital stays under it
    models = calibrated(privacy=least).facts["models"]
    codes = [code for code, n in zip(("mel", "nv", "bkl"), patients, strict=True) if n >= least]
    assert models["light"]["novelty"]["classes"] == codes
    assert models["light"]["novelty"]["trained_on"] == held[patients >= least].sum()
    assert len(codes) == 2


def test_no_class_with_enough_pictures_leaves_nothing_unfamiliar(draw_hospitals, calibrated):
    sizes = {"light": (4, 2, 40, 12), "dark": (4, 2, 8, 11)}
    data = draw_hospitals(sizes, {client: name for name, client in HOLDER.items()})
    outcome = calibrated(privacy=5, data=data)
    novelty = outcome.facts["models"][GLOBAL]["novelty"]
    assert (novelty["classes"], novelty["trained_on"], novelty["flagged"]) == ([], 0, None)
    assert outcome.bundles[GLOBAL].manifest.out_of_distribution is None


def test_a_subgroups_model_knows_all_pictures_of_the_clients_that_hold_it(hospitals, calibrated):
    north = hospitals.examples("north", "train")
    mixed = replace(north, subgroups=np.where(np.arange(len(north)) < 3, 1, 0))  # three of them are dark
    data = replace(hospitals, held={**hospitals.held, ("north", "train"): mixed})
    models = calibrated(privacy=1, data=data).facts["models"]
    south = len(hospitals.examples("south", "train"))
    assert models["light"]["novelty"]["trained_on"] == len(north)
    assert models["dark"]["novelty"]["trained_on"] == len(north) + south
    assert models[GLOBAL]["novelty"]["trained_on"] == len(north) + south


def test_how_the_tones_look_is_put_into_every_bundle(make_job, stand, hospitals):
    edges = {"n": 40, "low": -10, "lower_quartile": 5, "upper_quartile": 20, "high": 40}
    known = {"scale": "milk10k", "rank_correlation": 0.5, "ranges": {"3": edges}}
    job = calibrate_job(make_job, tones=known)
    assert job.digest != calibrate_job(make_job).digest
    bundles = run(job, hospitals, stand).bundles
    assert len(bundles) > 1
    for bundle in bundles.values():
        assert bundle.manifest.tones == ToneRanges.model_validate(known)
        assert read_manifest(canonical(bundle.manifest)) == bundle.manifest


def test_too_few_pictures_give_every_class_and_no_guarantee(draw_hospitals, calibrated):
    # Eight lesions at most cannot promise 0.9: that takes nine.
    sizes = {"light": (4, 2, 40, 12), "dark": (4, 2, 8, 11)}
    data = draw_hospitals(sizes, {client: name for name, client in HOLDER.items()})
    outcome = calibrated(coverage=0.9, data=data)
    dark, light = outcome.bundles["dark"].manifest, outcome.bundles["light"].manifest
    assert (dark.conformal.guarantee, dark.conformal.threshold_bin) == ("none", 0)
    assert dark.refers_all, "nothing is concluded on eight pictures"
    assert outcome.facts["by_subgroup"]["dark"]["set_size"] == 3
    assert outcome.facts["by_subgroup"]["dark"]["coverage"] == 1
    assert light.conformal.guarantee == "subgroup"
    assert outcome.bundles[GLOBAL].manifest.conformal.guarantee == "global"


def test_a_subgroup_that_may_not_be_counted_takes_the_global_temperature(calibrated):
    outcome = calibrated(privacy=12)
    models = outcome.facts["models"]
    assert models["dark"]["temperature"]["n"] == 0, "12 pictures of 10 lesions stay at home"
    assert models["dark"]["temperature"]["fitted"] is None
    assert models["dark"]["temperature"]["value"] == models[GLOBAL]["temperature"]["value"]
    assert outcome.bundles["dark"].manifest.conformal.guarantee == "none"
    assert set(outcome.test) == {"light"}


def test_without_calibration_pictures_the_job_is_refused(draw_hospitals, calibrated):
    sizes = {"light": (4, 2, 0, 12), "dark": (4, 2, 0, 11)}
    data = draw_hospitals(sizes, {client: name for name, client in HOLDER.items()})
    with pytest.raises(JobError, match=r"no calibration pictures.*data\.split\.calibration"):
        calibrated(data=data)


def test_test_labels_change_figures_and_nothing_that_is_served(hospitals, calibrated):
    data = hospitals.with_labels("test", lambda labels: (labels + 1) % 3)
    clean, poisoned = calibrated(), calibrated(data, "poisoned")
    for name, bundle in clean.bundles.items():
        other = poisoned.bundles[name]
        assert other.graph == bundle.graph
        for part in ("temperature", "conformal", "triage", "conclusions", "out_of_distribution"):
            assert getattr(other.manifest, part) == getattr(bundle.manifest, part)
        assert other.manifest.metrics != bundle.manifest.metrics


def test_the_same_job_gives_the_same_bundles_whose_counts_agree(calibrated):
    first, again = calibrated(), calibrated(name="again")
    assert first.bundles == again.bundles
    assert first.facts == again.facts
    parent = bundle_digest(first.bundles[GLOBAL].manifest)
    for name, bundle in first.bundles.items():
        assert bundle.manifest.evaluation.all.decided is not None
        assert contradictions(bundle.manifest) == []
        assert bundle.manifest.lineage.parent == (None if name == GLOBAL else parent)


def test_the_servers_training_pictures_are_known_and_its_others_judge_nothing(draw_hospitals, calibrated):
    sizes = {"light": (22, 13, 40, 17), "dark": (9, 7, 12, 11)}
    data = draw_hospitals(sizes, {"north": "light", "south": "dark", "server": "light"})
    models = calibrated(privacy=1, data=data).facts["models"]
    assert models[GLOBAL]["novelty"]["trained_on"] == 22 + 9 + 22
    assert models["light"]["novelty"]["trained_on"] == 22 + 22
    assert models["light"]["novelty"]["n"] == models["light"]["conformal"]["n"] == 32


def listening(ready, asked):
    """The stage, with what it asks noted."""
    engine = ready.context.engine

    class Listening:
        def __getattr__(self, name):
            return getattr(engine, name)

        def run_round(self, broadcasts):
            asked.extend(broadcasts)
            return engine.run_round(broadcasts)

    ready.context = replace(ready.context, engine=Listening())
    return ready


def test_the_encoder_of_a_model_travels_once(make_job, stand, hospitals):
    ready = stand(calibrate_job(make_job), hospitals, place=2)
    asked = []
    listening(ready, asked).run(exported(calibrate_job(make_job), hospitals))
    encoders = [one for one in asked if one.ask == EMBED]
    # The made-up models have one encoder, the mean colour: each hospital is shown it once.
    assert sorted(one.client for one in encoders) == ["north", "south"]
    rest = [one for one in asked if one.ask not in (EMBED, HOW_MANY)]
    assert len(rest) > 20
    assert all(b"ReduceMean" not in as_bytes(one.tensors) for one in rest)
    assert all(b"ReduceMean" in as_bytes(one.tensors) for one in encoders)


def test_exact_counts_are_asked_for_under_masks_and_cost_less_specificity(make_job, draw_hospitals, stand):
    """Of three hospitals that count ten patients in a run, the sum is as exact as the pictures themselves."""
    sizes, holders = {"light": (22, 20, 150, 30)}, {"north": "light", "south": "light", "east": "light"}
    hospitals, points, asked = draw_hospitals(sizes, holders), {}, {False: [], True: []}
    for masks in (False, True):
        job = calibrate_job(make_job, sensitivity=0.7, target_risk=0.4).model_copy(
            update={"privacy": PrivacyConfig(min_count=20, counts=CountsConfig(masks=masks))}
        )
        ready = listening(stand(job, hospitals, place=2, name=f"masks-{masks}"), asked[masks])
        outcome = ready.run(exported(job, hospitals))
        points[masks] = outcome.bundles[GLOBAL].manifest.working_point
    parts = [hospitals.examples(name, "calibration") for name in holders]
    images, labels, lesions = (
        np.concatenate([getattr(part, of) for part in parts]) for of in ("images", "labels", "lesions")
    )
    first = np.unique(lesions, return_index=True)[1]
    served = Graph(outcome.bundles[GLOBAL].graph).run(images[first]).probabilities
    own = np.sort(score_bin(served[:, 0])[labels[first] == 0])
    missed = max(m for m in range(len(own)) if binom.cdf(m, len(own), 0.3) <= 0.05)
    assert points[False].n == points[True].n == len(own)
    assert points[False].threshold_bin < points[True].threshold_bin <= own[missed]
    assert (own < points[True].threshold_bin).sum() <= missed
    told = {masks: [one for one in asked[masks] if one.ask == "at_thresholds"] for masks in asked}
    assert not told[False]
    assert {"malignancy", "nodes"} <= {name for one in told[True] for name in one.tensors}


def seen(dataset, clients: str, split: str, tone: int) -> int:
    """Patients of a tone; of these pictures every lesion is its own."""
    parts = [dataset.examples(client, split) for client in clients.split()]
    return sum(len({*part.lesions[part.traits[:, 0] == tone]}) for part in parts)


@pytest.mark.parametrize("masks", [False, True], ids=["clear", "masks"])
@pytest.mark.parametrize("least", [3, 2])
def test_a_bundle_knows_the_patients_of_each_tone(make_job, draw_hospitals, stand, masks, least):
    hospitals = draw_hospitals(
        {"light": (22, 13, 40, 30), "dark": (9, 7, 12, 22)},
        {"north": "light", "south": "dark", "east": "light"},
    )
    privacy = PrivacyConfig(min_count=least, counts=CountsConfig(masks=masks))
    job = calibrate_job(make_job).model_copy(update={"privacy": privacy})
    bundles = run(job, hospitals, stand).bundles
    # Two of the ten calibration patients of dark skin are of type 6. They are enough for a minimum of 2;
    # where it is 3, type 6 is not told, and of the 8 of type 5 that they are 3 at least.
    assert [seen(hospitals, "south", "calibration", tone) for tone in (2, 3)] == [8, 2]
    of_dark = {"5": 8, "6": 2} if least == 2 else {"5": 3}
    light = {str(1 + tone): seen(hospitals, "north east", "calibration", tone) for tone in (0, 1)}
    tested = {
        tone: seen(hospitals, held, "test", place)
        for place, (tone, held) in enumerate(
            {"1": "north east", "2": "north east", "5": "south", "6": "south"}.items()
        )
    }
    assert (light["2"], tested["2"], tested["6"]) == (8, 6, 3)
    assert bundles[GLOBAL].manifest.patients_by_tone == TonePatients(
        calibration={"fitzpatrick": {**light, **of_dark}}, test={"fitzpatrick": tested}
    )
    dark = bundles["dark"].manifest
    assert dark.patients_by_tone == TonePatients(
        calibration={"fitzpatrick": of_dark}, test={"fitzpatrick": {t: tested[t] for t in ("5", "6")}}
    )
    assert read_manifest(canonical(dark)) == dark
    # Whoever asks it of type 6 is promised what type 6 has behind it.
    promised = [
        decide(np.array([0.6, 0.3, 0.1]), dark, skin_tone=tone, skin_tone_scale="fitzpatrick").guarantee
        for tone in ("V", "VI")
    ]
    assert promised == ["subgroup", "subgroup" if least == 2 else "none"]
