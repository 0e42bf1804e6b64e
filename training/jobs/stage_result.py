"""The saved result of a finished stage, from which a resumed run continues."""

from dataclasses import asdict, dataclass
from pathlib import Path

from registry.bundle.folder import read_bundle, write_bundle
from training.jobs.stages.base import BundleDraft, StageResult
from training.messages.message import named, prefixed
from training.messages.tensor_file import read_tensors, write_tensors
from training.models.encoders.files import AS_EVER, Preprocessing, said_of
from training.models.export import as_tensor
from training.rounds.requests import pack_blocks, read_blocks
from training.rounds.server.ask import Traffic

OUTCOME = "outcome.safetensors"


@dataclass(frozen=True)
class FinishedStage:
    """The result of a finished stage, with its duration and the length of the log.

    Attributes:
        outcome: what it left.
        seconds: how long it took.
        log_bytes: the length of `metrics.jsonl` when it was done.
    """

    outcome: StageResult
    seconds: float
    log_bytes: int


def save_finished(folder: Path, job: str, finished: FinishedStage, shown: Preprocessing = AS_EVER) -> None:
    """Write what a stage left: the bundles first, the file that names them last.

    Args:
        folder: of the stage.
        job: its digest.
        finished: what it left.
        shown: how its models are shown pictures, for a job that begins with one of them.

    Raises:
        CheckpointError: when the disk does not take it.
    """
    outcome = finished.outcome
    tensors = prefixed(pack_blocks(outcome.test), "test/")
    for place, weights in enumerate(outcome.models.values()):  # the global model is the first
        tensors.update(prefixed(weights, f"model-{place}/"))
    for name, folds in outcome.folds.items():
        for fold, weights in enumerate(folds):
            tensors.update(prefixed(weights, f"fold-{list(outcome.models).index(name)}-{fold}/"))
    for place, bundle in enumerate(outcome.bundles.values()):
        write_bundle(folder / f"bundle-{place}", bundle.manifest, bundle.graph)
        tensors |= {f"graph-{place}-{fold}": as_tensor(graph) for fold, graph in enumerate(bundle.folds)}
    header = {
        "seconds": finished.seconds,
        "log_bytes": finished.log_bytes,
        "models": list(outcome.models),
        "bundles": list(outcome.bundles),
        "folds": {name: len(folds) for name, folds in outcome.folds.items()},
        "graphs": [len(bundle.folds) for bundle in outcome.bundles.values()],
        "rounds": outcome.rounds,
        "traffic": asdict(outcome.traffic),
        "facts": outcome.facts,
        "stay_home": outcome.stay_home,
        **said_of(shown),
    }
    write_tensors(folder / OUTCOME, job, header, tensors)


def load_finished(folder: Path, job: str) -> FinishedStage | None:
    """What a stage left; None when it has not finished.

    Raises:
        CheckpointError: when it is damaged or belongs to another job.
    """
    path = folder / OUTCOME
    if not path.exists():
        return None
    header, tensors = read_tensors(path, job)
    bundles = {}
    for place, name in enumerate(header["bundles"]):
        bundle = read_bundle(folder / f"bundle-{place}")
        folds = [tensors[f"graph-{place}-{fold}"] for fold in range(header["graphs"][place])]
        bundles[name] = BundleDraft(
            bundle.manifest, bundle.model, tuple(bytes(each.numpy()) for each in folds)
        )
    outcome = StageResult(
        models={name: named(tensors, f"model-{place}/") for place, name in enumerate(header["models"])},
        bundles=bundles,
        rounds=header["rounds"],
        traffic=Traffic(**header["traffic"]),
        test=read_blocks(named(tensors, "test/")),
        facts=header["facts"],
        stay_home=header["stay_home"],
        folds={
            name: tuple(
                named(tensors, f"fold-{header['models'].index(name)}-{fold}/") for fold in range(number)
            )
            for name, number in header["folds"].items()
        },
    )
    return FinishedStage(outcome, header["seconds"], header["log_bytes"])
