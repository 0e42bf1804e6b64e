"""A hospital for attacks on what it tells: the real node without its network, with pictures of its own."""

from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from benchmarks.loopback.permissive import permissive
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.withdraw import drawn_pictures, withdraw
from clients.node.guards import PolicyGuard
from clients.node.request_handler import RequestHandler
from training.data.dataset import SPLITS
from training.engines.calls import REFUSED
from training.engines.roster import ClientProperties, agree, shake_hands
from training.engines.wire import read_response, stamp_of, write_payload, write_request
from training.jobs.job import Job
from training.messages import Broadcast, Tensors
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.census import CENSUS

LEAST = 3
PATIENTS = 60
SPLIT = {"train": 0.5, "validation": 0.1, "calibration": 0.1, "test": 0.3}
DATA = {
    "manifest": "x.csv",
    "label_map": "malignancy",
    "image_size": 16,
    "clients": {"by": "manifest"},
    "split": SPLIT,
    "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2"], "dark": ["5", "6"]}},
}
PRIVACY = {"min_count": LEAST, "counts": {"masks": False}}


class House:
    """A hospital, and what it was told and asked."""

    def __init__(self, folder: Path, job: Job) -> None:
        self.folder, self.job, self.policy = folder, job, folder / "policy.yaml"
        self.said: list[str] = []
        permissive(folder)
        rows = []
        for n in range(PATIENTS):
            for part in "ab" if n % 3 else "a":
                Image.new("RGB", (16, 16), (n, 90 if part == "a" else 30, 4 * n)).save(
                    folder / f"{n}{part}.png"
                )
                label = ("NV", "MEL")[n % 2]
                rows.append(Row(f"{n}{part}.png", label, "15"[n // 2 % 2], "fitzpatrick", f"L{n}", f"P{n}"))
        self.manifest = folder / "manifest.csv"
        write_manifest(Manifest.of(rows, folder), self.manifest)
        self.file = folder / "job.yaml"
        self.file.write_text(yaml.safe_dump(job.resolved()))

    def start(self, run: str) -> RequestHandler:
        """Its node in a run, which has introduced itself."""
        handler = RequestHandler(
            "north",
            self.job,
            self.manifest,
            cache=self.folder / "cache",
            states=self.folder / run / "clients",
            say=self.said.append,
            releases=self.folder / "releases",
            guard=PolicyGuard(self.policy),
        )
        handler.handshake(shake_hands(self.job.digest, "s1").model_dump_json())
        return handler

    def join(self, handler: RequestHandler) -> bool:
        """Whether it takes part."""
        introduced = handler.register()
        if REFUSED in introduced:
            return False
        told = ClientProperties.model_validate_json(introduced)
        return handler.join(agree(self.job, [told], {}).model_dump_json()) == "{}"

    def ask(
        self,
        handler: RequestHandler,
        what: str,
        number: int = 1,
        *,
        tensors: Tensors | None = None,
        **options: object,
    ):
        """The answer to a request; it carries the initial weights where nothing else is named."""
        initial = float_state(initial_model(self.job.model, self.job.seed, 16, 2))
        weights = initial if tensors is None else tensors
        stage = CENSUS if what == CENSUS else self.job.key(0)
        request = Broadcast("north", stage, 1, what, tensors=weights, options=options)
        stamp = stamp_of(request, self.job.digest, "s1", number)
        return read_response(*handler.answer(write_request(request, stamp, 0), write_payload(weights)), stamp)

    def taken_up(self, run: str) -> RequestHandler:
        """Its node in a run in which it takes part."""
        handler = self.start(run)
        assert self.join(handler), self.said[-1]
        return handler

    def census(self, run: str) -> np.ndarray | None:
        """What a run is told; None where it is refused."""
        handler = self.start(run)
        return self.ask(handler, CENSUS).tensors[CENSUS].numpy() if self.join(handler) else None

    def cell(self, patient: str) -> tuple[int, int, int]:
        """The patient's split, subgroup and class, and how many pictures."""
        drawn = self.drawn()
        [made] = {
            (picture.split, picture.subgroup, picture.label)
            for row in read_manifest(self.manifest).rows
            if row.patient_id == patient and (picture := drawn[row.image])
        }
        return SPLITS.index(made[0]), ["light", "dark"].index(made[1]), ["benign", "malignant"].index(made[2])

    def drawn(self):
        data, seed, rule = self.job.data, self.job.seed, self.job.picture
        return drawn_pictures(data, seed, self.manifest, self.folder / "cache", rule, "north")

    def pictures_of(self, patient: str) -> int:
        return sum(row.patient_id == patient for row in read_manifest(self.manifest).rows)

    def withdraw(self, *patients: str) -> None:
        out = self.folder / f"without-{'-'.join(patients)}.csv"
        withdraw(self.manifest, patients, self.file, out, client="north")
        self.manifest = out


def someone_in(house: House, split: str) -> str:
    drawn = house.drawn()
    return next(
        row.patient_id for row in read_manifest(house.manifest).rows if drawn[row.image].split == split
    )
