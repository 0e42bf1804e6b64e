"""What a model is for, whom it is not for, and how its answers are to be used."""

from typing import Any

from registry.bundle.counts.probability_text import probability_text
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.manifest.schema import Abstention, BundleManifest

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
        "unfamiliar": _unfamiliar(manifest),
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


def _unfamiliar(manifest: BundleManifest) -> str:
    found = manifest.out_of_distribution
    if found is None or found.threshold is None:
        return "A picture unlike those it was trained on is answered like any other."
    return (
        "A picture unlike those it was trained on is referred with a warning; so are "
        f"{percent(found.rate)} of known ones at most, on average. An unknown disease that looks like a "
        "known one is not noticed."
    )
