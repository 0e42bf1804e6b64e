"""Does the distance from the training pictures tell unknown diseases where low confidence does not? MILK10k.

Runs `fedauto@milk10k` once for every seed, as `python training/run.py` would, but on the diagnoses in place
of malignant and benign, and without some diseases: their pictures are in no split. A run that is there
already is not done again. Then each released model looks at the known test pictures and at all pictures of
the unknown diseases, and two scores of being unknown are compared: the distance M(x) from the training
pictures, and 1 − max p. Each picture is answered by the model that the service would route it to; the
distances of several models stand side by side where all pictures are judged together.

Printed, as means over seeds: the AUROC of telling unknown from known, over all pictures, by subgroup where
both sides have at least 10, and by unknown disease against all known, with in brackets the envelope of the
seeds' 95 % intervals from 1,000 bootstrap draws of pictures; and the share of pictures of which
nothing is concluded, that are referred for their distance, and either.

    DERMFED_DATA=... python benchmarks/unknown_diseases.py --runs runs/unknown --seeds 3
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from recipe_runs import RecipeRun, read_recipe, run_all
from scipy.stats import rankdata
from tables import print_conditions, print_table
from whole_graph import answers

from clients.data.adapters.milk10k import Milk10k
from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from registry.bundle.decision import decide
from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.labels import GLOBAL
from registry.bundle.model import Graph
from training.data.dataset import SPLITS, Examples, Split
from training.jobs.job import Job

RECIPE = "fedauto@milk10k"
FEWEST = 10  # pictures of either side, for an AUROC
DRAWS = 1000


@dataclass(frozen=True)
class Seen:
    """What released models say of some pictures.

    Attributes:
        distance: M(x) `(n,)`.
        doubt: 1 − max p `(n,)`.
        doubted: whether nothing would be concluded, however near it lies, `(n,)`.
        far: whether its distance does `(n,)`.
        codes: its label's code `(n,)`.
        places: its subgroup `(n,)`.
    """

    distance: NDArray[np.float64]
    doubt: NDArray[np.float64]
    doubted: NDArray[np.bool_]
    far: NDArray[np.bool_]
    codes: NDArray[np.str_]
    places: NDArray[np.str_]

    def of(self, column: str, value: str) -> NDArray[np.bool_]:
        """Which pictures have this value."""
        which: NDArray[np.bool_] = getattr(self, column) == value
        return which


def diagnoses() -> list[str]:
    """The codes of MILK10k."""
    folder = Path(read_recipe(RECIPE)["data"]["folder"].replace("${DERMFED_DATA}", str(data_folder())))
    return sorted({row.label for row in Milk10k().manifest(folder).rows})


def data_folder() -> Path:
    """Where the real pictures are."""
    if "DERMFED_DATA" not in os.environ:
        raise SystemExit("DERMFED_DATA names no folder; set it to the one that holds milk10k")
    return Path(os.environ["DERMFED_DATA"])


def job_of(kept: Sequence[str], codes: Sequence[str], seed: int, rounds: int | None) -> dict[str, Any]:
    """The recipe on some diagnoses, all others left out."""
    job = read_recipe(RECIPE)
    stages = list(job["stages"])
    if rounds is not None:
        stages[0] = {**stages[0], "rounds": rounds}
    label_map = {code: code if code in kept else None for code in codes}
    return {**job, "seed": seed, "data": {**job["data"], "label_map": label_map}, "stages": stages}


def look(bundles: Mapping[str, Bundle], job: Job, splits: Sequence[Split]) -> Seen:
    """What the routed models say of a job's pictures in some splits."""
    dataset = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
    codes = np.array([label.code for label in dataset.labels])
    parts: list[Seen] = []
    for client in dataset.clients:
        for split in splits:
            examples = dataset.examples(client, split)
            for number, place in enumerate(dataset.subgroups):
                part = examples.where(examples.subgroups == number)
                if len(part):
                    parts.append(judge(bundles.get(place, bundles[GLOBAL]), part, codes, place))
    columns = Seen.__dataclass_fields__
    return Seen(**{column: np.concatenate([getattr(part, column) for part in parts]) for column in columns})


def judge(bundle: Bundle, part: Examples, codes: NDArray[np.str_], place: str) -> Seen:
    """What one model says of pictures of one subgroup."""
    known = bundle.manifest.out_of_distribution
    if known is None:
        name = bundle.manifest.subgroup.name
        raise SystemExit(f"the model {name} has no Gaussians; lower privacy.min_count in the recipe")
    outputs = answers(Graph(bundle.model, threads=1), part)
    rows = zip(outputs.probabilities, outputs.embedding, strict=True)
    decisions = [decide(probabilities, bundle.manifest, embedding=each) for probabilities, each in rows]
    doubted = [not decide(row, bundle.manifest).reported for row in outputs.probabilities]
    confidence = np.array([decision.findings[0].probability for decision in decisions])
    return Seen(
        known.gaussians.distances(outputs.embedding),
        1 - confidence,
        np.array(doubted),
        np.array([bool(decision.unfamiliar) for decision in decisions]),
        codes[part.labels],
        np.full(len(part), place),
    )


