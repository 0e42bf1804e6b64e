"""What does one broken client do to the others, under each policy for choosing peers?

Ten hospitals as in the recipe `fedperl@ten-hospitals`, in fewer rounds, one of them broken:

- `noise`: it uploads N(0, σ) for every weight, σ the deviation of that tensor in what it learned. Variances
  of normalisation layers are absolute values, since a negative one makes every output NaN;
- `nan`: it uploads NaN. The coordinator refuses that at the door, and the round goes on without the client
  (`engine.min_clients` is one below the cohort, in every cell);
- `shuffled`: the labels of its training pictures are permuted among them;
- `none`: it does what it should.

Nothing of training knows of it: an engine around the real one changes that client's answers, and the data are
handed over with permuted labels. All other draws, the cohorts among them, are the same in every cell.

What a gate can ask for. Accuracy on the coordinator's pictures counts every picture alike, and a third of
them are naevi: a model that calls everything a naevus has an accuracy of 0.33. The small models reach 0.45 to
0.6, so that the paper's 0.75 to 0.95 refuse everyone. The threshold must lie between a constant answer and
what honest uploads attain, hence 0.4. Similarities are of weights' moments scaled across clients, whatever a
model can do; 0.75 lies where those of the two most similar do. The table says how many honest peers a gate
costs; where these are all, the policy is `nobody`.

Figures are means over the test pictures of the other clients, of the model that the recipe keeps. Beside them
stands the balanced accuracy on all clients' validation pictures, averaged over the rounds after warm-up: in
some of them the broken client took part and in others not. Each cell leaves a JSON file in --runs and is not
done again; one that was interrupted goes on where it was.

    DERMFED_DATA=... python benchmarks/hostile_clients.py --runs runs/hostile --at-once 2
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import product
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import torch
import typer
from committees import Committee, read_committees
from quick import start
from recipe_runs import read_recipe, run_all
from rich.console import Console
from semi_supervised import encoder_of, pretraining_of
from tables import print_conditions, print_table

from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from clients.store import ClientStore
from training.data.dataset import SPLITS
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.errors import JobError, QuorumError
from training.files import write_text
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.messages.engine import Engine
from training.messages.message import Answer, Broadcast, Tensors, Update
from training.rounds.requests import FIT
from training.rounds.server.metrics import MetricsLog
from training.seeds import derive_seed, generator

RECIPE = "fedperl@ten-hospitals"
NOTHING = "–"


class Badness(StrEnum):
    """What is wrong with the client."""

    NONE = "none"
    NOISE = "noise"
    NAN = "nan"
    SHUFFLED = "shuffled"


class PolicyName(StrEnum):
    """Who teaches: nobody (SSFL), or the peers that a policy lets pass."""

    NOBODY = "nobody"
    STATIC = "static"
    VALIDATION = "validation"
    GATED_VALIDATION = "gated-validation"
    GATED_SIMILARITY = "gated-similarity"


@dataclass(frozen=True)
class Settings:
    """What all cells share.

    Attributes:
        rounds, warm_up: how many, and how many of them without peers.
        community: whose first client is broken.
        accuracy, similarity: the thresholds of the gates.
        seed: of the job.
        encoder: what the recipe's pre-training left, with which every cell begins.
    """

    rounds: int
    warm_up: int
    community: str
    accuracy: float
    similarity: float
    seed: int
    encoder: str

    def job(self, policy: PolicyName) -> Job:
        """The recipe in fewer rounds, with this policy, and rounds that may go on without one client.

        Raises:
            SystemExit: when no round has peers.
        """
        if self.warm_up >= self.rounds:
            raise SystemExit(f"of {self.rounds} rounds {self.warm_up} are warm-up; leave some with peers")
        job = read_recipe(RECIPE)
        (stage,) = (stage for stage in job["stages"] if stage["stage"] == "federate")
        threshold = {"gated-validation": self.accuracy, "gated-similarity": self.similarity}.get(policy)
        gate = {} if threshold is None else {"threshold": threshold}
        exchange = {**stage["exchange"], "policy": {"name": str(policy), **gate}, "warm_up": self.warm_up}
        hospitals = sum(source["count"] for source in job["data"]["sources"] if not source["unseen"])
        cohort = ceil(stage["participation"] * hospitals - 1e-9)
        return Job.model_validate(
            {
                **job,
                "seed": self.seed,
                "model": {**job["model"], "weights": self.encoder},
                "engine": {**job["engine"], "workers": 1, "min_clients": max(1, cohort - 1)},
                "stages": [
                    {
                        **stage,
                        "rounds": self.rounds,
                        "exchange": {"name": "none"} if policy == PolicyName.NOBODY else exchange,
                    }
                ],
            }
        )

    def broken(self, job: Job) -> str:
        """The client that is broken.

        Raises:
            SystemExit: when there is no such community.
        """
        communities = {source.name: source.clients for source in job.data.sources if not source.unseen}
        if self.community not in communities:
            raise SystemExit(f"there is no community {self.community}; there are {', '.join(communities)}")
        return communities[self.community][0]


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    policy: PolicyName
    badness: Badness

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.policy}-{self.badness}"


class BrokenClientEngine:
    """An engine in which one client uploads noise or NaN whatever it learned.

    Args:
        engine: asks the clients.
        client: the one that is broken.
        badness: what it uploads.
        seed: of the noise.
    """

    def __init__(self, engine: Engine, client: str, badness: Badness, seed: int) -> None:
        self._engine = engine
        self._client = client
        self._badness = badness
        self._seed = seed

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """The answers, those of the broken client to `fit` changed."""
        return [self._pass_on(answer) for answer in self._engine.run_round(broadcasts)]

    def close(self) -> None:
        """End what the engine started."""
        self._engine.close()

    def _pass_on(self, answer: Answer) -> Answer:
        if not isinstance(answer, Update) or answer.ask != FIT or answer.client != self._client:
            return answer
        if self._badness == Badness.NOISE:
            return replace(answer, tensors=noise_like(answer.tensors, derive_seed(self._seed, answer.round)))
        if self._badness == Badness.NAN:
            return replace(
                answer, tensors={name: torch.full_like(t, torch.nan) for name, t in answer.tensors.items()}
            )
        return answer


def noise_like(tensors: Tensors, seed: int) -> dict[str, torch.Tensor]:
    """N(0, σ) for each tensor, σ its own deviation; absolute values where a variance is meant."""
    random = torch.Generator().manual_seed(seed)
    drawn = {
        name: torch.randn(tensor.shape, generator=random) * tensor.std(correction=0)
        for name, tensor in tensors.items()
    }
    return {name: value.abs() if name.endswith("running_var") else value for name, value in drawn.items()}


def with_shuffled_labels(dataset: PreparedDataset, client: str, seed: int) -> PreparedDataset:
    """The same data with the labels of one client's labelled training pictures permuted among them."""
    table = dataset.table
    own = table.clients == dataset.clients.index(client)
    labelled = own & (table.splits == SPLITS.index("train")) & (table.labels >= 0)
    labels = table.labels.copy()
    labels[labelled] = generator(seed, client, "shuffled labels").permutation(labels[labelled])
    return replace(dataset, table=replace(table, labels=labels))


