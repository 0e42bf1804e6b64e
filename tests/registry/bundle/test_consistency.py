"""Attack: an edited `bundle.json` with lifted counts and a new digest; `add` refuses each and names it."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from registry.bundle.consistency import contradictions
from registry.bundle.errors import ManifestError
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import BundleManifest, ModelFile, canonical, read_manifest
from registry.errors import BundleRefused
from registry.releases.add import check_bundle
from tests.measured import FIVE, TWO, blocks_of, manifest_of

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
SIZES = {"light": 120, "dark": 50, "undeclared": 20}
Record = dict[str, Any]


@pytest.fixture(scope="module")
def honest(graph) -> Callable[..., tuple[Record, bytes]]:
    """The manifest of a model of two classes or of five, as a plain record of one's own, and its graph."""
    found = {}
    for name, labels in (("two", TWO), ("five", FIVE)):
        model = graph(classes=len(labels))
        blocks = blocks_of(np.random.default_rng(7), labels, SIZES)
        manifest = manifest_of(blocks, labels, file=ModelFile.of(model))
        found[name] = (canonical(manifest), model)
    return lambda name="five": (json.loads(found[name][0]), found[name][1])


def bundle_of(record: Record, model: bytes) -> Bundle:
    manifest = BundleManifest.model_validate(record)
    return Bundle(manifest, model, bundle_digest(manifest))


def rows(record: Record, *names: str) -> list[Record]:
    """The counts of these subgroups, or of `all`."""
    found = record["evaluation"]
    return [found["all"] if name == "all" else found["by_subgroup"][name] for name in names]


def lift(name: str, by: int, *groups: str) -> Callable[[Record], None]:
    """So many more pictures are counted in some groups, whose intervals are as wide as can be."""

    def attack(record: Record) -> None:
        for row in rows(record, *groups):
            where = row if name in row else row["decided"]
            where[name] += by
            row["intervals"] = {}

    return attack


def malignant_pictures(record: Record) -> None:
    """More malignant pictures than were tested: `required_subgroups` asks for them."""
    (row,) = rows(record, "dark")
    row |= {"n_malignant": row["n_malignant"] + 10, "n_other": row["n_other"] - 10, "cleared": 0}
    row["decided"]["not_suspicious"] = 0
    row["intervals"] = {}


def recall(record: Record) -> None:
    record["evaluation"]["by_class"]["MEL"]["right"] += 1


def answers(by: int) -> Callable[[Record], None]:
    def attack(record: Record) -> None:
        record["evaluation"]["by_class"]["DF"]["given"] += by

    return attack


def narrow_above(record: Record) -> None:
    (row,) = rows(record, "dark")
    row["intervals"]["malignant_sensitivity"][1] = row["found"] / row["n_malignant"] + 0.01


def negative_right(record: Record) -> None:
    right = record["reference"]["right"]
    filled = next(k for k, n in enumerate(right) if n)
    empty = next(k for k, n in enumerate(right) if not n)
    right[filled], right[empty] = right[filled] + 1, -1
    record["reference"]["confidence"][filled] += 1
    record["reference"]["confidence"][empty] -= 1


def narrow(record: Record) -> None:
    (row,) = rows(record, "dark")
    share = row["found"] / row["n_malignant"]
    row["intervals"]["malignant_sensitivity"] = [share - 0.01, share + 0.01]


def histogram(record: Record) -> None:
    given = record["reference"]["by_subgroup"][1]
    given["right"] = given["confidence"]


def histogram_sum(record: Record) -> None:
    record["reference"]["confidence"][200] += 7


def negative_bin(record: Record) -> None:
    counts = record["reference"]["scores"][0]
    counts[3] -= 900
    counts[4] += 900


def left_out(record: Record) -> None:
    """The subgroup served worst is in no row any more."""
    del record["evaluation"]["by_subgroup"]["dark"]
    kept = [one for one in record["reference"]["by_subgroup"] if one["subgroup"]["name"] != "dark"]
    record["reference"]["by_subgroup"] = kept


