"""A hospital's own pictures: the same splits, classes and labels as where one machine has all."""

import csv

import numpy as np
import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import ClientDataError, LabelError, PartitionError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from clients.data.prepare import prepare
from clients.node.own_data import agreed, own_config, read_own
from training.data.dataset import SERVER, SPLITS
from training.engines.roster import agree
from training.errors import DataError
from training.jobs.job import Job

SIZES = {"north": 40, "south": 24, "east": 31}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    paths = {}
    for name, pictures in SIZES.items():
        made = make_adapter("synthetic", {"pictures": pictures, "size": 32, "seed": pictures}).manifest(
            folder / name
        )
        rows = [
            Row(
                str(made.folder / row.image),
                row.label,
                row.skin_tone,
                row.skin_tone_scale,
                f"{name} {row.lesion_id}",
                f"{name} {row.patient_id}",
                extra={"ward": f"{name} {number % 2}"},
            )
            for number, row in enumerate(made.rows)
        ]
        paths[name] = folder / f"{name}.csv"
        write_manifest(Manifest.of(rows, folder), paths[name])
    return paths


@pytest.fixture
def job_of(tiny, manifests):
    def build(**data):
        block = {
            "manifest": [str(path) for path in manifests.values()],
            "label_map": "malignancy",
            "image_size": 16,
            "clients": {"by": "manifest"},
            "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2"], "dark": ["5", "6"]}},
        }
        return Job.model_validate({**tiny, "data": {**block, **data}, "privacy": {"min_count": 1}})

    return build


def agree_on(job, manifests, cache):
    own = {name: read_own(job, name, path, cache) for name, path in manifests.items()}
    roster = agree(job, [each.properties for each in own.values()], {})
    return roster, {name: agreed(each, roster) for name, each in own.items()}


SOURCES = {
    "manifest": None,
    "clients": {"by": "source"},
    "label_map": None,
    "sources": [{"name": name, "label_map": "malignancy", "unseen": name == "east"} for name in SIZES],
}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"label_fraction": 0.4},
        {"label_map": None},
        {"subgroups": {"column": "ward"}},
        {"labelled_clients": ["south"]},
        {"split": {"train": 0.5, "validation": 0.0, "calibration": 0.2, "test": 0.3}},
        SOURCES,
    ],
    ids=str,
)
def test_each_hospital_draws_what_one_machine_with_all_manifests_draws(data, job_of, manifests, tmp_path):
    sources = [{**one, "manifest": str(manifests[one["name"]])} for one in data.get("sources", ())]
    job = job_of(**{**data, **({"sources": sources} if sources else {})})
    together = prepare(job.data, seed=job.seed, folder=tmp_path, cache=tmp_path / "cache")
    roster, apart = agree_on(job, manifests, tmp_path / "cache")
    assert roster.labels == together.labels
    assert roster.subgroups == tuple(together.subgroups)
    assert roster.clients == together.clients
    assert roster.unseen == tuple(together.unseen) == (("east",) if sources else ())
    assert {name: tuple(clients) for name, clients in roster.communities.items()} == together.communities
    for name in SIZES:
        for split in SPLITS:
            here, there = apart[name].examples(name, split), together.examples(name, split)
            assert np.array_equal(here.batch(np.arange(len(here))), there.batch(np.arange(len(there))))
            assert np.array_equal(here.labels, there.labels)
            assert np.array_equal(here.subgroups, there.subgroups)
            assert here.num_people == there.num_people == len(np.unique(here.names[:, 1]))


def test_a_hospital_may_lack_a_subgroup(job_of, manifests, tmp_path):
    rows = list(csv.DictReader(manifests["south"].read_text().splitlines()))
    light = tmp_path / "south.csv"
    with light.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row for row in rows if row["skin_tone"] not in ("5", "6"))
    own = read_own(job_of(), "south", light, tmp_path / "cache")
    assert own.properties.subgroups == ("light", "dark")


def test_the_coordinators_own_pictures_are_for_training_and_validation(job_of, manifests, tmp_path):
    job = job_of(server={"share": 0.1, "train": 0.75}, label_fraction=0.1)
    own = read_own(job, SERVER, manifests["north"], tmp_path / "cache")
    counts = {split: len(own.dataset.examples(own.dataset.clients[0], split)) for split in SPLITS}
    assert (counts["train"], counts["validation"]) == (30, 10)
    assert counts["calibration"] == counts["test"] == 0
    assert (own.dataset.examples(own.dataset.clients[0], "train").labels >= 0).all()


@pytest.mark.parametrize(
    ("data", "node", "told"),
    [
        ({"clients": {"by": "iid", "count": 2}}, "north", "over a network each hospital is one client"),
        ({"unlabelled_at": "one", "label_fraction": 0.5}, "north", "pictures stay where they are"),
        ({}, SERVER, "the job gives the coordinator no pictures"),
    ],
)
def test_what_several_hospitals_cannot_do_is_refused(job_of, manifests, data, node, told):
    with pytest.raises(PartitionError, match=told):
        own_config(job_of(**data).data, node, manifests["north"])


def test_two_hospitals_that_mean_different_things_by_a_class_are_told_apart(job_of, manifests, tmp_path):
    job = job_of()
    own = [read_own(job, name, path, tmp_path / "cache").properties for name, path in manifests.items()]
    other = own[1].labels[0].model_copy(update={"malignancy": "unknown"})
    changed = own[1].model_copy(update={"labels": (other, *own[1].labels[1:])})
    with pytest.raises(DataError, match="north and south disagree on class"):
        agree(job, [own[0], changed], {})


def test_a_class_that_nobody_agreed_on_and_another_clients_pictures_are_refused(job_of, manifests, tmp_path):
    job = job_of(label_map=None)
    roster, apart = agree_on(job, manifests, tmp_path / "cache")
    with pytest.raises(ClientDataError, match="there is no client 'south'"):
        apart["north"].examples("south", "train")
    own = read_own(job, "north", manifests["north"], tmp_path / "cache")
    assert apart["north"].unused == own.dataset.report.left_out
    assert agreed(own, roster, tells_unused=False).unused is None
    fewer = roster.model_copy(update={"labels": roster.labels[1:]})
    with pytest.raises(LabelError, match=roster.labels[0].code):
        agreed(own, fewer)