def measure(cell: Cell, settings: Settings, runs: Path) -> None:
    """Run one cell, or what is left of it, and write what came of it."""
    job = settings.job(cell.policy)
    broken = settings.broken(job)
    folder = runs / cell.name
    dataset = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
    if cell.badness == Badness.SHUFFLED:
        dataset = with_shuffled_labels(dataset, broken, job.seed)
    inner = InProcessEngine(ClientAppParts(job, dataset, ClientStore(folder / "clients")), folder / "spool")
    engine = BrokenClientEngine(inner, broken, cell.badness, job.seed)
    stopped, facts = None, {}
    with MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log:
        try:
            facts = run_stages(job, dataset, engine, metrics_log, folder).summary["stages"][-1]["facts"]
        except (JobError, QuorumError) as error:
            stopped = str(error)
        finally:
            engine.close()
        lines = metrics_log.lines()
    found = {
        "identity": identity(cell, settings),
        "stopped": stopped,
        "kept_round": facts.get("kept_round"),
        "by_client": facts.get("by_client", {}),
        **told_by_log(lines, job, broken, settings.warm_up),
    }
    write_text(runs / f"{cell.name}.json", json.dumps(found, indent=2) + "\n")


def identity(cell: Cell, settings: Settings) -> dict[str, Any]:
    """What a cell's figures belong to."""
    return {"digest": settings.job(cell.policy).digest, **asdict(settings)}


def told_by_log(lines: Sequence[Mapping[str, Any]], job: Job, broken: str, warm_up: int) -> dict[str, Any]:
    """What became of the broken client's uploads, and how the others fared on average."""
    committees = [each for each in read_committees(lines, job.key(0)) if each.client != broken]
    balanced = [line["metrics"]["balanced_accuracy"] for line in lines if line["round"] > warm_up]
    known = [value for value in balanced if value is not None]
    return {
        "broken": broken,
        "asked": sum(broken in line["asked"] for line in lines),
        "refused_at_the_door": sum(
            failure["client"] == broken for line in lines for failure in line["failed"]
        ),
        "over_rounds": fmean(known) if known else None,
        "committees": len(committees),
        "near": sum(broken in committee.top for committee in committees),
        "near_by_lot": sum(committee.chance_of(broken) for committee in committees),
        "taught": sum(broken in committee.peers for committee in committees),
        "honest_near": honest(committees, broken, refused=False),
        "honest_refused": honest(committees, broken, refused=True),
    }


