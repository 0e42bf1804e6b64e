"""The five questions that a job is made of: what is proposed, and what was answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from clients.data.errors import ClientDataError, ManifestError
from clients.new_job import labels, parties, tones
from clients.new_job.labels import Asked, Labels
from clients.new_job.lesions import Lesions
from clients.new_job.machines import Machine
from clients.new_job.manifests import Manifests
from clients.new_job.parties import Parties
from clients.new_job.tones import Tones
from registry.bundle.text import nearest
from training.data.settings import CasesConfig
from training.data.subgroups import ColumnSubgroups, ToneSubgroups


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: of the option that answers it.
        text: what is asked.
        facts: what the manifests say of it, in lines.
        choices: what may be answered, each with what it means.
        proposal: what is taken without an answer.
    """

    name: str
    text: str
    facts: tuple[str, ...]
    choices: Mapping[str, str]
    proposal: str


@dataclass(frozen=True)
class Answers:
    """What a job is made of.

    Attributes:
        labels: what is asked of the model.
        parties: who the clients are.
        tones: what is known of skin tones, where subgroups are of a scale.
        subgroups: the job's `subgroups`.
        cases: what a lesion has; None where pictures are diagnosed by themselves.
        machine: where it runs.
    """

    labels: Labels
    parties: Parties
    tones: Tones | None
    subgroups: ToneSubgroups | ColumnSubgroups | None
    cases: CasesConfig | None
    machine: Machine


Ask = Callable[[Question], str]


def answered(manifests: Manifests, lesions: Lesions, given: Mapping[str, str | None], ask: Ask) -> Answers:
    """Put the five questions, each with its proposal from the manifests.

    Args:
        manifests: what they hold.
        lesions: what they say of lesions.
        given: what a person said of single labels.
        ask: answers a question.

    Raises:
        ClientDataError: an answer that these manifests do not allow.
    """
    asked = ask(_labels_question(manifests, given))
    _among(asked, get_args(Asked), "--asks")
    of_labels = Labels("malignancy" if asked == "malignancy" else "diagnoses", manifests.labels, given)
    if of_labels.asked == "malignancy":
        of_labels = replace(of_labels, given={**given, **_told_apart(of_labels, ask)})
    of_labels.check()
    of_parties = parties.read_parties(ask(_parties_question(manifests)), manifests)
    of_tones, subgroups = _subgroups(ask(_tones_question(manifests)), manifests)
    unit = ask(_unit_question(lesions))
    _among(unit, ("picture", "lesion"), "--unit")
    machine = ask(_machine_question())
    _among(machine, get_args(Machine), "--on")
    return Answers(
        of_labels,
        of_parties,
        of_tones,
        subgroups,
        lesions.require() if unit == "lesion" else None,
        next(name for name in get_args(Machine) if name == machine),
    )


def _told_apart(of: Labels, ask: Ask) -> dict[str, str | None]:
    """What a person says of labels whose malignancy is not known; nothing of those without an answer."""
    told: dict[str, str | None] = {}
    for label in of.unknown:
        answer = ask(
            Question(
                "map",
                f"Is {label!r} ({of.counts[label]} pictures) malignant?",
                (),
                {"benign": "it is not", "malignant": "it is", "null": "leave its pictures out"},
                "",
            )
        )
        if answer:
            told |= labels.read_given([f"{label}={answer}"])
    return told


def _among(answer: str, allowed: tuple[str, ...], option: str) -> None:
    if answer not in allowed:
        raise ClientDataError(f"{option} {answer!r} is none of the answers; {nearest(answer, list(allowed))}")


def _labels_question(manifests: Manifests, given: Mapping[str, str | None]) -> Question:
    counts = manifests.labels
    unknown = labels.Labels("malignancy", counts, given).unknown
    facts = [f"{len(counts)} labels: {_listed(counts)}"]
    unlabelled = len(manifests.rows) - sum(counts.values())
    if unlabelled:
        facts.append(
            f"{unlabelled} pictures have no label; no model learns from them here, or is judged by them"
        )
    if unknown:
        facts.append(
            f"not known to be benign or malignant: {_listed({label: counts[label] for label in unknown})}; "
            "say it with --map LABEL=benign or --map LABEL=malignant, or leave them out with --map LABEL=null"
        )
    return Question(
        "asks",
        "What is asked of the model?",
        tuple(facts),
        {"malignancy": "benign or malignant", "diagnoses": "the labels themselves"},
        labels.proposed(counts, given),
    )


