"""What a card cannot say: what is unknown, untested or rests on too few pictures, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from registry.bundle.manifest.schema import UNDECLARED, BundleManifest
from registry.card.figures import FEW, count_of, names_of, not_understood, rows_of

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
    if any(isinstance(row.get("intervals"), Mapping) for row in rows):
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
