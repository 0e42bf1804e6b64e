"""A job from its pictures to answers over HTTP: trained, registered, promoted, served, and checked.

Runs the job with a stage `register` at its end, into a registry of its own; promotes all its versions;
starts `dermfed-serve`; and sends pictures of every skin tone as the files they are. Checked, and counted:

- a picture with its declared tone, on whichever scale of the job, is answered by the version of that tone's
  subgroup; without a tone, and with a tone of another scale, by the global one, each with its route and a
  warning;
- the probabilities equal, to the last bit, those of ONNX Runtime called directly on the same bytes, and
  those of torch with the weights that the run ended with, to the tolerance of the stage export.

Ends with exit code 1 if anything differs.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import httpx
import numpy as np
import torch
import typer
import yaml
from quick import is_quick, print_conditions, print_table, start
from services import free_port, running
from training_runs import write_job

from clients.data.picture_files import PictureReader, cache_folder
from clients.data.sources import Picture, filtered, read_sources
from registry.bundle.folder import Bundle
from registry.bundle.labels import GLOBAL
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import decode_picture
from registry.registry import Registry
from training.jobs.job import Job, read_job
from training.jobs.job_file import find_job, read_plain
from training.jobs.run_folder import load_finished
from training.jobs.stages.export import TOLERANCE
from training.models import build_model
from training.models.export import ServedModel
from training.wiring import train

MODEL = "skin-lesion"
OTHER_SCALE = {"monk": "7", "fitzpatrick": "3", "ddi": "34"}
TYPES = {b"\xff\xd8": "image/jpeg", b"\x89P": "image/png", b"RI": "image/webp"}


def registering(job_file: Path, out: Path) -> Path:
    """The same job, with a stage that registers what it makes."""
    job = read_plain(find_job(job_file))
    stages = [stage for stage in job["stages"] if stage["stage"] != "register"]
    job["stages"] = [*stages, {"stage": "register", "model": MODEL}]
    out.mkdir(parents=True, exist_ok=True)
    written = out / "job.yaml"
    written.write_text(yaml.safe_dump(job, sort_keys=False))
    return written


def scales_of(job: Job) -> set[str]:
    """The scales that the job's groups name."""
    return {scale for by_scale in job.data.subgroups.tones.values() for scale in by_scale}


def pictures_by_tone(job: Job, folder: Path, count: int) -> dict[tuple[str, str], list[Picture]]:
    """Some pictures of each skin tone of each of the job's scales."""
    scales, found = scales_of(job), defaultdict(list)
    for picture in filtered(read_sources(job.data, folder, cache_folder()), job.data):
        row = picture.row
        tone = row.skin_tone_scale, row.skin_tone
        if row.skin_tone and row.skin_tone_scale in scales and len(found[tone]) < count:
            found[tone].append(picture)
    return dict(sorted(found.items()))


class Torch:
    """The models that the run ended with, in torch."""

    def __init__(self, job: Job, out: Path, bundles: Mapping[str, Bundle]) -> None:
        finished = [
            load_finished(out / "checkpoints" / job.key(place), job.digest)
            for place in range(len(job.stages))
        ]
        weights = finished[-1].outcome.models
        self._models = {}
        for name, bundle in bundles.items():
            model = build_model(job.model, len(bundle.manifest.labels), 0)
            model.load_state_dict(weights[name], strict=False)
            self._models[name] = ServedModel(model, bundle.manifest.temperature.value).eval()

    def __call__(self, name: str, pixels: np.ndarray) -> np.ndarray:
        """The probabilities of one picture by the model of this name."""
        with torch.inference_mode():
            return self._models[name](torch.from_numpy(pixels[None]))[0][0].numpy()


def ask(client: httpx.Client, content: bytes, **parameters: str) -> dict:
    """The diagnosis of one picture."""
    kind = TYPES[content[:2]]
    answer = client.post("/v1/diagnoses", content=content, params=parameters, headers={"Content-Type": kind})
    if answer.status_code != 200:
        raise SystemExit(f"the service answered {answer.status_code}: {answer.text}")
    return answer.json()