def auroc(unknown: NDArray[np.float64], known: NDArray[np.float64]) -> float:
    """The probability that an unknown picture scores higher than a known one, ties counting half."""
    ranks = rankdata(np.concatenate([unknown, known]))[: len(unknown)]
    return float((ranks.sum() - len(unknown) * (len(unknown) + 1) / 2) / (len(unknown) * len(known)))


def interval(unknown: NDArray[np.float64], known: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """The 95 % interval of the AUROC from bootstrap draws of pictures; each is of a lesion of its own."""
    rng = np.random.default_rng(seed)
    drawn = [auroc(rng.choice(unknown, len(unknown)), rng.choice(known, len(known))) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def cell(seeds: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> str:
    """The mean AUROC over seeds, and the envelope of their intervals; – with too few pictures."""
    if any(min(len(unknown), len(known)) < FEWEST for unknown, known in seeds):
        return "–"
    ends = [interval(*pair, seed) for seed, pair in enumerate(seeds)]
    mean = np.mean([auroc(*pair) for pair in seeds])
    return f"{mean:.3f} [{min(end[0] for end in ends):.3f}, {max(end[1] for end in ends):.3f}]"


def auroc_rows(unknown: Sequence[Seen], known: Sequence[Seen]) -> list[list[object]]:
    """All pictures, each subgroup, each unknown disease."""
    everything: dict[str, tuple[str, str, bool]] = {"all": ("", "", True)}
    everything |= {place: ("places", place, True) for place in sorted({*unknown[0].places})}
    everything |= {code: ("codes", code, False) for code in sorted({*unknown[0].codes})}
    rows: list[list[object]] = []
    for name, (column, value, both) in everything.items():
        chosen = [
            (
                seen.of(column, value) if column else np.full(len(seen.doubt), True),
                other.of(column, value) if column and both else np.full(len(other.doubt), True),
            )
            for seen, other in zip(unknown, known, strict=True)
        ]
        numbers = "/".join(dict.fromkeys(f"{u.sum()} in {k.sum()}" for u, k in chosen))
        pairs = list(zip(unknown, known, chosen, strict=True))
        rows.append(
            [
                f"{name} ({numbers})",
                *(
                    cell([(getattr(u, score)[a], getattr(k, score)[b]) for u, k, (a, b) in pairs])
                    for score in ("distance", "doubt")
                ),
            ]
        )
    return rows


def referred_row(name: str, seeds: Sequence[Seen]) -> list[object]:
    """Shares of pictures of which nothing is concluded, referred for their distance, for either."""
    shares = [(seen.doubted.mean(), seen.far.mean(), (seen.doubted | seen.far).mean()) for seen in seeds]
    return [name, *(f"{share:.3f}" for share in np.mean(shares, axis=0))]


def main(
    runs: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/unknown"),
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = 3,
    unknown: Annotated[str, typer.Option(help="Diagnoses nobody trains on.")] = "DF,VASC,INF,BEN_OTH,MAL_OTH",
    rounds: Annotated[int | None, typer.Option(help="Rounds in place of the recipe's.")] = None,
    at_once: Annotated[int, typer.Option(help="Runs at once; with several, each has one worker.")] = 1,
) -> None:
    """Run what is missing and print the tables."""
    codes, left_out = diagnoses(), unknown.split(",")
    if strange := sorted(set(left_out) - set(codes)):
        raise SystemExit(f"MILK10k has no {', '.join(strange)}; it has {', '.join(codes)}")
    trained = [code for code in codes if code not in left_out]
    name = f"{RECIPE}-without-{'-'.join(left_out)}" + (f"-{rounds}-rounds" if rounds else "")
    wanted = [RecipeRun(f"{name}-{seed}", job_of(trained, codes, seed, rounds)) for seed in range(seeds)]
    run_all(wanted, runs, at_once)

    known_pictures, unknown_pictures = [], []
    for seed, run in enumerate(wanted):
        folders = sorted((run.folder(runs) / "bundles").iterdir())
        bundles = {bundle.manifest.subgroup.name: bundle for bundle in map(read_bundle, folders)}
        known_pictures.append(look(bundles, Job.model_validate(run.job), ["test"]))
        other = Job.model_validate(job_of(left_out, codes, seed, rounds))
        unknown_pictures.append(look(bundles, other, SPLITS))

    conditions = {"recipe": RECIPE, "seeds": seeds, "trained on": ", ".join(trained), "unknown": unknown}
    print_conditions("Unknown diseases", conditions)
    print_table(
        ["AUROC of unknown (n) in known (n)", "distance", "1 − max p"],
        auroc_rows(unknown_pictures, known_pictures),
    )
    print_table(
        ["pictures referred", "nothing concluded", "distance", "either"],
        [referred_row("known", known_pictures), referred_row("unknown", unknown_pictures)],
    )


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1 --rounds 1", pictures=True)
