from math import exp

import pytest

from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.labels import Label
from registry.bundle.manifest import Abstention, Conformal, Lineage, Temperature
from registry.bundle.pictures.rule import PictureRule
from registry.views.changes import Changed, changes, facts
from tests.thresholds import at_log_odds


def test_the_same_manifest_changes_nothing(bundle):
    changed, unchanged = changes(bundle().manifest, bundle().manifest)
    assert changed == ()
    assert {"lineage.seed", "labels.MEL.name", "picture.size", "file.sha256", "temperature.value"} <= set(
        unchanged
    )


def test_figures_are_no_facts(bundle, tested):
    one, other = bundle(metrics={"n": 1}), bundle(metrics=tested(dark=0.5))
    assert changes(one.manifest, other.manifest)[0] == ()


def test_everything_that_is_said_is_compared(bundle, dark, graph):
    other = {
        "lineage": Lineage(
            job="sha256:" + "1" * 64, recipe="fedavg", data={"north": "x"}, seed=3,
            parent="sha256:" + "2" * 64, code_version="0.2.0",
        ),
        "labels": tuple(
            Label(code=code, name=name, malignancy="benign")
            for code, name in (("NV", "Naevus"), ("MEL", "Mel"), ("AK", "Ak"))
        ),
        "picture": PictureRule(size=8, fit="crop"),
        "temperature": Temperature(value=1.5, n=9),
        "conformal": Conformal(alpha=0.2, threshold_bin=at_log_odds(-1.5), n=99, guarantee="subgroup"),
        "abstention": Abstention(target_risk=0.05, threshold_bin=at_log_odds(0.5), n=9, risk=0.01),
    }  # fmt: skip
    before, after = bundle().manifest, bundle(dark, graph=graph(name="another"), **other).manifest
    changed = {one.what: (one.before, one.after) for one in changes(before, after)[0]}
    assert changed.pop("file.sha256") == (before.file.sha256, after.file.sha256)
    changed.pop("file.size", None)
    tones = {what for what in changed if what.startswith("patients_by_tone.")}
    assert len(tones) == 44, "every tone of the one that the other does not name"
    changed = {what: both for what, both in changed.items() if what not in tones}
    assert changed == {
        "lineage.job": ("sha256:" + "0" * 64, "sha256:" + "1" * 64),
        "lineage.recipe": ("fedauto", "fedavg"),
        "lineage.data": ({}, None),
        "lineage.data.north": (None, "x"),
        "lineage.seed": (0, 3),
        "lineage.parent": (None, "sha256:" + "2" * 64),
        "lineage.code_version": ("0.1.0", "0.2.0"),
        "labels.order": (["MEL", "NV", "AK"], ["NV", "MEL", "AK"]),
        "labels.NV.name": ("Nv", "Naevus"),
        "picture.fit": ("squash", "crop"),
        "subgroup.name": ("global", "dark"),
        "subgroup.scale": (None, "fitzpatrick"),
        "subgroup.values": ([], ["4", "5", "6"]),
        "temperature.value": (1.0, 1.5),
        "temperature.n": (0, 9),
        "conformal.alpha": (0.1, 0.2),
        "conformal.threshold_bin": (0, at_log_odds(-1.5)),
        "conformal.threshold": (0, pytest.approx(1 / (1 + exp(1.5)))),
        "conformal.n": (0, 99),
        "conformal.guarantee": ("none", "subgroup"),
        "abstention.target_risk": (0.1, 0.05),
        "abstention.threshold_bin": (SCORE_BINS, at_log_odds(0.5)),
        "abstention.threshold": (1, pytest.approx(1 / (1 + exp(-0.5)))),
        "abstention.n": (0, 9),
        "abstention.risk": (None, 0.01),
    }


def test_a_change_is_told_in_its_direction(bundle):
    changed, _ = changes(bundle(seed=1).manifest, bundle(seed=2).manifest)
    assert changed == (Changed("lineage.seed", 1, 2),)


def test_names_are_those_of_the_manifest(bundle):
    assert list(facts(bundle().manifest))[:4] == ["schema_version", "model", "file.sha256", "file.size"]