def _parties_question(manifests: Manifests) -> Question:
    choices = {
        f"column:{column}": f"a client for each value of the column {column!r}"
        for column in parties.hospital_columns(manifests)
    }
    many = len(manifests.paths) > 1
    choices["files"] = (
        "a client for each manifest"
        if many
        else "one client, this hospital; so it joins others over a network"
    )
    choices[f"parts:{parties.PARTS}"] = (
        f"for a trial {parties.PARTS} equal parts, each patient in one of them; needs many patients"
    )
    return Question("clients", "Who are the clients?", (), choices, parties.proposed(manifests))


def _tones_question(manifests: Manifests) -> Question:
    found = tones.scales_by_pictures(manifests)
    facts, choices, proposal = [], {}, "none"
    for scale, count in found.items():
        of_scale = tones.tones_of(manifests, scale)
        told = ", ".join(f"{patients} {name}" for name, patients in of_scale.patients.items())
        facts.append(f"{count} pictures have a tone on the scale {scale}; labelled patients: {told}")
        if of_scale.setting is not None:
            choices[scale] = of_scale.described
            proposal = scale if proposal == "none" else proposal
    undeclared = sum(not row.skin_tone for row in manifests.rows)
    if undeclared:
        facts.append(f"{undeclared} of {len(manifests.rows)} pictures have no skin tone")
    choices["column:NAME"] = "the values of a column, such as sex"
    choices["none"] = "no figure is told apart by subgroup"
    return Question(
        "subgroups", "Of which subgroups are figures told apart?", tuple(facts), choices, proposal
    )


def _unit_question(lesions: Lesions) -> Question:
    if lesions.cases is None:
        why = (
            f"lesions cannot be cases, for {len(lesions.problems)} problems: `dermfed-data check --cases`"
            if lesions.several
            else "no lesion has several pictures"
        )
        return Question(
            "unit", "What is diagnosed?", (why,), {"picture": "each picture by itself"}, "picture"
        )
    cases = lesions.cases
    facts = [f"{lesions.several} of {lesions.lesions} lesions have several pictures"]
    facts += [f"left out of the facts: {problem}" for problem in lesions.unread]
    known = f" with {', '.join(map(str, cases.facts))}" if cases.facts else ""
    return Question(
        "unit",
        "What is diagnosed?",
        tuple(facts),
        {
            "lesion": f"a lesion by up to {cases.slots} pictures{known}",
            "picture": "each picture by itself",
        },
        "lesion",
    )


def _machine_question() -> Question:
    return Question(
        "on",
        "Where does it run?",
        (),
        {
            "try-out": "a laptop, some minutes: a small network that knows nothing, to see that all fits",
            "processor": "a laptop or a server: a known encoder, frozen; minutes for some thousand pictures",
            "gpu": "a GPU, or a processor with more time: a known encoder that learns, too",
        },
        "try-out",
    )


def _subgroups(
    answer: str, manifests: Manifests
) -> tuple[Tones | None, ToneSubgroups | ColumnSubgroups | None]:
    kind, _, column = answer.partition(":")
    if answer == "none":
        return None, None
    if kind == "column" and column:
        return None, tones.column_setting(manifests, column)
    of_scale = tones.tones_of(manifests, answer)
    if of_scale.setting is None:
        raise ManifestError(
            f"on the scale {answer} skin tones of {tones.FEWEST_PATIENTS} labelled patients or more are of "
            f"{', '.join(of_scale.groups) or 'no group'}, so there is nothing to compare; take --subgroups "
            "none"
        )
    return of_scale, of_scale.setting


def _listed(counts: Mapping[str, int], most: int = 12) -> str:
    names = [f"{name} ({count})" for name, count in list(counts.items())[:most]]
    more = len(counts) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
