"""The end of `make demo`: asks the service about lesions that no model has seen, and says what was seen.

    python deployment/demo.py runs/demo http://127.0.0.1:3000

`runs/demo` has the run and the registry's bundles; the lesions are drawn into `runs/demo/pictures`.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import yaml

from clients.api import ConnectionFailed, DermFed, Diagnosis
from clients.data.adapters.layouts import Synthetic
from clients.data.manifest import Row
from personalization.calibration.at_thresholds import fewest_needed
from registry.bundle.folder import read_bundle
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.manifest import BundleManifest

ASKED, SEED = 120, 7  # pictures that are asked about, and their seed: no picture of the job has it
GROUPS = ("light", "medium", "dark")
LEFT_OUT = "dark"  # the group of skin tones whose version is not in the release
WIDTH = 110


@dataclass(frozen=True)
class Asked:
    """One picture with what it was drawn as, and the answer.

    Attributes:
        row: of the drawn manifest.
        group: its group of skin tones.
        malignant: whether it was drawn as a malignant lesion.
        answer: of the service.
    """

    row: Row
    group: str
    malignant: bool
    answer: Diagnosis


def ask(folder: Path, url: str, labels: Sequence[Label]) -> list[Asked]:
    """Draw lesions as the job does, and ask the service about each, once it is ready."""
    data = yaml.safe_load((folder / "run" / "job.resolved.yaml").read_text())["data"]
    options = {**data["options"], "pictures": ASKED, "seed": SEED}
    rows = Synthetic.model_validate(options).manifest(folder / "pictures").rows
    groups = {tone: name for name, tones in data["subgroups"]["groups"].items() for tone in tones}
    codes = [label.code for label in labels]
    malignant = dict(zip(codes, malignant_classes(labels), strict=True))
    with DermFed(url) as service:
        wait(service)
        return [
            Asked(
                row,
                groups[row.skin_tone],
                bool(malignant[row.label]),
                service.diagnose(folder / "pictures" / row.image, skin_tone=row.skin_tone),
            )
            for row in rows
        ]


def wait(service: DermFed, seconds: float = 60) -> None:
    """Return once the service can answer, or when the time is over: the first picture then says why not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(ConnectionFailed):
            if service.ready():
                return
        time.sleep(0.5)


def table(asked: Sequence[Asked]) -> Iterable[str]:
    """A line for each group of skin tones: how its lesions were answered, and its malignant ones."""
    yield f"{'skin':8}{'lesions':>9}{'ruled out':>11}{'urgent':>8}{'routine':>9}    of the malignant ones"
    for group in GROUPS:
        of = [one for one in asked if one.group == group]
        count = Counter(one.answer.triage for one in of)
        found = Counter(one.answer.triage for one in of if one.malignant)
        yield (
            f"{group:8}{len(of):9}{count['ruled-out']:11}{count['urgent']:8}{count['routine']:9}"
            f"    {found['urgent']} of {found.total()} urgent, {found['ruled-out']} ruled out"
        )


def percent(share: float) -> str:
    """An upper limit, never rounded down."""
    return f"{math.ceil(round(1000 * share, 6)) / 10:g}\u00a0%"


def reason(one: Asked) -> str:
    """Why a lesion got this answer, from what the service says."""
    answer, evidence = one.answer, one.answer.triage_evidence
    risk = f"Its probability of malignancy is {answer.malignancy.probability:.3f}"
    if answer.conclusion is not None:
        risk = f"Concluded: {answer.conclusion.name}. {risk}"
    if answer.triage == "ruled-out" and evidence is not None:
        missed = ", ".join(
            f"{each.kind} {each.missed} of {each.n} (at most {percent(each.high)})"
            for each in evidence.missed.kinds
        )
        return f"{risk}. Below the threshold for {one.group} skin were, in calibration: {missed}."
    if answer.triage == "urgent" and evidence is not None:
        alarms = evidence.false_alarms
        return (
            f"{risk}. At or above the threshold were, in calibration: lesions that are not malignant "
            f"{alarms.seen} of {alarms.n} (at most {percent(alarms.high)})."
        )
    why = (text for text in answer.warnings if text.startswith("No lesion is ruled out"))
    return " ".join([f"{risk}: not urgent.", *why])


def shown(title: str, found: Iterable[Asked]) -> str:
    """The first of some lesions with its reason."""
    one = next(iter(found), None)
    if one is None:
        return f"{title}: none of the lesions."
    name = next(finding.name for finding in one.answer.findings if finding.code == one.row.label)
    place = f"{one.row.image}, {one.group} skin (type {one.row.skin_tone}), drawn as: {name}."
    return f"{title}: {place}\n{fill(reason(one), WIDTH, initial_indent='  ', subsequent_indent='  ')}"


def left_out(manifest: BundleManifest) -> str:
    """Why the version for `LEFT_OUT` is not in the release, and what its patients get."""
    rules = manifest.triage
    assert rules is not None, "the demo calibrates triage"
    needed = fewest_needed(rules.missed, rules.level)
    few = ", ".join(f"{each.n} of {each.kind}" for each in rules.kinds if each.high > rules.missed)
    return (
        f"The version for {LEFT_OUT} skin is not released, since too few patients show what it would miss: "
        f"its calibration has {few}, and {needed} of each kind, none missed, are needed to show that at most "
        f"{100 * rules.missed:g} % are missed. The version for all skin tones answers in its place: it calls "
        f"lesions urgent, and rules none out. More patients with {LEFT_OUT} skin would change that."
    )


def main(folder: Path, url: str) -> None:
    """Ask, and print what was seen in about thirty lines."""
    bundles = folder / "run" / "bundles"
    everyone, dark = (read_bundle(bundles / name).manifest for name in ("global", LEFT_OUT))
    asked = ask(folder, url, everyone.labels)
    print(f"{len(asked)} drawn pictures that no model has seen were sent, each with its skin tone:\n")
    print("\n".join(table(asked)) + "\n")
    own, other = ([one for one in asked if (one.group == LEFT_OUT) is left] for left in (False, True))
    print(shown("RULED OUT", (one for one in own if one.answer.triage == "ruled-out")))
    print(shown("URGENT", (one for one in own if one.answer.triage == "urgent")))
    print(shown("REFERRED to a clinician", (one for one in other if one.answer.triage == "routine")) + "\n")
    print(fill(left_out(dark), WIDTH) + "\n")
    print("Each limit holds with 95 % confidence for lesions drawn like these, and says nothing of patients.")
    print("What there is to look at:")
    print(f"  {(folder / 'run' / 'report.html').resolve()}  figures by skin tone, in a browser")
    print(f"  {bundles.resolve()}  the models")
    print(f"  {(folder / 'service.log').resolve()}  what the service did")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
