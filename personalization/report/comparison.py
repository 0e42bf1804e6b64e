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
from dataclasses import dataclass
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
class FinishedRun:
    """The summary and log of one finished run.

    Attributes:
        folder: where it is.
        recipe: the system.
        seed: of all its draws.
        fingerprint: of its data.
        stage: the stage whose models are compared.
        clients: on how many clients' test pictures they were judged.
        figures: by their names in `summary.json`, over these clients.
        rounds: how many rounds it had, all stages together.
        bytes_down: what its hospitals downloaded in them; None where the run did not note it.
    """

    folder: Path
    recipe: str
    seed: int
    fingerprint: str
    stage: str
    clients: int
    figures: Mapping[str, Mapping[str, float | None]]
    rounds: int
    bytes_down: int | None


@dataclass(frozen=True)
class ComparedRun:
    """One run in a comparison.

    Attributes:
        name: the folder's name, or its path where two runs have one name.
        run: what the run left.
        relative_improvement: RI of F1 over the baseline.
        additional_cost: AC over the run that costs are compared with.
    """

    name: str
    run: FinishedRun
    relative_improvement: float | None
    additional_cost: float | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of finished runs.

    Attributes:
        rows: the runs in the order given; a run that serves only as the baseline comes first.
        baseline: the name of the run that RI is relative to.
        cost_over: the name of the run that AC is relative to; None where none was named.
        warnings: sentences on what makes the rows hard to compare.
    """

    rows: tuple[ComparedRun, ...]
    baseline: str
    cost_over: str | None
    warnings: tuple[str, ...]


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
    base = (baseline or runs[0]).resolve()
    cheap = cost_over.resolve() if cost_over else None
    folders = dict.fromkeys(folder.resolve() for folder in runs)
    only_compared_with = [
        folder for folder in dict.fromkeys([base, cheap]) if folder and folder not in folders
    ]
    found = {folder: read_finished(folder) for folder in [*only_compared_with, *folders]}
    names = _names(list(found))
    rows = tuple(
        ComparedRun(
            names[folder],
            run,
            _relative(run.figures["macro_f1"]["mean"], found[base].figures["macro_f1"]["mean"]),
            _relative(run.bytes_down, found[cheap].bytes_down) if cheap else None,
        )
        for folder, run in found.items()
    )
    warnings = tuple(_warnings(found, names, base, cheap))
    return Comparison(rows, names[base], names[cheap] if cheap else None, warnings)


def read_finished(folder: Path) -> FinishedRun:
    """Read a finished run from its `summary.json` and `metrics.jsonl`.

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
    over = judged[-1]["facts"]["over_clients"]
    rounds, bytes_down = _downloaded(folder / "metrics.jsonl")
    return FinishedRun(
        folder=folder,
        recipe=summary["recipe"],
        seed=summary["seed"],
        fingerprint=summary["data"],
        stage=judged[-1]["name"],
        clients=len(judged[-1]["facts"]["by_client"]),
        figures={key: {of: over[key][of] for of in OVER_CLIENTS} for key in (*SPREADS, *MEANS)},
        rounds=rounds,
        bytes_down=bytes_down,
    )


def comparison_table(comparison: Comparison) -> Table:
    """A table for people: a column for each run, a line for each figure, warnings below."""
    table = Table("")
    for row in comparison.rows:
        table.add_column(Text(row.name), overflow="fold")
    table.caption = Text("\n".join(comparison.warnings)) if comparison.warnings else None
    table.caption_justify = "left"
    lines: dict[str, Callable[[ComparedRun], str]] = {
        "recipe": lambda row: row.run.recipe,
        "seed": lambda row: str(row.run.seed),
        "clients": lambda row: str(row.run.clients),
        **{title: partial(_spread, key) for key, title in SPREADS.items()},
        "RI %": lambda row: _percent(row.relative_improvement),
        "downloaded": lambda row: ABSENT if row.run.bytes_down is None else size(row.run.bytes_down),
        **({"AC %": lambda row: _percent(row.additional_cost)} if comparison.cost_over else {}),
        **{title: partial(_mean, key) for key, title in MEANS.items()},
    }
    for title, text_of in lines.items():
        table.add_row(title, *(Text(text_of(row)) for row in comparison.rows))
    return table


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison for programs, ready for JSON; RI and AC are fractions, not percent."""
    return {
        "baseline": comparison.baseline,
        "cost_over": comparison.cost_over,
        "warnings": list(comparison.warnings),
        "runs": [
            {
                "run": row.name,
                "folder": str(row.run.folder),
                "recipe": row.run.recipe,
                "seed": row.run.seed,
                "data": row.run.fingerprint,
                "stage": row.run.stage,
                "clients": row.run.clients,
                "over_clients": row.run.figures,
                "relative_improvement": row.relative_improvement,
                "rounds": row.run.rounds,
                "bytes_down": row.run.bytes_down,
                "additional_cost": row.additional_cost,
            }
            for row in comparison.rows
        ],
    }


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(
            f"{path} is not JSON ({error}); it is broken: run again into another --out"
        ) from error


def _downloaded(path: Path) -> tuple[int, int | None]:
    """The number of rounds in a log, and the bytes that hospitals downloaded in them."""
    if not path.is_file():
        return 0, None
    lines = [_parsed(path, line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not lines:
        return 0, None
    downloads = [(client, of["down"]) for line in lines for client, of in line["bytes_by_client"].items()]
    return len(lines), sum(down for client, down in downloads if client != SERVER)


def _relative(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else (value - base) / base


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """Each folder's name, or its path where another has the same."""
    plain = [folder.name for folder in folders]
    return {folder: folder.name if plain.count(folder.name) == 1 else str(folder) for folder in folders}


def _warnings(
    found: Mapping[Path, FinishedRun], names: Mapping[Path, str], base: Path, cheap: Path | None
) -> Iterator[str]:
    others = [names[at] for at, run in found.items() if run.fingerprint != found[base].fingerprint]
    if others:
        yield (
            f"Other data than {names[base]}: {listed(others)}. Pictures, clients, splits or labels differ; "
            "figures compare only where the test pictures are the same."
        )
    judged = [names[at] for at, run in found.items() if run.clients != found[base].clients]
    if judged:
        yield f"Means over other numbers of clients than in {names[base]}: {listed(judged)}."
    if cheap:
        longer = [names[at] for at, run in found.items() if run.rounds != found[cheap].rounds]
        if longer:
            yield f"AC is over {names[cheap]}, and of other numbers of rounds: {listed(longer)}."


def _spread(key: str, row: ComparedRun) -> str:
    """Mean (median) ± standard deviation, in two lines."""
    figure = row.run.figures[key]
    mean, median, deviation = (figure[of] for of in OVER_CLIENTS)
    if median is None or deviation is None:
        return number(mean)
    return f"{number(mean)} ({number(median)})\n± {number(deviation)}"


def _mean(key: str, row: ComparedRun) -> str:
    return number(row.run.figures[key]["mean"])


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.2f}".replace("-", "−")
