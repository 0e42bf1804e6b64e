"""SCIN: 10,380 pictures of 5,033 cases, with two scales of skin tone (Ward et al. 2024, SCIN licence).

The folder holds `scin_cases.csv`, `scin_labels.csv` and the pictures, unpacked or in zip files: up to three
a case. A case is the lesion. Fifteen pictures stand in several cases: each is listed once, under the first
of its cases, the column `other_cases` names the rest, and all these cases are kept together; what they do
not agree on, label or tone, is not known of it. Twenty cases have no picture but such and make no row.

Up to three dermatologists gave each case weighted conditions; the label is the heaviest, under its
published name. 925 cases have several that weigh the same: see `ties`, and the column `tied_labels`. 1,972
cases have none: they are unlabelled. The names are an open list; one that no dermatologist gave for its
case is an error. Fitzpatrick types are the contributor's own word, in 2,175 cases; Monk tones are estimated
from the picture by two groups of graders, who agree in 40 % of the cases. Patients are not named.

Facts are in the words of `registry.bundle.cases`: an age group stands as its middle, in whole years,
and the parts of the body as the one site that they are of, where they are of one. The columns `age_group` and
`body_parts` have what was published.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import TableAdapter
from clients.data.adapters.published import OF_SEVERAL_CASES, code_of, manifest_of_cases, read_table, tone_of
from clients.data.errors import AdapterError
from clients.data.manifest import IMAGE_KIND, Manifest

KINDS = {"CLOSE_UP": "close-up", "AT_AN_ANGLE": "close-up", "AT_DISTANCE": "overview"}
OWN_WORD, WEIGHTS = "fitzpatrick_skin_type", "weighted_skin_condition_label"
GIVEN = "dermatologist_skin_condition_on_label_name"
_PART = "body_parts_"
SITES = {
    "head_or_neck": "head_neck",
    "arm": "upper_extremity",
    "palm": "palms_soles",
    "back_of_hand": "hand",
    "torso_front": "trunk",
    "torso_back": "trunk",
    "buttocks": "trunk",
    "genitalia_or_groin": "oral_genital",
    "leg": "lower_extremity",
    "foot_top_or_side": "foot",
    "foot_sole": "palms_soles",
    "other": "",
}
AGES = re.compile(r"AGE_(\d+)_TO_(\d+)")  # other groups, as that of the unknown, have no middle
SEXES = {"FEMALE": "female", "MALE": "male"}  # all else is not known


class Scin(TableAdapter):
    """SCIN.

    Attributes:
        scale: whether tones are the contributors' Fitzpatrick types or the graders' Monk tones.
        graders: whose Monk tones.
        ties: where several conditions weigh most, `first` takes the one that the table writes first, and
            `unlabelled` none.
    """

    name: Literal["scin"] = "scin"
    scale: Literal["fitzpatrick", "monk"] = "fitzpatrick"
    graders: Literal["us", "india"] = "us"
    ties: Literal["first", "unlabelled"] = "first"

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture, in the order of the table of cases."""
        notes: list[str] = []
        tones = f"monk_skin_tone_label_{self.graders}"
        labels = {
            line["case_id"]: line
            for line in read_table(
                folder / "scin_labels.csv",
                ("case_id", GIVEN, WEIGHTS, tones),
                key="case_id",
                repeats=self.repeats,
                notes=notes,
            )
        }
        paths = [f"image_{number}_path" for number in (1, 2, 3)]
        shown = []
        for line in read_table(
            folder / "scin_cases.csv", ("case_id", OWN_WORD, *paths), key="case_id", notes=notes
        ):
            number = line["case_id"]
            if number not in labels:
                raise AdapterError(f"case {number} is in scin_cases.csv but not in scin_labels.csv")
            own = line[OWN_WORD].removeprefix("FST").replace("NONE_IDENTIFIED", "")
            tone = tone_of(
                f"case {number}", labels[number][tones] if self.scale == "monk" else own, self.scale
            )
            top = _heaviest(f"case {number}", labels[number])
            tied = top if len(top) > 1 else []
            parts = [
                column.removeprefix(_PART)
                for column, cell in line.items()
                if column.startswith(_PART) and cell == "YES"
            ]
            age_group = line.get("age_group", "")
            case = {
                "label": "" if not top or (tied and self.ties == "unlabelled") else top[0],
                "skin_tone": tone,
                "lesion_id": number,
                "site": _site(parts),
                "tied_labels": "; ".join(tied),
                "age": _middle(age_group),
                "sex": SEXES.get(line.get("sex_at_birth", ""), ""),
                "age_group": age_group,
                "body_parts": ", ".join(parts),
            }
            for path in paths:
                shot = line.get(path.replace("_path", "_shot_type"), "")
                kind = {"shot_type": shot, IMAGE_KIND: KINDS.get(shot, "")}
                if line[path]:
                    shown.append((line[path], {**case, **kind, **OF_SEVERAL_CASES}))
        return manifest_of_cases(shown, folder, notes, same=("label", "skin_tone"), scale=self.scale)


def _site(parts: Sequence[str]) -> str:
    """The one site that all parts of the body are of; empty where they are of several, or of none."""
    sites = {SITES.get(part, "") for part in parts}
    return sites.pop() if len(sites) == 1 else ""


def _middle(age_group: str) -> str:
    """The middle of a group of ages, in whole years; empty where it has none."""
    found = AGES.fullmatch(age_group)
    return str(sum(map(int, found.groups())) // 2) if found else ""


def _heaviest(case: str, labels: Mapping[str, str]) -> list[str]:
    """The conditions of highest weight, as the table orders them; none where there are none."""
    weights, given = _literal(case, labels[WEIGHTS] or "{}"), _literal(case, labels[GIVEN] or "[]")
    if not isinstance(weights, dict) or not isinstance(given, list):
        raise AdapterError(f"{case}: {WEIGHTS} is no dictionary or {GIVEN} no list")
    numbers = [weight for weight in weights.values() if isinstance(weight, int | float)]
    if len(numbers) < len(weights):
        raise AdapterError(f"{case}: {WEIGHTS} {labels[WEIGHTS]} has a weight that is no number")
    names = {str(name): str(name) for name in given}
    known = {code_of(case, str(name), names): weight for name, weight in weights.items()}
    return [name for name, weight in known.items() if weight == max(numbers)]


def _literal(case: str, cell: str) -> object:
    """The dictionary or list that a cell holds, as Python or JSON writes it."""
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise AdapterError(f"{case}: cannot read {cell!r}: {error}") from error