def no_counts(record: Record) -> None:
    del record["evaluation"]["by_subgroup"]["dark"]


def more_than_all(record: Record) -> None:
    given = record["reference"]["by_subgroup"][0]["malignancy"]
    filled = next(k for k, n in enumerate(given) if n)
    empty = next(k for k, n in enumerate(record["reference"]["malignancy"]) if not n)
    given[filled], given[empty] = 0, given[filled]


def calibrated(record: Record) -> None:
    (row,) = rows(record, "dark")
    row["estimates"]["ece"], row["intervals"]["ece"] = 0.001, [0.0, 0.2]


def balanced(record: Record) -> None:
    (row,) = rows(record, "all")
    row["estimates"]["balanced_accuracy"], row["intervals"]["balanced_accuracy"] = 0.99, [0.1, 1.0]


def uncounted(record: Record) -> None:
    """A sensitivity that is said, and the counts that would contradict it are not there."""
    for row in rows(record, "dark", "all"):
        row["found"], row["estimates"]["malignant_sensitivity"] = None, 0.99
        row["intervals"] = {}


def hidden(record: Record) -> None:
    """One row without a count, so that another may be lifted."""
    undeclared, row = rows(record, "undeclared", "dark")
    undeclared["found"], undeclared["estimates"]["malignant_sensitivity"] = None, None
    row["found"], row["intervals"] = row["n_malignant"], {}
    row["estimates"].pop("malignant_sensitivity", None)
    record["evaluation"]["by_subgroup"]["light"] |= {"found": rows(record, "light")[0]["n_malignant"]}
    record["evaluation"]["by_subgroup"]["light"]["intervals"] = {}


def never_missed(record: Record) -> None:
    record["working_point"] |= {"target": 0.99, "sensitivity_low": 0.995}


def never_wrong(record: Record) -> None:
    rule = {"level": "diagnosis", "code": "MEL", "threshold_bin": 200, "n": 50, "wrong": 2}
    record["conclusions"]["nodes"] = [rule | {"risk_high": 0.05}]


ATTACKS: dict[str, tuple[Callable[[Record], None], str, str]] = {
    "found": (lift("found", 2, "dark"), "two", "found is"),
    "found everywhere": (lift("found", 2, "dark", "all"), "two", "malignant answers"),
    "found everywhere of five": (lift("found", 2, "dark", "all"), "five", "malignant answers"),
    "cleared everywhere": (lift("cleared", 2, "dark", "all"), "five", "malignant answers"),
    "found less than right": (lift("found", -70, "light", "all"), "five", "their own class"),
    "right": (lift("right", 9, "dark"), "five", "right is"),
    "right everywhere": (lift("right", 9, "dark", "all"), "five", "over their classes"),
    "malignant pictures": (malignant_pictures, "five", "n_malignant is"),
    "recall": (recall, "five", "right is"),
    "answers of nothing": (answers(9), "five", "each of"),
    "answers left out": (answers(-1), "five", "each of"),
    "narrow above": (narrow_above, "five", "in dark, the interval of malignant_sensitivity"),
    "negative right": (negative_right, "five", "has more in a bin"),
    "covered": (lift("covered", 1, "dark"), "five", "covered is"),
    "reported": (lift("reported", 5, "dark"), "five", "reported is"),
    "suspicious": (lift("suspicious", 1, "dark"), "five", "suspicious is"),
    "sets": (lift("set_classes", -9, "all"), "five", "set_classes is"),
    "sets of more classes than there are": (lift("set_classes", 9999, "all"), "five", "all sets full"),
    "hidden": (hidden, "five", "over their subgroups"),
    "narrow": (narrow, "five", "in dark, the interval of malignant_sensitivity"),
    "histogram": (histogram, "five", "right answers of dark"),
    "histogram sum": (histogram_sum, "five", "histogram confidence of all"),
    "negative bin": (negative_bin, "five", "histogram scores.0 of all"),
    "left out": (left_out, "five", "n is"),
    "no counts": (no_counts, "five", "no counts"),
    "more than all": (more_than_all, "five", "than that of all"),
    "calibrated": (calibrated, "five", "in dark, ece follow"),
    "balanced": (balanced, "five", "in all, balanced_accuracy follow"),
    "uncounted": (uncounted, "five", "in dark, malignant_sensitivity are shares"),
    "never missed": (never_missed, "five", "working_point.sensitivity_low"),
    "never wrong": (never_wrong, "five", "conclusions says that at most"),
}


