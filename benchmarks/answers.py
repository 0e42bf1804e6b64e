"""What a model answers over HTTP to the test lesions of its job, as whole cases with their declared tone.

The bundles of a finished run go into a registry of their own and are promoted without gates. Every lesion of
the job's test split is sent with all its pictures, enlarged where they have fewer pixels than the model
looks at, and facts. The tables have, by skin tone,

- how many lesions that are not malignant are ruled out and how many are urgent, and how many malignant ones
  are urgent;
- of each kind of malignancy how many are ruled out, with the exact 95 % interval, and the limit;
- how many lesions something is concluded of, and of each node how often and how often wrongly.

    python benchmarks/answers.py runs/quick
"""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from io import BytesIO
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from PIL import Image
from quick import print_conditions, print_table, start
from services import free_port, processor_time, running
from training_runs import write_job

from clients.api import DermFed
from clients.data.label_map import DROPPED, label_pictures
from clients.data.partition import partition
from clients.data.picture_files import PictureReader, cache_folder, decode_once
from clients.data.sources import Picture, filtered, read_sources
from clients.data.subgroups import assign_subgroups
from registry.bundle.conclusions import Tree
from registry.bundle.folder import read_bundle
from registry.bundle.metrics.intervals import clopper_pearson
from registry.registry import Registry
from training.data.dataset import SPLITS
from training.jobs.job import Job, read_job
from training.wiring import train

KINDS = {"close-up": "close_up", "dermoscopic": "dermoscopic", "overview": "overview"}


def lesions_of_test(job: Job, folder: Path) -> dict[str, tuple[str, list[Picture]]]:
    """The class and the pictures of each lesion of the test split."""
    sources = read_sources(job.data, folder, cache_folder())
    matched = filtered(sources, job.data)
    labelling = label_pictures(matched, sources, job.data.label_map)
    kept = [pair for pair in zip(matched, labelling.classes, strict=True) if pair[1] != DROPPED]
    decoded = decode_once(list(dict.fromkeys(one.file for one, _ in kept)), job.picture, cache_folder())
    place = {file: at for at, file in enumerate(dict.fromkeys(one.file for one, _ in kept))}
    pictures = [one for one, _ in kept]
    grouping = assign_subgroups([one.row for one in pictures], job.data.subgroups)
    drawn = partition(
        pictures,
        decoded.contents[[place[one.file] for one in pictures]],
        [labelling.labels[number].code if number >= 0 else "" for _, number in kept],
        grouping,
        sources,
        job.data,
        seed=job.seed,
    )
    found: dict[str, tuple[str, list[Picture]]] = {}
    for (picture, number), split in zip(kept, drawn.splits.tolist(), strict=True):
        if SPLITS[split] == "test" and number >= 0:
            lesion = picture.row.lesion_id or picture.row.image
            found.setdefault(lesion, (labelling.labels[number].code, []))[1].append(picture)
    return found


def enlarged(content: bytes, least: int) -> bytes:
    """A picture of at least so many pixels a side, as the service wants it; others as they are."""
    with Image.open(BytesIO(content)) as picture:
        width, height = picture.size
        if min(width, height) >= least:
            return content
        factor = least / min(width, height)
        larger = picture.convert("RGB").resize(
            (ceil(width * factor), ceil(height * factor)), Image.Resampling.BICUBIC
        )
    out = BytesIO()
    larger.save(out, format="PNG")
    return out.getvalue()


def asked(client: DermFed, reader: PictureReader, job: Job, pictures: Sequence[Picture]) -> Any:
    """The diagnosis of a lesion."""
    case, first = job.data.case, pictures[0].row
    tone = {"skin_tone": first.skin_tone, "skin_tone_scale": first.skin_tone_scale} if first.skin_tone else {}
    if case is None:
        return client.diagnose(enlarged(reader.read(pictures[0].file), job.picture.size), **tone)
    shown = {}
    for picture in pictures[: case.slots]:
        shown[KINDS[picture.row.value("image_kind")]] = enlarged(reader.read(picture.file), job.picture.size)
    facts = {name: first.value(name) or None for name in case.fact_names}
    return client.diagnose(None, facts=facts, **shown, **tone)


