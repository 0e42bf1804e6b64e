"""What a model says of pictures from where nobody trained: another clinic, another kind of picture.

The recipe `frozen` with several seeds, its data changed. Each row trains on the sources it names,
and asks of others whether a lesion is malignant:

- MILK10k's lesions by both pictures, asked of HAM10000's dermoscopic pictures: another clinic;
- HAM10000's clinics, asked of MILK10k's dermoscopic pictures: another clinic;
- HAM10000's clinics, asked of MILK10k's close-ups: another clinic, and a kind of picture nobody trained on;
- MILK10k's close-ups and HAM10000's clinics but one, asked of that one.

Beside the unseen figures stand those of the test pictures of the sources that trained.

    DERMFED_DATA=... python benchmarks/unseen_sources.py --runs runs/unseen --seeds 3
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from cases import FIGURES, summary_of
from quick import start
from recipe_runs import RecipeRun, cell, read_recipe, run_all
from tables import print_conditions, print_table

RECIPE = "frozen"
CLOSE_UPS = {"where": {"image_type": "clinical: close-up"}}
DERMOSCOPIC = {"where": {"image_type": "dermoscopic"}}
CLINICS = ("vidir_molemax", "vidir_modern", "vienna_dias")
Source = dict[str, Any]


def milk(**settings: Any) -> Source:
    """MILK10k."""
    return {"name": "milk10k", "adapter": "milk10k", "folder": "${DERMFED_DATA}/milk10k", **settings}


def ham(name: str = "ham10000", **settings: Any) -> Source:
    """HAM10000."""
    return {"name": name, "adapter": "ham10000", "folder": "${DERMFED_DATA}/ham10000", **settings}


UNSEEN = {"unseen": True}
CLINIC = {clinic: {"where": {"clinic": clinic}} for clinic in (*CLINICS, "rosendahl")}
SYSTEMS: Mapping[str, Sequence[Source]] = {
    "MILK10k; asked HAM10000": [milk(count=4), ham(**UNSEEN)],
    "HAM10000; asked MILK10k, dermoscopic": [ham(count=4), milk(**DERMOSCOPIC, **UNSEEN)],
    "HAM10000; asked MILK10k, close-ups": [ham(count=4), milk(**CLOSE_UPS, **UNSEEN)],
    "MILK10k, close-ups, and three clinics; asked Rosendahl": [
        milk(**CLOSE_UPS),
        *(ham(clinic, **CLINIC[clinic]) for clinic in CLINICS),
        ham("rosendahl", **CLINIC["rosendahl"], **UNSEEN),
    ],
}


def run_of(name: str, seed: int) -> RecipeRun:
    """One run."""
    job = read_recipe(RECIPE)
    data = {
        **{key: value for key, value in job["data"].items() if key not in ("adapter", "folder", "options")},
        "sources": [dict(source) for source in SYSTEMS[name]],
        "clients": {"by": "source"},
    }
    if not any(source["adapter"] == "milk10k" and not source.get("unseen") for source in data["sources"]):
        data["subgroups"] = None  # HAM10000 tells no skin tones
    called = f"unseen-{list(SYSTEMS).index(name)}-{seed}"
    changed = {**job, "seed": seed, "name": called, "data": data, "stages": job["stages"][:1]}
    return RecipeRun(called, changed)


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/unseen"),
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
) -> None:
    """Train, and print the table."""
    wanted = {name: [run_of(name, seed) for seed in range(seeds)] for name in SYSTEMS}
    run_all([run for of in wanted.values() for run in of], runs)
    print_conditions("Sources that nobody trained on", {"recipe": RECIPE, "seeds": seeds})
    rows = []
    for name, of in wanted.items():
        stages = [summary_of(run, runs)["stages"][0] for run in of]
        asked = [next(iter(stage["facts"]["unseen"].values())) for stage in stages]
        for what, tests in (("trained on", [stage["test"] for stage in stages]), ("unseen", asked)):
            rows.append([name, what, tests[0]["n"], *(cell(tests, key) for key in FIGURES.values())])
    print_table(["system", "judged by", "lesions", *FIGURES], rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1", pictures=True)
