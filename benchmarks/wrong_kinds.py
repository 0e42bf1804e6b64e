"""Is a picture noticed that is sent as of another kind than it is? MILK10k, test lesions with both pictures.

The released model of a recipe's runs, as `cases.py` keeps them, looks at each lesion several times: at each
of its pictures as what it is, as the other kind and without a kind; and at both with their kinds, and with
their kinds exchanged. Told are what the mistake costs, and the share of lesions that are referred, and that
are found unfamiliar by their distance from the training pictures.

    DERMFED_DATA=... python benchmarks/wrong_kinds.py --runs runs/cases --seeds 3
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from cases import whole
from numpy.typing import NDArray
from quick import start
from recipe_runs import run_all
from sklearn.metrics import roc_auc_score
from tables import print_conditions, print_table
from whole_graph import answers

from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from registry.bundle.cases import EMPTY, UNSAID, pattern_of
from registry.bundle.decision import decide
from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.labels import GLOBAL, malignant_classes
from registry.bundle.model import Graph
from training.data.dataset import Cases, Examples
from training.jobs.job import read_job

CLOSE_UP, DERMOSCOPIC = 1, 2  # the kinds' numbers in the recipe
SHOWN: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "close-up": ([CLOSE_UP], [CLOSE_UP]),
    "dermoscopic picture, sent as close-up": ([DERMOSCOPIC], [CLOSE_UP]),
    "close-up, kind not said": ([CLOSE_UP], [UNSAID]),
    "dermoscopic picture": ([DERMOSCOPIC], [DERMOSCOPIC]),
    "close-up, sent as dermoscopic": ([CLOSE_UP], [DERMOSCOPIC]),
    "dermoscopic picture, kind not said": ([DERMOSCOPIC], [UNSAID]),
    "both": ([CLOSE_UP, DERMOSCOPIC], [CLOSE_UP, DERMOSCOPIC]),
    "both, kinds exchanged": ([CLOSE_UP, DERMOSCOPIC], [DERMOSCOPIC, CLOSE_UP]),
}
"""Which pictures of a lesion are shown, and as what they are sent."""


def shown(examples: Examples, pictures: Sequence[int], sent_as: Sequence[int]) -> Examples:
    """Lesions of whose pictures those of some kinds are shown, as what they are sent."""
    cases = examples.cases
    assert cases is not None, "the recipe is of cases"
    places = np.stack([(cases.kinds == kind).argmax(axis=1) for kind in pictures], axis=1)
    rows = np.take_along_axis(cases.pictures, places, axis=1)
    kinds = np.broadcast_to(np.array(sent_as, dtype=np.int64), rows.shape).copy()
    return replace(examples, cases=Cases(rows, kinds, cases.context))


def with_both(examples: Examples) -> Examples:
    """The lesions with a picture of each kind, and nothing in another slot."""
    assert examples.cases is not None, "the recipe is of cases"
    kinds = examples.cases.kinds
    keep = [(kinds == kind).any(axis=1) for kind in (CLOSE_UP, DERMOSCOPIC)]
    return examples.where(keep[0] & keep[1] & ((kinds != EMPTY).sum(axis=1) == len(keep)))


def judge(bundle: Bundle, examples: Examples, malignant: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Of each lesion, the probability of malignancy, and whether it is referred or found unfamiliar."""
    case, cases = bundle.manifest.case, examples.cases
    assert case is not None, "the model is one of cases"
    assert cases is not None, "the recipe is of cases"
    outputs = answers(Graph(bundle.model, threads=1), examples)
    given = zip(outputs.probabilities, outputs.embedding, cases.kinds, cases.context, strict=True)
    decisions = [
        decide(
            probabilities,
            bundle.manifest,
            embedding=embedding,
            pattern=pattern_of(kinds, context, case),
        )
        for probabilities, embedding, kinds, context in given
    ]
    return {
        "malignancy": outputs.probabilities[:, malignant].sum(axis=1).astype(np.float64),
        "referred": np.array([not decision.reported for decision in decisions], dtype=np.float64),
        "unfamiliar": np.array([bool(decision.unfamiliar) for decision in decisions], dtype=np.float64),
    }


def main(
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/cases"),
    recipe: Annotated[str, typer.Option(help="A recipe of cases on MILK10k.")] = "frozen",
    seeds: Annotated[int, typer.Option(help="How many.")] = 3,
) -> None:
    """Train where no run is there, look at the test lesions, and print the table."""
    wanted = [whole(recipe, seed) for seed in range(seeds)]
    run_all(wanted, runs)
    figures: dict[str, list[list[float]]] = {name: [] for name in SHOWN}
    for run in wanted:
        job = read_job(runs / f"{run.name}.yaml")
        bundle = read_bundle(run.folder(runs) / "bundles" / GLOBAL)
        dataset = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
        parts = [with_both(dataset.examples(client, "test")) for client in dataset.clients]
        malignant = malignant_classes(dataset.labels)
        truth = np.concatenate([malignant[part.labels] for part in parts])
        for name, (pictures, sent_as) in SHOWN.items():
            told = [judge(bundle, shown(part, pictures, sent_as), malignant) for part in parts]
            of_all = {key: np.concatenate([one[key] for one in told]) for key in told[0]}
            auroc = roc_auc_score(truth, of_all["malignancy"])
            figures[name].append([auroc, of_all["referred"].mean(), of_all["unfamiliar"].mean()])
    print_conditions("Pictures sent as of another kind", {"recipe": recipe, "seeds": seeds})
    means = {name: np.mean(of, axis=0) for name, of in figures.items()}
    rows = [[name, *(f"{value:.3f}" for value in mean)] for name, mean in means.items()]
    print_table(["sent", "AUROC of malignancy", "referred", "unfamiliar"], rows)


if __name__ == "__main__":
    start(main, "--runs {scratch}/runs --seeds 1", pictures=True)