def honest(committees: Sequence[Committee], broken: str, *, refused: bool) -> int:
    """How often another client was among the first T of a client, or was so and refused."""
    return sum(
        peer != broken
        for committee in committees
        for peer in (committee.refused if refused else committee.top)
    )


def read_cell(cell: Cell, settings: Settings, runs: Path) -> Mapping[str, Any] | None:
    """What a cell left; None where it is still to be done.

    Raises:
        SystemExit: when it was done with other settings.
    """
    path = runs / f"{cell.name}.json"
    if not path.exists():
        return None
    found: Mapping[str, Any] = json.loads(path.read_text())
    if found["identity"] != identity(cell, settings):
        raise SystemExit(f"{path} was measured with other settings; remove it, or name another --runs")
    return found


def row_of(cell: Cell, found: Mapping[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    others = [figures for client, figures in found["by_client"].items() if client != found["broken"]]
    committees, near, taught = found["committees"], found["near"], found["taught"]
    return (
        cell.policy,
        cell.badness,
        "stopped" if found["stopped"] else mean_of(others, "macro_f1"),
        "stopped" if found["stopped"] else mean_of(others, "balanced_accuracy"),
        NOTHING if found["over_rounds"] is None else f"{found['over_rounds']:.3f}",
        percent(near, committees) + (f" ({percent(found['near_by_lot'], committees)})" if committees else ""),
        percent(taught, committees),
        f"{near - taught} of {near}" if committees else NOTHING,
        percent(found["honest_refused"], found["honest_near"]),
        f"{found['refused_at_the_door']} of {found['asked']}",
    )


def mean_of(clients: Sequence[Mapping[str, Any]], key: str) -> str:
    """The mean of a figure over the clients that define it."""
    known = [figures[key] for figures in clients if figures[key] is not None]
    return f"{fmean(known):.3f}" if known else NOTHING


def percent(part: float, whole: float) -> str:
    """A share in percent."""
    return f"{100 * part / whole:.0f}" if whole else NOTHING


def main(
    runs: Annotated[Path, typer.Option(help="Where cells are kept.")] = Path("runs/hostile"),
    at_once: Annotated[int, typer.Option(help="Cells at once, each with one worker.")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds of each cell.")] = 40,
    warm_up: Annotated[int, typer.Option(help="Rounds without peers.")] = 5,
    community: Annotated[str, typer.Option(help="The first client of this community is broken.")] = "modern",
    accuracy: Annotated[float, typer.Option(help="Threshold of gated-validation.")] = 0.4,
    similarity: Annotated[float, typer.Option(help="Threshold of gated-similarity.")] = 0.75,
    policies: Annotated[list[PolicyName] | None, typer.Option(help="Which; by default all.")] = None,
    badnesses: Annotated[list[Badness] | None, typer.Option(help="Which; by default all.")] = None,
    seed: Annotated[int, typer.Option(help="Of the job.")] = 0,
) -> None:
    """Measure what is missing and print the table."""
    run_all([pretraining_of(seed)], runs)
    encoder = str(encoder_of(seed, runs))
    settings = Settings(rounds, warm_up, community, accuracy, similarity, seed, encoder)
    cells = [Cell(*pair) for pair in product(policies or PolicyName, badnesses or Badness)]
    missing = [cell for cell in cells if read_cell(cell, settings, runs) is None]
    job = settings.job(PolicyName.STATIC)
    broken = settings.broken(job)
    print_conditions(
        "One broken client",
        {
            "recipe": f"{RECIPE}, seed {seed}, {rounds} rounds of which {warm_up} without peers",
            "broken": broken,
            "gates": f"accuracy {accuracy:g}, similarity {similarity:g}",
        },
    )
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(measure, cell, settings, runs) for cell in missing]:
            done.result()
    header = (
        "peers that pass",
        "broken client",
        "F1 of the others",
        "balanced accuracy of the others",
        "validation, mean over rounds",
        "among the first T % (by lot)",
        "taught others %",
        "refused by the policy",
        "honest peers refused %",
        "refused at the door",
    )
    found = [(cell, read_cell(cell, settings, runs)) for cell in cells]
    print_table(header, [row_of(cell, one) for cell, one in found if one is not None])
    for cell, one in found:
        if one is not None and one["stopped"]:
            print(f"{cell.name} stopped: {one['stopped']}")


if __name__ == "__main__":
    start(
        main,
        "--runs {scratch}/runs --rounds 2 --warm-up 1 --policies gated-validation --badnesses noise",
        pictures=True,
    )
