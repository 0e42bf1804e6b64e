"""Comparing several finished runs, as in Table 2 of Bdair et al. 2022.

Each figure is mean (median) ± standard deviation over clients, of the last stage that judged its models on
each client's test pictures. With a, b the mean F1 of a run and of the baseline, and D the bytes that all
hospitals download for training in all rounds (models sent to be judged alone are not counted),

    relative improvement RI = (a − b) / b,    additional cost AC = (D − D_b) / D_b,

where D_b is of a run of its own choice: in the paper RI is over local training, AC over the federated run
without peers. The client `server` is the coordinator's own, so it is not in D.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from personalization.report.measures import ABSENT, listed, number, size
from training.data.dataset import SERVER
from training.errors import DataError

SPREADS = {"macro_f1": "F1", "macro_precision": "precision", "balanced_accuracy": "recall"}
MEANS = {"auroc": "AUROC", "ece": "ECE", "aurc": "AURC"}


OVER_CLIENTS = ("mean", "median", "std")
"""What is known of a figure over clients; None where it is undefined or not reported."""


@dataclass(frozen=True)
class ComparedRun:
    """One finished run in a comparison; fractions, not percent.

    Attributes:
        run: the folder's name, or its path where two runs have one name.
        folder: where it is.
        recipe: the system.
        seed: of all its draws.
        data: the fingerprint of its data.
        stage: the stage whose models are compared.
        clients: on how many clients' test pictures they were judged.
        over_clients: figures by their names in `summary.json`, over these clients.
        relative_improvement: RI of F1 over the baseline.
        rounds: how many rounds it had, all stages together.
        bytes_down: what its hospitals downloaded in them; None where the run did not note it.
        additional_cost: AC over the run that costs are compared with.
    """

    run: str
    folder: str
    recipe: str
    seed: int
    data: str
    stage: str
    clients: int
    over_clients: Mapping[str, Mapping[str, float | None]]
    relative_improvement: float | None
    rounds: int
    bytes_down: int | None
    additional_cost: float | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of finished runs.

    Attributes:
        baseline: the name of the run that RI is relative to.
        cost_over: the name of the run that AC is relative to; None where none was named.
        warnings: sentences on what makes the rows hard to compare.
        runs: in the order given; a run that serves only as the baseline comes first.
    """

    baseline: str
    cost_over: str | None
    warnings: list[str]
    runs: list[ComparedRun]


def compare(runs: Sequence[Path], baseline: Path | None = None, cost_over: Path | None = None) -> Comparison:
    """Read finished runs and compare them.

    Args:
        runs: their folders.
        baseline: the run that F1 is compared with; the first by default.
        cost_over: the run that bytes are compared with.

    Raises:
        DataError: no run was named, or a folder holds no finished run that was judged at its clients.
    """
    if not runs:
        raise DataError("there is nothing to compare; name the folders of finished runs")
    folders = list(dict.fromkeys(folder.resolve() for folder in runs))
    base = (baseline or runs[0]).resolve()
    cheap = cost_over.resolve() if cost_over else None
    only_compared_with = [at for at in dict.fromkeys([base, cheap]) if at and at not in folders]
    found = {folder: read_finished(folder) for folder in [*only_compared_with, *folders]}
    names = [folder.name for folder in found]
    first, cheapest = found[base], found[cheap] if cheap else None
    rows = {
        folder: replace(
            run,
            run=folder.name if names.count(folder.name) == 1 else str(folder),
            relative_improvement=_relative(_f1(run), _f1(first)),
            additional_cost=_relative(run.bytes_down, cheapest.bytes_down) if cheapest else None,
        )
        for folder, run in found.items()
    }
    over = rows[cheap] if cheap else None
    warnings = list(_warnings(list(rows.values()), rows[base], over))
    return Comparison(rows[base].run, over.run if over else None, warnings, list(rows.values()))