@pytest.mark.parametrize("name", ["two", "five"])
def test_what_was_measured_is_taken(honest, name):
    record, model = honest(name)
    assert check_bundle(bundle_of(record, model)) == canonical(BundleManifest.model_validate(record))


@pytest.mark.parametrize("attack", ATTACKS)
def test_lifted_counts_are_refused_and_named(honest, attack):
    edit, name, words = ATTACKS[attack]
    record, model = honest(name)
    edit(record)
    bundle = bundle_of(record, model)
    assert any(words in one for one in contradictions(bundle.manifest))
    with pytest.raises(BundleRefused, match=r"Add the bundle as the run wrote it, or test the model anew$"):
        check_bundle(bundle)


IMPOSSIBLE = {
    "half a picture": ({"n": 99.5}, "valid integer"),
    "fewer than none": ({"right": -1}, "greater than or equal to 0"),
    "one more right than pictures": ({"right": 101, "intervals": {}}, "a part is at most the whole"),
    "more of both kinds than pictures": ({"n_other": 10_000}, "are not 100 in all"),
    "a counted metric as an estimate": ({"estimates": {"accuracy": 0.99}}, "are no estimates"),
    "a share of more than all": ({"estimates": {"auroc": 1.5}, "intervals": {}}, "it is from 0 to 1"),
    "an interval beyond 1": ({"intervals": {"accuracy": [0.1, 1.2]}}, "within 0 and 1"),
    "an interval elsewhere": ({"intervals": {"accuracy": [0.999, 1.0]}}, "does not have it"),
    "an interval from above": ({"intervals": {"unknown": [0.9, 0.1]}}, "within 0 and 1"),
    "no such count": ({"rigth": 7}, "rigth"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_counts_that_cannot_be_are_no_manifest(honest, name):
    record, _ = honest()
    edit, words = IMPOSSIBLE[name]
    rows(record, "dark")[0].update(edit)
    content = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    with pytest.raises(ManifestError, match=words) as refused:
        read_manifest(content)
    assert "evaluation.by_subgroup.dark" in str(refused.value)


def test_a_limit_that_so_many_lesions_prove_is_taken(honest):
    """All of 60 lesions found: 0.05 ** (1 / 60) is 0.951."""
    record, model = honest()
    record["working_point"] |= {"sensitivity_low": 0.951}
    assert contradictions(bundle_of(record, model).manifest) == []


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda found: found["by_class"]["NV"].update(given=0), "right answers are more than"),
        (lambda found: found["fairness"]["intervals"].update(spread=[0.4, 0.1]), "within 0 and 1"),
        (lambda found: found["by_class"].pop("NV"), "the labels are"),
    ],
    ids=["more right than answers", "an interval of fairness", "counts of other classes"],
)
def test_what_else_is_no_manifest(honest, edit, words):
    record, _ = honest()
    edit(record["evaluation"])
    with pytest.raises(ValueError, match=words):
        BundleManifest.model_validate(record)


def test_nothing_of_it_is_kept(registry, honest, folders):
    record, model = honest()
    ATTACKS["found everywhere"][0](record)
    with pytest.raises(BundleRefused, match="counts that cannot be right"):
        registry.add(folders(bundle_of(record, model)))
    assert registry.versions() == ()
