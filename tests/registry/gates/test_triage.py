"""What triage guarantees against what the test has seen: by kind, by subgroup, and false alarms."""

import pytest
from scipy.stats import binomtest

from registry.bundle.labels import Label, kinds_of
from registry.bundle.manifest import KindMissed, Triage
from registry.bundle.score_bins import SCORE_BINS
from registry.gates import Case, GateSet
from registry.gates.triage import TriageGate

KINDS = (
    Label(code="MEL", name="melanoma", malignancy="malignant"),
    Label(code="BCC", name="basal", malignancy="malignant"),
    Label(code="NV", name="naevus", malignancy="benign"),
)
HOLDS = Triage(
    missed=0.1,
    false_alarms=0.1,
    level=0.95,
    ruled_out_below=20,
    kinds=tuple(KindMissed(kind=one, n=90, missed=2, high=0.07) for one in kinds_of(KINDS)),
    urgent_from=200,
)


def counted(*, melanoma=(28, 1), basal=(80, 2), urgent=(100, 8)):
    """Test counts: of a kind and of others how many images, and how many of them triage got wrong."""
    given = {"melanoma": melanoma, "basal": basal}
    kinds = {kind: {"n": of[0], "ruled_out": of[1] / of[0]} for kind, of in given.items() if of is not None}
    n, missed = (sum(row[at] for row in given.values() if row is not None) for at in (0, 1))
    return {
        "n": n + urgent[0],
        "n_malignant": n,
        "n_other": urgent[0],
        "ruled_out_malignant": missed / n,
        "urgent_other": urgent[1] / urgent[0],
        "by_kind": kinds,
    }


@pytest.fixture
def version(bundle):
    """`version(subgroup, triage, **rows)`: a manifest with the test counts of some subgroups."""

    def make(subgroup=None, triage=HOLDS, **rows):
        total = next(iter(rows.values()), {})
        metrics = {**total, "by_subgroup": rows} if rows else {}
        return bundle(subgroup, metrics, labels=KINDS, triage=triage).manifest

    return make


def judge(*manifests):
    return TriageGate().judge(Case(manifests))


def adjusted(*seen, limit=0.1):
    """p-values of each x of n, by another library, times their number: of the smallest this is Holm's."""
    return len(seen) * min(binomtest(x, n, limit, alternative="greater").pvalue for n, x in seen)


@pytest.mark.parametrize(
    ("melanoma", "basal", "urgent", "refused"),
    [
        ((28, 1), (80, 2), (100, 8), []),
        ((28, 6), (80, 2), (100, 8), []),  # 0.21: p .05, times three
        ((28, 8), (80, 2), (100, 8), ["melanoma ruled out"]),
        ((28, 1), (80, 22), (100, 8), ["basal ruled out"]),
        ((28, 1), (80, 2), (100, 30), ["false alarms"]),
        ((28, 9), (80, 22), (100, 30), ["melanoma ruled out", "basal ruled out", "false alarms"]),
    ],
)
def test_a_test_that_contradicts_a_guarantee_is_refused(version, dark, melanoma, basal, urgent, refused):
    seen = {"melanoma": melanoma, "basal": basal, "urgent": urgent}
    one = judge(version(dark, dark=counted(**seen)))
    assert [finding.measure for finding in one.findings if finding.verdict == "refused"] == refused
    assert len(one.findings) == 3
    if len(refused) < 2:
        assert (adjusted(melanoma, basal, urgent) < 0.05) == bool(refused)


def test_a_refusal_names_kind_tone_figure_and_what_to_do(version, dark):
    one = judge(version(dark, dark=counted(melanoma=(28, 9))))
    assert one.detail == (
        "melanoma ruled out for dark: 0.321 (n 28, 95 % interval 0.159 to 0.524, 9 of 28, adjusted p "
        f"{adjusted((28, 9), (80, 2), (100, 8)):.2g}), where at most 0.100 passes. Calibrate again on more "
        "images of dark, or override with --override-gates --reason"
    )


def test_the_version_for_everybody_guarantees_each_subgroup(version, dark):
    rows = {"light": counted(melanoma=(200, 2)), "dark": counted(melanoma=(28, 12))}
    one = judge(version(**rows), version(dark, dark=counted()))
    assert [(each.subgroup, each.measure) for each in one.findings if each.verdict == "refused"] == [
        ("dark", "melanoma ruled out by the version for everybody")
    ]
    assert [each.measure for each in one.findings].count("false alarms") == 2


def test_more_guarantees_make_chance_more_likely(version, tones):
    """Of nine of 40 alone the test is sure, and not among twelve guarantees (Holm)."""
    few = counted(melanoma=(40, 9), basal=(80, 2))
    assert judge(version(tones("a", "1"), a=few)).verdict == "refused"
    others = {name: counted() for name in "bcde"}
    assert judge(version(tones("a", "1"), a=few), version(**others)).verdict == "passed"


@pytest.mark.parametrize(
    ("triage", "rows", "verdict", "note"),
    [
        (None, {"dark": counted()}, "not applicable", "no version has triage"),
        (HOLDS.nothing_ruled_out, {"dark": counted()}, "passed", "melanoma ruled out: nothing is, since too"),
        (HOLDS, {"dark": counted(melanoma=None)}, "passed", "melanoma: too few to tell"),
        (
            HOLDS.nothing_ruled_out.model_copy(update={"urgent_from": SCORE_BINS}),
            {"dark": counted()},
            "not applicable",
            "false alarms: nothing is urgent",
        ),
        (HOLDS, {"dark": {"n": 90, "n_malignant": 40, "n_other": 50}}, "refused", "never tested"),
        (HOLDS, {}, "refused", "never tested"),
    ],
)
def test_what_is_not_guaranteed_or_too_few_is_not_judged(version, dark, triage, rows, verdict, note):
    one = judge(version(dark, triage, **rows))
    assert one.verdict == verdict
    assert any(finding.note.startswith(note) for finding in one.findings)
    if verdict == "refused":
        assert {finding.note for finding in one.findings} == {note}


def test_one_kind_of_malignancy_is_all_that_is_malignant(bundle, dark):
    rows = {"n": 140, "n_malignant": 40, "n_other": 100, "urgent_other": 0.05}
    for missed, verdict in ((2, "passed"), (20, "refused")):
        row = {**rows, "ruled_out_malignant": missed / 40}
        triage = HOLDS.model_copy(update={"kinds": HOLDS.kinds[:1]})
        labels = (KINDS[0], KINDS[2])
        made = bundle(dark, {"by_subgroup": {"dark": row}}, labels=labels, triage=triage)
        assert judge(made.manifest).verdict == verdict


def test_a_guarantee_that_the_running_release_was_judged_by_is_required(version, dark):
    gates = GateSet(gates=(TriageGate(),))
    before = version(dark, dark=counted())
    for triage, verdict in ((HOLDS, "passed"), (HOLDS.nothing_ruled_out, "refused")):
        now = version(dark, triage, dark=counted())
        everybody = version(triage=None)
        (one,) = gates.judge(Case((everybody, now), running=(everybody, before)))
        assert one.verdict == verdict
    assert "judges dark (basal ruled out), dark (melanoma ruled out), and of this one" in one.detail