def main(
    job_file: Annotated[Path, typer.Argument(help="The job.")] = Path("fedauto@milk10k"),
    out: Annotated[Path | None, typer.Option(help="Where the run goes; resumed if it is there.")] = None,
    pictures: Annotated[int, typer.Option(help="Pictures of each skin tone.")] = 20,
) -> None:
    """Train, register, promote, serve, ask, compare."""
    with TemporaryDirectory() as name:
        folder = out or Path(name)
        if is_quick():
            folder.mkdir(parents=True)
            job_file = write_job(folder)
        written = registering(job_file, folder)
        job = read_job(written, [])
        url, store = f"sqlite:///{folder.resolve() / 'registry.db'}", str(folder.resolve() / "store")
        os.environ |= {"DERMFED_REGISTRY_URL": url, "DERMFED_STORE": store}
        run = folder / "run"
        train(job, written, run, resume=run.exists())
        with Registry.open() as registry:
            versions = registry.versions(MODEL)
            report = registry.judge(MODEL, [version.number for version in versions], to="production")
            registry.promote(
                MODEL,
                [version.number for version in versions],
                to="production",
                reason="measuring the service, not the model",
                override_gates=True,
            )
            bundles = {version.subgroup.name: registry.bundle(version) for version in versions}
        numbers = {version.subgroup.name: version.number for version in versions}
        print_conditions("From pictures to answers", {"job": job_file.name, "gate": report.detail})
        wrong = compare(job, folder, run, bundles, numbers, url, store, pictures)
    if wrong:
        print(f"{wrong} answers are not what they should be")
        raise typer.Exit(1)


def compare(
    job: Job,
    folder: Path,
    run: Path,
    bundles: Mapping[str, Bundle],
    numbers: Mapping[str, int],
    url: str,
    store: str,
    count: int,
) -> int:
    """Ask about every picture and print the table; returns how many answers were wrong."""
    owner = {
        (scale, tone): name
        for name, bundle in bundles.items()
        if not (subgroup := bundle.manifest.subgroup).is_global
        for scale, tones in subgroup.by_scale.items()
        for tone in tones
    }
    other = next(each for each in OTHER_SCALE if each not in scales_of(job))
    ways = {
        "declared": lambda scale, tone: {"skin_tone": tone, "skin_tone_scale": scale},
        "unknown-tone": lambda scale, tone: {},
        "other-scale": lambda scale, tone: {"skin_tone": OTHER_SCALE[other], "skin_tone_scale": other},
    }
    graphs = {name: Graph(bundle.model) for name, bundle in bundles.items()}
    in_torch = Torch(job, run, bundles)
    rows, wrong = [], 0
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
    command += ["--url", url, "--store", store]
    with (
        running(command, f"{address}/readyz", folder / "service.log"),
        httpx.Client(base_url=address, timeout=60) as client,
        PictureReader() as reader,
    ):
        for (scale, tone), chosen in pictures_by_tone(job, folder, count).items():
            for way, parameters in ways.items():
                own, route = GLOBAL, way
                if way == "declared":
                    named = owner.get((scale, tone), GLOBAL)
                    counted = bundles[named].manifest.patients_by_tone
                    seen = counted is not None and counted.count("calibration", tone, scale) is not None
                    own = named if seen else GLOBAL
                    missing = "no-model-for-subgroup" if seen else "unknown-tone"
                    route = missing if own == GLOBAL else way
                differences, from_torch, bad = [], [], 0
                for picture in chosen:
                    content = reader.read(picture.file)
                    answer = ask(client, content, **parameters(scale, tone))
                    manifest = bundles[own].manifest
                    pixels = decode_picture(content, manifest.picture)
                    direct = graphs[own].run(pixels[None]).probabilities[0]
                    told = {row["code"]: row["probability"] for row in answer["findings"]}
                    over_http = np.array([told[label.code] for label in manifest.labels])
                    differences.append(np.abs(over_http - direct.astype(np.float64)).max())
                    from_torch.append(np.abs(over_http - in_torch(own, pixels)).max())
                    said = answer["model"]
                    fits = (said["subgroup"], said["version"], said["route"]) == (own, numbers[own], route)
                    warned = bool(answer["warnings"]) or route == "declared"
                    promised = own != GLOBAL or answer["prediction_set"]["guarantee"] != "subgroup"
                    equal = differences[-1] == 0 and from_torch[-1] <= TOLERANCE
                    bad += not (fits and warned and promised and equal)
                rows.append(
                    [
                        f"{tone} ({scale})",
                        way,
                        f"{own}, version {numbers[own]}",
                        len(chosen),
                        f"{max(differences):.1g}",
                        f"{max(from_torch):.1g}",
                        bad,
                    ]
                )
                wrong += bad
    print_table(["skin tone", "sent as", "answered by", "pictures", "from ORT", "from torch", "wrong"], rows)
    return wrong


if __name__ == "__main__":
    start(main, "--out {scratch}/run --pictures 1")