def read_finished(folder: Path) -> ComparedRun:
    """Read a finished run from its `summary.json` and `metrics.jsonl`, compared with nothing yet.

    Raises:
        DataError: it has not finished, is no run, or no stage reported figures of each client.
    """
    path = folder / "summary.json"
    if not path.is_file():
        raise DataError(
            f"{folder} holds no finished run: there is no summary.json. Finish it with --resume, "
            "or name another folder"
        )
    summary = _parsed(path, path.read_text(encoding="utf-8"))
    if not isinstance(summary, dict) or not {"recipe", "seed", "data", "stages"} <= summary.keys():
        raise DataError(f"{path} is no summary of a run; name folders that a run was written to (--out)")
    judged = [stage for stage in summary["stages"] if (stage.get("facts") or {}).get("over_clients")]
    if not judged:
        names = ", ".join(stage["name"] for stage in summary["stages"])
        raise DataError(
            f"{folder} tells no figures of single clients: none of its stages ({names}) has over_clients "
            "among its facts. Runs are compared by finetune, federate and probe, and clients need test "
            "pictures"
        )
    facts, log = judged[-1]["facts"], folder / "metrics.jsonl"
    text = log.read_text(encoding="utf-8") if log.is_file() else ""
    rounds = [_parsed(log, line)["bytes_by_client"] for line in text.splitlines()]
    downloads = [of["down"] for sizes in rounds for client, of in sizes.items() if client != SERVER]
    return ComparedRun(
        run=folder.name,
        folder=str(folder),
        recipe=summary["recipe"],
        seed=summary["seed"],
        data=summary["data"],
        stage=judged[-1]["name"],
        clients=len(facts["by_client"]),
        over_clients={
            key: {of: facts["over_clients"][key][of] for of in OVER_CLIENTS} for key in (*SPREADS, *MEANS)
        },
        relative_improvement=None,
        rounds=len(rounds),
        bytes_down=sum(downloads) if rounds else None,
        additional_cost=None,
    )


def comparison_table(comparison: Comparison) -> Table:
    """A table for people: a column for each run, a line for each figure, warnings below."""
    table = Table("")
    for row in comparison.runs:
        table.add_column(Text(row.run), overflow="fold")
    table.caption = Text("\n".join(comparison.warnings)) if comparison.warnings else None
    table.caption_justify = "left"
    lines: dict[str, Callable[[ComparedRun], str]] = {
        "recipe": lambda row: row.recipe,
        "seed": lambda row: str(row.seed),
        "clients": lambda row: str(row.clients),
        **{title: partial(_spread, key) for key, title in SPREADS.items()},
        "RI %": lambda row: _percent(row.relative_improvement),
        "downloaded": lambda row: ABSENT if row.bytes_down is None else size(row.bytes_down),
        **({"AC %": lambda row: _percent(row.additional_cost)} if comparison.cost_over else {}),
        **{title: partial(_mean, key) for key, title in MEANS.items()},
    }
    for title, text_of in lines.items():
        table.add_row(title, *(Text(text_of(row)) for row in comparison.runs))
    return table


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison for programs, ready for JSON; RI and AC are fractions, not percent."""
    return asdict(comparison)


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(
            f"{path} is not JSON ({error}); it is broken: run again into another --out"
        ) from error


def _f1(run: ComparedRun) -> float | None:
    return run.over_clients["macro_f1"]["mean"]


def _relative(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else (value - base) / base


def _warnings(rows: Sequence[ComparedRun], base: ComparedRun, cheap: ComparedRun | None) -> Iterator[str]:
    if others := [row.run for row in rows if row.data != base.data]:
        yield (
            f"Other data than {base.run}: {listed(others)}. Pictures, clients, splits or labels differ; "
            "figures compare only where the test pictures are the same."
        )
    if others := [row.run for row in rows if row.clients != base.clients]:
        yield f"Means over other numbers of clients than in {base.run}: {listed(others)}."
    if cheap and (others := [row.run for row in rows if row.rounds != cheap.rounds]):
        yield f"AC is over {cheap.run}, and of other numbers of rounds: {listed(others)}."


def _spread(key: str, row: ComparedRun) -> str:
    """Mean (median) ± standard deviation, in two lines."""
    mean, median, deviation = (row.over_clients[key][of] for of in OVER_CLIENTS)
    if median is None or deviation is None:
        return number(mean)
    return f"{number(mean)} ({number(median)})\n± {number(deviation)}"


def _mean(key: str, row: ComparedRun) -> str:
    return number(row.over_clients[key]["mean"])


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.2f}".replace("-", "−")
