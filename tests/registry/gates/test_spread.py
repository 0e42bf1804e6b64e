import math

import pytest

from registry.gate_report import GateReport, SubgroupFigure
from registry.gates import Case, SpreadGate
from registry.gates.fairness import mover


def judge(manifests, limit=0.10):
    return SpreadGate(limit=limit).judge(Case(tuple(manifests)))


def test_a_subgroup_counts_with_the_version_that_answers_for_it(manifests, tested, tones):
    everybody = tested(light=0.90, dark=0.60, medium=0.85)
    assert judge(manifests(everybody)).value == pytest.approx(0.30)
    own = {"dark": (tones("dark", "5"), tested(dark=0.82, light=0.10))}
    result = judge(manifests(everybody, **own))
    assert result.verdict == "passed"
    assert result.value == pytest.approx(0.08)
    assert (result.best.subgroup, result.best.value, result.best.n) == ("light", 0.90, 200)
    assert (result.worst.subgroup, result.worst.value, result.worst.n) == ("dark", 0.82, 200)


def test_a_version_of_its_own_may_make_the_spread_larger(manifests, tested, tones):
    own = {"dark": (tones("dark", "5"), tested(dark=0.70))}
    assert judge(manifests(tested(light=0.85, dark=0.80), **own)).verdict == "refused"


@pytest.mark.parametrize(
    ("best", "worst", "verdict"),
    [(0.8, 0.7, "passed"), (0.9, 0.8, "passed"), (0.8, 0.699, "refused"), (0.5, 0.5, "passed")],
)
def test_the_limit_itself_passes(manifests, tested, best, worst, verdict):
    # 0.8 - 0.7 is 0.10000000000000009 in floating point.
    assert judge(manifests(tested(light=best, dark=worst))).verdict == verdict


def test_a_refusal_names_subgroup_value_and_limit_and_what_to_do(manifests, tested):
    result = judge(manifests(tested(light=0.9, dark=0.68)), limit=0.15)
    assert result.verdict == "refused"
    for part in (
        "0.680 for dark (n 200)",
        "0.900 for light (n 200)",
        "0.220 apart",
        "limit is 0.150",
        "no interval",
    ):
        assert part in result.detail
    assert "--override-gates --reason" in result.detail
    report = GateReport(results=(result,))
    assert report.refused
    assert "gate spread" in report.detail


def test_the_interval_is_the_one_of_zou_and_donner(manifests, tested):
    result = judge(manifests(tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))))
    # d = 0.2; low = 0.2 - sqrt(0.06^2 + 0.12^2), high = 0.2 + sqrt(0.04^2 + 0.15^2), by hand.
    assert result.interval == pytest.approx((0.0658359, 0.3552417), abs=1e-6)
    assert "95 % interval 0.066 to 0.355" in result.detail
    assert result.verdict == "refused"


def test_the_printed_example_of_newcombe_is_met():
    """56/70 - 48/80 with Wilson's intervals: 0.0524 to 0.3339 (Newcombe 1998, Stat. Med. 17, method 10)."""

    def wilson(successes, n, z=1.959964):
        p = successes / n
        centre, half = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        return (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)

    best = SubgroupFigure(subgroup="a", value=56 / 70, n=70, interval=wilson(56, 70))
    worst = SubgroupFigure(subgroup="b", value=48 / 80, n=80, interval=wilson(48, 80))
    assert mover(best, worst) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_is_never_negative_and_the_verdict_goes_by_the_point(manifests, tested):
    result = judge(manifests(tested(light=(0.8, 0.5, 1.0), dark=(0.75, 0.4, 0.95))))
    assert result.interval[0] == 0
    assert result.interval[1] > 0.10
    assert result.verdict == "passed"


def test_without_one_of_the_two_intervals_there_is_none(manifests, tested):
    assert judge(manifests(tested(light=(0.9, 0.8, 1.0), dark=0.85))).interval is None
    assert judge(manifests(tested(light=0.9, dark=(0.85, 0.8, 0.9)))).interval is None


def test_a_subgroup_that_was_never_tested_is_refused(manifests, tested, tones):
    own = {"dark": (tones("dark", "5"), tested(light=0.9)), "third": (tones("third", "6"), {})}
    result = judge(manifests(tested(light=0.9, dark=0.9), **own))
    assert result.verdict == "refused"
    assert result.untested == ("dark", "third")
    assert "dark, third were never tested" in result.detail
    assert "0.100" in result.detail
    assert result.value is None


@pytest.mark.parametrize(
    "figures",
    [
        None,
        [],
        "0.9",
        {},
        {"n": 50},
        {"accuracy": 0.9},
        {"n": 0, "accuracy": 0.9},
        {"n": True, "accuracy": 0.9},
        {"n": 5.5, "accuracy": 0.9},
        {"n": 50, "accuracy": None},
        {"n": 50, "accuracy": True},
        {"n": 50, "accuracy": "0.9"},
        {"n": 50, "accuracy": 1.1},
        {"n": 50, "accuracy": -0.1},
        {"n": 50, "accuracy": 10**400},
    ],
)
def test_a_broken_figure_is_none(manifests, tested, figures):
    metrics = tested(light=0.9, medium=0.9)
    metrics["by_subgroup"]["dark"] = figures
    result = judge(manifests(metrics))
    assert result.untested == ("dark",)
    assert "dark was never tested" in result.detail


@pytest.mark.parametrize(
    "intervals",
    [None, [], {}, {"accuracy": None}, {"accuracy": [0.1]}, {"accuracy": ["a", "b"]}, {"accuracy": "ab"},
     {"accuracy": [0.9, 0.1]}, {"accuracy": [0.1, 1.5]}, {"accuracy": {"low": 0.1, "high": 0.2}}],
)  # fmt: skip
def test_a_broken_interval_is_none(manifests, tested, intervals):
    metrics = tested(light=(0.9, 0.8, 1.0), dark=0.85)
    metrics["by_subgroup"]["dark"]["intervals"] = intervals
    result = judge(manifests(metrics))
    assert (result.verdict, result.interval) == ("passed", None)


def test_a_model_that_was_tested_on_nobody_is_refused(manifests):
    result = judge(manifests({}))
    assert (result.verdict, result.untested) == ("refused", ("global",))


@pytest.mark.parametrize(
    "metrics", [{"n": 9}, {"by_subgroup": None}, {"by_subgroup": [1]}, {"by_subgroup": {}}]
)
def test_without_subgroups_the_gate_does_not_apply_and_says_so(manifests, metrics):
    result = judge(manifests(metrics))
    assert result.verdict == "not applicable"
    assert "name none" in result.detail
    assert not GateReport(results=(result,)).refused