def main(
    run: Annotated[Path, typer.Argument(help="A finished run.")],
) -> None:
    """Register, promote, serve, ask, and count."""
    if not run.exists():  # the form of seconds
        run.mkdir(parents=True)
        written = write_job(run)
        train(read_job(written, []), written, run / "run", resume=False)
        run = run / "run"
    job_file = run / "job.resolved.yaml"
    job = read_job(job_file, [])
    with TemporaryDirectory() as name:
        url, store = f"sqlite:///{name}/registry.db", f"{name}/store"
        os.environ |= {"DERMFED_REGISTRY_URL": url, "DERMFED_STORE": store}
        bundles = {path.name: read_bundle(path) for path in sorted((run / "bundles").iterdir())}
        with Registry.open() as registry:
            versions = registry.add(bundles.values())
            numbers = [version.number for version in versions]
            registry.promote(
                versions[0].model, numbers, to="production", reason="measured", override_gates=True
            )
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        lesions = lesions_of_test(job, job_file.parent).values()
        with (
            running(command, f"{address}/readyz", Path(name) / "service.log") as service,
            DermFed(address) as client,
            PictureReader() as reader,
        ):
            before = processor_time(service.pid)
            answers = [
                (label, pictures[0].row, asked(client, reader, job, pictures)) for label, pictures in lesions
            ]
            spent = processor_time(service.pid) - before
    manifest = next(iter(bundles.values())).manifest
    said = Counter(said.decision for _, _, said in answers)
    print_conditions(
        "Answers over HTTP",
        {
            "job": job.name,
            "seed": job.seed,
            "lesions": len(answers),
            **said,
            "processor milliseconds of the service a lesion": f"{1000 * spent / len(answers):.0f}",
        },
    )
    show(job, manifest.labels, answers)


def show(job: Job, labels: Sequence[Any], answers: Sequence[tuple[str, Any, Any]]) -> None:
    """Print the tables."""
    kind = {one.code: one.kind or one.name for one in labels if one.malignancy == "malignant"}
    tree = Tree(labels)
    classes = {f"{node.level}/{node.code}": {labels[k].code for k in node.classes} for node in tree.nodes}
    groups = defaultdict(list)
    tones = {} if job.data.subgroups is None else job.data.subgroups.tones
    for label, row, said in answers:
        own = [name for name, of in tones.items() if row.skin_tone in of.get(row.skin_tone_scale, ())]
        for name in ("all", *(own or ["undeclared"])):
            groups[name].append((label, said))
    triage, missed, nodes = [], [], []
    for name, of in groups.items():
        levels = Counter((label in kind, said.triage) for label, said in of)
        malignant = sum(label in kind for label, _ in of)
        others = len(of) - malignant
        concluded = [(label, said.conclusion) for label, said in of if said.conclusion is not None]
        triage.append(
            [
                name,
                malignant,
                others,
                share(levels[False, "ruled-out"], others),
                share(levels[True, "urgent"], malignant),
                share(levels[False, "urgent"], others),
                share(len(concluded), len(of)),
            ]
        )
        for each in dict.fromkeys(kind.values()):
            own = [said.triage for label, said in of if kind.get(label) == each]
            missed.append([name, each, len(own), share(own.count("ruled-out"), len(own))])
        by_node = defaultdict(list)
        for label, said in concluded:
            by_node[f"{said.level}/{said.code}"].append(label not in classes[f"{said.level}/{said.code}"])
        nodes += [[name, node, share(sum(wrong), len(wrong))] for node, wrong in sorted(by_node.items())]
    header = ["skin tone", "malignant", "others", "others ruled out", "malignant urgent", "others urgent"]
    print_table([*header, "something concluded"], triage)
    print_table(["skin tone", "kind", "lesions", "ruled out"], missed)
    print_table(["skin tone", "concluded", "wrong"], nodes)


def share(x: int, n: int) -> str:
    """X of n, with its exact 95 % interval."""
    if not n:
        return "–"
    low, high = clopper_pearson(x, n)
    return f"{x / n:.3f} ({x} of {n}) [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    start(main, "{scratch}/run")
