"""Reading the test figures of a bundle, which may be in any form that JSON allows.

What a card cannot say: what is unknown, untested or rests on too few pictures, in sentences.

What a model is for, whom it is not for, and how its answers are to be used.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from registry.bundle.counts.score_bins import LOGIT_BINS, probability_text
from registry.bundle.labels import UNDECLARED
from registry.bundle.manifest import Abstention, BundleManifest

FEW = 30
"""With fewer test pictures than this a figure is marked: it can be far off."""

TOO_FEW = "too few to tell"
UNKNOWN = "unknown"

INTERVALS = "intervals"
GROUPS = ("by_subgroup", "by_class", "fairness")  # objects of figures, or objects of such objects
PARTS = (*GROUPS, "differences", "intersections", "absent", INTERVALS)


def number_of(value: object) -> float | int | None:
    """The value if it is a finite number, else None; a truth value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def count_of(value: object) -> int | None:
    """The value if it can be a number of pictures, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def ends_of(found: object) -> tuple[float, float] | None:
    """The two ends of an interval, the lower first; None where it is none."""
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != 2:
        return None
    low, high = number_of(found[0]), number_of(found[1])
    return (low, high) if low is not None and high is not None and low <= high else None


def interval_of(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The 95 % interval of one figure of a row; None where it has none."""
    intervals = row.get(INTERVALS)
    return ends_of(intervals.get(name)) if isinstance(intervals, Mapping) else None


def rows_of(found: object) -> dict[str, Mapping[str, Any]]:
    """The rows of an object of rows; what is no row is left out."""
    if not isinstance(found, Mapping):
        return {}
    return {name: row for name, row in found.items() if isinstance(row, Mapping)}


def names_of(found: object) -> list[str]:
    """The texts of a list of texts; nothing where it is none."""
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [one for one in found if isinstance(one, str)]


def overall(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The figures over all test pictures."""
    return {name: value for name, value in metrics.items() if name not in PARTS}


def not_understood(metrics: Mapping[str, Any]) -> list[str]:
    """Where a bundle's figures are in a form that is not ours, as paths such as `by_subgroup.dark.ece`."""
    return list(_strange(metrics))


def _strange(metrics: Mapping[str, Any]) -> Iterator[str]:
    yield from _strange_row("", overall(metrics) | _only(metrics, INTERVALS))
    for name in ("by_subgroup", "by_class"):
        yield from _strange_rows(name, metrics.get(name))
    fairness = metrics.get("fairness")
    if isinstance(fairness, Mapping):
        yield from _strange_row("fairness.", fairness)
    elif fairness is not None:
        yield "fairness"
    absent = metrics.get("absent")
    if absent is not None and (not isinstance(absent, Sequence) or len(names_of(absent)) != len(absent)):
        yield "absent"
    differences = metrics.get("differences")
    if differences is not None and not _are_differences(differences):
        yield "differences"
    yield from _strange_intersections(metrics.get("intersections"))


def _strange_intersections(found: object) -> Iterator[str]:
    if isinstance(found, Mapping):
        for column, values in found.items():
            if not isinstance(values, Mapping):
                yield f"intersections.{column}"
                continue
            for value, rows in values.items():
                yield from _strange_rows(f"intersections.{column}.{value}", rows, may_be_null=True)
    elif found is not None:
        yield "intersections"


def _strange_rows(path: str, found: object, *, may_be_null: bool = False) -> Iterator[str]:
    if found is None:
        return
    if not isinstance(found, Mapping):
        yield path
        return
    for name, row in found.items():
        if isinstance(row, Mapping):
            yield from _strange_row(f"{path}.{name}.", row)
        elif row is not None or not may_be_null:
            yield f"{path}.{name}"


def _strange_row(prefix: str, row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if name == INTERVALS:
            if not isinstance(value, Mapping):
                yield f"{prefix}{name}"
                continue
            for figure, ends in value.items():
                if ends is not None and ends_of(ends) is None:
                    yield f"{prefix}{name}.{figure}"
        elif value is not None and number_of(value) is None:
            yield f"{prefix}{name}"


def _are_differences(found: object) -> bool:
    return isinstance(found, Sequence) and not isinstance(found, str) and all(map(is_difference, found))


def is_difference(found: object) -> bool:
    """Whether an entry names two subgroups and how far they are apart in which figure."""
    return (
        isinstance(found, Mapping)
        and len(names_of(found.get("between"))) == 2
        and isinstance(found.get("figure"), str)
    )


def _only(metrics: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: metrics[name]} if name in metrics else {}


_NAMED = 12  # of what was not understood; the rest is counted


def limits(manifest: BundleManifest) -> list[str]:
    """What holds for every card, then what holds for this one."""
    metrics = manifest.metrics
    return [
        "The figures are of one test split, of the clients it was trained at. Another hospital, camera or "
        "population can give others.",
        _trained(manifest),
        *_untested(metrics),
        *_few(metrics),
        *_merged(manifest),
        *_intervals(manifest),
        *_unknown_parts(metrics),
        *_uncalibrated(manifest),
        *_unreadable(metrics),
        "Maps of where the model looked, where a service shows them, are not validated.",
    ]


def trained_at_least(manifest: BundleManifest) -> int | None:
    """Training pictures behind the Gaussians of what is familiar; other classes may have had more."""
    familiarity = manifest.out_of_distribution
    return None if familiarity is None else familiarity.trained_on


def _trained(manifest: BundleManifest) -> str:
    least = trained_at_least(manifest)
    if least is None:
        return "On how many pictures it was trained is not in the bundle."
    return (
        f"It was trained on at least {least:,} pictures, in the classes that have a Gaussian; on how many in "
        "all is not in the bundle."
    )


def _untested(metrics: Mapping[str, Any]) -> list[str]:
    rows = rows_of(metrics.get("by_subgroup"))
    found = []
    if not metrics:
        found.append("The bundle holds no test figures: how well it answers is unknown.")
    elif not rows:
        found.append(
            "The bundle holds no figures by subgroup: whether it serves all skin tones alike is unknown."
        )
    if absent := names_of(metrics.get("absent")):
        found.append(f"No test pictures of {', '.join(absent)}: how it serves them is unknown.")
    if undeclared := count_of(rows.get(UNDECLARED, {}).get("n")):
        found.append(
            f"{undeclared} test pictures of undeclared skin tone count in every total and in no comparison."
        )
    return found


def _few(metrics: Mapping[str, Any]) -> list[str]:
    found = []
    for kind, part in (("subgroups", "by_subgroup"), ("diseases", "by_class")):
        counted = {name: count_of(row.get("n")) for name, row in rows_of(metrics.get(part)).items()}
        few = [f"{name} ({n})" for name, n in counted.items() if n is not None and n < FEW]
        unknown = [name for name, n in counted.items() if n is None]
        if few:
            found.append(
                f"Fewer than {FEW} test pictures, so that figures can be far off, of the {kind} "
                f"{', '.join(few)}."
            )
        if unknown:
            found.append(f"On how many pictures these {kind} were tested is unknown: {', '.join(unknown)}.")
    return found


def _merged(manifest: BundleManifest) -> list[str]:
    cell = manifest.reference.smallest_cell if manifest.reference else 1
    if cell < 2:
        return []
    return [
        f"Scores of fewer than {cell} patients of a hospital and skin tone are counted together, so that "
        "AUROC, ECE and AURC of small groups are coarse, and drift is measured by coarse bins; accuracies, "
        "coverage and what is referred are exact."
    ]


def _intervals(manifest: BundleManifest) -> list[str]:
    metrics = manifest.metrics
    rows = [*rows_of(metrics.get("by_subgroup")).values(), metrics]
    if any(ends for row in rows for ends in row.get("intervals", {}).values()):
        return [
            "Intervals are of 95 %, for the chance of which lesions came into the test split; they do not "
            "contain what training again would change."
        ]
    return ["No figure has an interval: how sure they are is unknown."] if metrics else []


def _unknown_parts(metrics: Mapping[str, Any]) -> list[str]:
    found = []
    if not metrics.get("intersections"):
        found.append(
            "No figures by sex, age or site in a subgroup: whether it serves those alike is unknown."
        )
    if not metrics.get("differences"):
        found.append(
            "No test of differences between subgroups: whether they are more than chance is unknown."
        )
    return found


def _uncalibrated(manifest: BundleManifest) -> list[str]:
    found = []
    if not manifest.temperature.n:
        found.append("Its probabilities were calibrated on no pictures: do not read them as frequencies.")
    elif manifest.temperature.shrunk:
        found.append(
            f"Its temperature was drawn towards that of everybody, since only {manifest.temperature.n} "
            "pictures were there to calibrate on."
        )
    if manifest.basis == "cross-fitted" and manifest.conformal.guarantee != "none":
        found.append(
            "Its guarantees are cross-fitted: exact for models trained without a part of the lesions each, "
            "and nominal for this one, which was trained on all. The test counts stand beside them."
        )
    if manifest.conformal.guarantee == "none":
        found.append("Its prediction sets promise no coverage.")
    if manifest.refers_all:
        found.append("It refers every picture.")
    found += _unfamiliar(manifest)
    return found


def _unfamiliar(manifest: BundleManifest) -> list[str]:
    familiarity = manifest.out_of_distribution
    if familiarity is None:
        return ["It does not notice pictures unlike those it was trained on, such as of an unknown disease."]
    found = []
    if familiarity.threshold is None:
        found.append(
            f"It calls no picture unfamiliar, since {familiarity.n} calibration lesions were too few to say "
            "which."
        )
    codes = [label.code for label in manifest.labels if label.code not in familiarity.classes]
    if codes:
        found.append(
            f"Pictures of {', '.join(codes)} may be called unfamiliar: too few were there to know them by."
        )
    return found


def _unreadable(metrics: Mapping[str, Any]) -> list[str]:
    strange = not_understood(metrics)
    if not strange:
        return []
    rest = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
    return [f"In a form that is not understood, and not shown: {_shortened(strange[:_NAMED])}{rest}."]


def _shortened(paths: Sequence[str]) -> str:
    return ", ".join(path if len(path) <= 80 else f"{path[:77]}..." for path in paths)


PURPOSE = (
    "Research into decision support for skin lesions. From one picture of one lesion it gives a probability "
    "for each disease it knows, for a clinician who examines the patient."
)
PURPOSE_OF_CASES = PURPOSE.replace(
    "one picture of one lesion", "pictures of one lesion, and what else is known of it,"
)
NEVER_REPORTS = "It never reports."
USERS = "Clinicians and researchers who know its limits. It is never the only ground of a decision."


def intended_use(manifest: BundleManifest) -> dict[str, Any]:
    """What the model is for: `purpose`, `users`, `population`, and `not_for` as a list of sentences."""
    subgroup, names = manifest.subgroup, ", ".join(label.name for label in manifest.labels)
    not_for = [
        "It is no medical device, and nothing here is a clinical validation.",
        "Not for a diagnosis without a clinician, and not for telling a patient that a lesion is harmless.",
        f"Not for other diseases than {names}: it answers with one of these whatever the picture shows.",
        "The bundle does not say which cameras or dermatoscopes, ages and parts of the body it was trained "
        "on: use on any of them is unproven until it has been tested there.",
    ]
    if missing := [one.called for one in manifest.claimed_tones if one.calibration is None]:
        not_for.append(
            f"Not for skin tone {', '.join(missing)}: too few patients of it, or none, were in the "
            "calibration."
        )
    if not subgroup.is_global:
        not_for.append(
            "Not for other or undeclared skin tones: asked about one, it answers with every disease in the "
            "set and promises nothing."
        )
    purpose = PURPOSE if manifest.case is None else PURPOSE_OF_CASES
    return {"purpose": purpose, "users": USERS, "population": population(manifest), "not_for": not_for}


def population(manifest: BundleManifest) -> str:
    """Whose pictures the model is for."""
    subgroup = manifest.subgroup
    if subgroup.is_global:
        return "Everybody whose skin tone has no model of its own, or is not declared."
    shown = {
        scale: [tone for tone in tones if manifest.represents(subgroup, tone, scale)]
        for scale, tones in subgroup.by_scale.items()
    }
    declared = [f"on the scale {scale} is {', '.join(tones)}" for scale, tones in shown.items() if tones]
    if not declared:
        return "Nobody: the bundle tells of no skin tone with enough patients in its calibration."
    return f"People whose declared skin tone {', or '.join(declared)}."


def how_to_use(manifest: BundleManifest) -> dict[str, str]:
    """How to read each part of an answer: `report`, `refer`, `prediction_set`, `malignancy`, `unfamiliar`."""
    return {
        "report": _report(manifest),
        "refer": _refer(manifest),
        "prediction_set": _prediction_set(manifest),
        "malignancy": _malignancy(manifest),
        "unfamiliar": _use_unfamiliar(manifest),
    }


def percent(share: float) -> str:
    """A share as it is said: 0.1 as `10 %`."""
    return f"{round(100 * share, 4):g} %"


def _how_sure(abstention: Abstention) -> str:
    """How sure it is that new pictures keep to the share of wrong answers, if anything is promised."""
    if abstention.risk_high is None or abstention.level is None:
        return ", which is not sure to hold for new ones"
    return (
        f", and new ones are shown to keep to {percent(round(abstention.risk_high, 3))} "
        f"(with {percent(abstention.level)} confidence)"
    )


def _report(manifest: BundleManifest) -> str:
    abstention = manifest.abstention
    if manifest.refers_all:
        return NEVER_REPORTS
    risk = (
        "how many were wrong is unknown"
        if abstention.risk is None or manifest.reports_from > abstention.threshold_bin
        else (f"{percent(round(abstention.risk, 3))} of those reported were wrong")
    )
    return (
        f"The highest probability is at least {probability_text(manifest.report_threshold)}: a clinician may "
        f"weigh the findings. On the {abstention.n} pictures the threshold was chosen on, {risk}; at most "
        f"{percent(abstention.target_risk)} were allowed{_how_sure(abstention)}."
    )


def _refer(manifest: BundleManifest) -> str:
    if manifest.refers_all:
        return (
            "Every picture is referred to a clinician: the model was never calibrated, or no threshold kept "
            "the share of wrong answers low enough."
        )
    if manifest.reports_from == 0:
        return "No picture is referred for low confidence."
    return (
        f"The highest probability is below {probability_text(manifest.report_threshold)}: a clinician judges "
        "the lesion as if there were no answer. A referral says nothing about how dangerous the lesion is."
    )


def _prediction_set(manifest: BundleManifest) -> str:
    conformal = manifest.conformal
    if conformal.guarantee == "none":
        return (
            f"The set holds every disease and promises nothing: it was calibrated on {conformal.n} lesions, "
            "too few, or never."
        )
    whom = (
        "for the skin tones it is for"
        if conformal.guarantee == "subgroup"
        else "for everybody together, not for each skin tone"
    )
    return (
        f"The set holds the true disease of at least {percent(1 - conformal.alpha)} of lesions, {whom}. This "
        f"holds on average over calibration splits, for lesions drawn like the {conformal.n} it was "
        "calibrated on; it is no probability for one patient. Diseases outside the set are not ruled out."
    )


def _malignancy(manifest: BundleManifest) -> str:
    malignant = [label.name for label in manifest.labels if label.malignancy == "malignant"]
    if not malignant:
        return "No disease is labelled malignant, so there is no malignancy probability."
    others = [label.name for label in manifest.labels if label.malignancy in ("premalignant", "unknown")]
    outside = f" {', '.join(others)}: not malignant for certain, so not counted in it." if others else ""
    return f"The summed probability of {', '.join(malignant)}.{outside}{_working_point(manifest)}"


def _working_point(manifest: BundleManifest) -> str:
    point = manifest.working_point
    if point is None:
        return ""
    missed = "" if point.reached else f", too few to show the {percent(point.target)} that were asked for"
    start = probability_text(LOGIT_BINS.lower(point.threshold_bin))
    return (
        f" From {start} on a lesion is suspicious: at least "
        f"{percent(round(point.sensitivity_low, 3))} of malignant lesions are (with {percent(point.level)} "
        f"confidence, chosen on {point.n} of them{missed}). An answer that is not malignant is then referred."
    )


def _use_unfamiliar(manifest: BundleManifest) -> str:
    found = manifest.out_of_distribution
    if found is None or found.threshold is None:
        return "A picture unlike those it was trained on is answered like any other."
    return (
        "A picture unlike those it was trained on is referred with a warning; so are "
        f"{percent(found.rate)} of known ones at most, on average. An unknown disease that looks like a "
        "known one is not noticed."
    )
