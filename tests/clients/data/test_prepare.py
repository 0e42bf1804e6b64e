import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from clients.data.errors import (
    AdapterError,
    BrokenPicturesError,
    ClientDataError,
    LabelError,
    PartitionError,
    SplitError,
    SubgroupError,
    UnknownColumnError,
)
from clients.data.manifest import Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.prepare import prepare
from clients.data.prepared import Cell, PreparedDataset
from training.data.dataset import SPLITS, Dataset
from training.data.settings import DataConfig

WritePictures = Callable[[list[Row]], Path]


def rows(count: int = 40) -> list[Row]:
    """Two pictures a lesion; two labels, three tones and two clinics, all known by the row's number."""
    return [
        Row(
            f"images/{number:03d}.png",
            label="MEL" if number // 2 % 2 else "NV",
            skin_tone=("1", "2", "6")[number // 2 % 3],
            skin_tone_scale="fitzpatrick",
            lesion_id=f"L{number // 2}",
            extra={"clinic": "a" if number // 2 % 5 else "b"},
        )
        for number in range(count)
    ]


def prepared(path: Path, seed: int = 0, **settings: Any) -> PreparedDataset:
    config = DataConfig(manifest=path.name, image_size=12, **settings)
    return prepare(config, seed=seed, folder=path.parent, cache=path.parent / "cache")


def everything(dataset: Dataset) -> list[tuple[str, str, bytes, int, int]]:
    """(client, split, pixels, label, subgroup) of every picture, sorted."""
    found = []
    for client in dataset.clients:
        for split in SPLITS:
            examples = dataset.examples(client, split)
            pixels = examples.batch(np.arange(len(examples)))
            found += [
                (client, split, one.tobytes(), int(label), int(group))
                for one, label, group in zip(pixels, examples.labels, examples.subgroups, strict=True)
            ]
    return sorted(found)


def test_every_picture_arrives_once_with_its_label_and_subgroup(write_pictures):
    path = write_pictures(rows())
    groups = {"light": ["I", "II"], "dark": ["VI"]}
    dataset = prepared(path, subgroups={"scale": "fitzpatrick", "groups": groups}, clients={"by": "subgroup"})
    assert dataset.clients == dataset.subgroups == ("light", "dark")
    assert [label.code for label in dataset.labels] == ["MEL", "NV"]
    expected = []
    for row in rows():
        group = int(row.skin_tone == "6")
        pixels = np.asarray(Image.open(path.parent / row.image)).tobytes()
        expected.append((("light", "dark")[group], pixels, int(row.label == "NV"), group))
    found = [(client, pixels, label, group) for client, _, pixels, label, group in everything(dataset)]
    assert sorted(found) == sorted(expected)


def test_lesions_are_numbered_and_never_parted(write_pictures):
    dataset = prepared(write_pictures(rows()), clients={"by": "iid", "count": 2})
    places: dict[int, set[tuple[str, str]]] = {}
    for client in dataset.clients:
        for split in SPLITS:
            for lesion in dataset.examples(client, split).lesions.tolist():
                places.setdefault(lesion, set()).add((client, split))
    assert len(places) == 20
    assert all(len(found) == 1 for found in places.values())


def test_patients_are_numbered_and_change_no_fingerprint(write_pictures):
    def people(lesions: int) -> tuple[str, int]:
        """The fingerprint, and how many patients there are, of so many lesions each; 0: none known."""
        owned = [
            replace(row, patient_id=f"P{number // 2 // lesions}" if lesions else "")
            for number, row in enumerate(rows())
        ]
        dataset = prepared(write_pictures(owned))
        parts = [dataset.examples("manifest", split) for split in SPLITS]
        assert all(part.where(part.labels == 0).people.shape == ((part.labels == 0).sum(),) for part in parts)
        return dataset.fingerprint, sum(part.num_people for part in parts)

    nobody, one, two = people(0), people(1), people(2)
    assert one == nobody == (nobody[0], 20)
    assert two[1] == 10


def test_the_same_seed_gives_the_same_data_and_another_seed_other_splits(write_pictures):
    path = write_pictures(rows())
    first, again, other = prepared(path), prepared(path), prepared(path, seed=1)
    assert everything(first) == everything(again) != everything(other)
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_neither_the_order_of_rows_nor_the_place_of_files_matters(write_pictures, tmp_path):
    path = write_pictures(rows())
    first = prepared(path)
    shutil.copytree(tmp_path / "images", tmp_path / "moved" / "images")
    manifest = read_manifest(path)
    shutil.copy(path, tmp_path / "moved" / "manifest.csv")
    moved = read_manifest(tmp_path / "moved" / "manifest.csv")
    write_manifest(moved.keep(manifest.rows[::-1]), tmp_path / "moved" / "manifest.csv")
    second = prepared(tmp_path / "moved" / "manifest.csv")
    assert everything(first) == everything(second)
    assert first.fingerprint == second.fingerprint


def test_a_client_alone_has_the_splits_that_it_has_among_others(write_pictures, tmp_path):
    path = write_pictures(rows())
    together = prepared(path, clients={"by": "column", "column": "clinic"})
    alone = prepared(path, where={"clinic": "b"})
    only_b = [(*entry[1:],) for entry in everything(together) if entry[0] == "b"]
    assert only_b == [(*entry[1:],) for entry in everything(alone)]


def test_the_fingerprint_changes_with_a_label_and_with_a_picture(write_pictures):
    path = write_pictures(rows())
    prints = {prepared(path).fingerprint}
    manifest = read_manifest(path)
    changed = Row(
        **{name: manifest.rows[0].value(name) for name in manifest.columns[:8]} | {"label": "MEL"}, extra={}
    )
    write_manifest(manifest.keep([changed, *manifest.rows[1:]]), path)
    prints.add(prepared(path).fingerprint)
    write_manifest(manifest, path)
    Image.fromarray(np.zeros((12, 12, 3), np.uint8)).save(path.parent / manifest.rows[0].image)
    prints.add(prepared(path).fingerprint)
    assert len(prints) == 3


def test_files_with_the_same_bytes_are_kept_together_across_clients(write_pictures):
    path = write_pictures(rows())
    folder = path.parent
    for number in range(2, 38, 4):  # every other lesion shares a picture with the next
        shutil.copy(folder / f"images/{number:03d}.png", folder / f"images/{number + 2:03d}.png")
    dataset = prepared(path, clients={"by": "column", "column": "clinic"})
    splits: dict[bytes, set[str]] = {}
    for _, split, pixels, _, _ in everything(dataset):
        splits.setdefault(pixels, set()).add(split)
    assert len(splits) == 40 - 9
    assert all(len(found) == 1 for found in splits.values())


def test_pickled_it_is_small_and_works_in_another_process(write_pictures, tmp_path):
    dataset = prepared(write_pictures(rows()))
    before = len(pickle.dumps(dataset))
    pixels = dataset.examples("manifest", "train").images
    assert isinstance(pixels, np.memmap)
    assert len(pickle.dumps(dataset)) == before < 8000
    (tmp_path / "dataset.pickle").write_bytes(pickle.dumps(dataset))
    code = (
        "import pickle, sys, pathlib;"
        "d = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes());"
        "e = d.examples('manifest', 'train');"
        "print(len(e), int(e.images[e.rows].sum()))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "dataset.pickle")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    mine = dataset.examples("manifest", "train")
    assert answer.stdout.split() == [str(len(mine)), str(int(mine.images[mine.rows].sum()))]


def test_the_report_counts_what_is_used_and_what_is_left_out(write_pictures):
    path = write_pictures([*rows(), Row("images/x.png", label="DF"), Row("images/y.png", label="NV")])
    (path.parent / "images/001.png").write_text("no picture")
    dataset = prepared(
        path,
        where={"clinic": ["a", ""]},
        label_map={"NV": "NV", "MEL": "MEL", "DF": None},
        subgroups={"scale": "fitzpatrick", "groups": {"light": ["1"], "dark": ["6"]}},
        clients={"by": "subgroup"},
        on_broken="skip",
    )
    report = dataset.report
    in_clinic_a = [row for row in rows() if row.extra["clinic"] == "a"]
    assert report.left_out.where == 40 - len(in_clinic_a)
    assert report.left_out.label_map == 1
    assert report.left_out.broken == len(report.broken) == 0  # picture 001 is of clinic b
    nobody = sum(row.skin_tone == "2" for row in in_clinic_a)
    assert (report.left_out.nobody, report.left_out.undeclared) == (nobody + 1, {})
    assert report.pictures == len(in_clinic_a) - nobody == sum(report.counts.values())
    dark = sum(count for cell, count in report.counts.items() if cell.client == "dark")
    assert dark == sum(row.skin_tone == "6" for row in in_clinic_a)
    assert all(isinstance(cell, Cell) and cell.subgroup == cell.client for cell in report.counts)


def test_broken_pictures_are_refused_by_name_or_skipped_and_reported(write_pictures):
    path = write_pictures(rows())
    (path.parent / "images/003.png").write_text("no picture")
    (path.parent / "images/004.png").unlink()
    with pytest.raises(
        BrokenPicturesError, match=r"(?s)2 of 40.*003.png: .*no picture.*1: .*no such file\s+\S+/004.png"
    ):
        prepared(path)
    dataset = prepared(path, on_broken="skip")
    assert len(everything(dataset)) == 38
    assert [Path(broken.image).name for broken in dataset.report.broken] == ["003.png", "004.png"]
    assert dataset.report.left_out.broken == 2


def test_few_labels_leave_pictures_splits_and_clients_as_they_are(write_pictures):
    path = write_pictures([*rows(), *(Row(f"images/u{n}.png", extra={"clinic": "a"}) for n in range(5))])
    clients = {"by": "column", "column": "clinic"}
    full, half, few = (prepared(path, clients=clients, label_fraction=share) for share in (1.0, 0.5, 0.2))
    labelled: list[set[bytes]] = []
    for dataset in (full, half, few):
        assert [entry[:3] for entry in everything(dataset)] == [entry[:3] for entry in everything(full)]
        others = [[entry for entry in everything(data) if entry[1] != "train"] for data in (dataset, full)]
        assert others[0] == others[1]
        labelled.append({entry[2] for entry in everything(dataset) if entry[1] == "train" and entry[3] >= 0})
        for client in dataset.clients:
            train = dataset.examples(client, "train")
            known = [set((train.labels[train.lesions == lesion] >= 0).tolist()) for lesion in train.lesions]
            assert all(len(one) == 1 for one in known)
            assert (train.labels >= 0).any()
    assert labelled[0] > labelled[1] > labelled[2]
    assert len({dataset.fingerprint for dataset in (full, half, few)}) == 3
    unlabelled = sum(count for cell, count in half.report.counts.items() if not cell.label)
    assert unlabelled == 5 + len(labelled[0]) - len(labelled[1])


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"where": {"clinc": "a"}}, UnknownColumnError, "'clinc'; did you mean `clinic`"),
        ({"where": {"clinic": "z"}}, ClientDataError, r"clinic has 'a' \(32\), 'b' \(8\)"),
        ({"subgroups": {"column": "hospital"}}, UnknownColumnError, "'hospital'"),
        ({"clients": {"by": "column", "column": "hospital"}}, UnknownColumnError, "'hospital'"),
        ({"clients": {"by": "column", "column": "site"}}, PartitionError, "40 of 40 pictures have no site"),
        ({"clients": {"by": "iid", "count": 30}}, PartitionError, "to train on"),
        ({"clients": {"by": "column", "column": "clinic", "count": 1}}, PartitionError, "has 2 values"),
        ({"clients": {"by": "column", "column": "clinic", "count": 30}}, PartitionError, "to train on"),
        ({"label_map": {"NV": "NV"}}, LabelError, "'MEL': 20 pictures"),
        ({"label_map": {"NV": None, "MEL": None}}, LabelError, "no row has a label"),
        ({"subgroups": {"scale": "monk", "groups": {"a": ["6"]}}}, SubgroupError, "fitzpatrick 6"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(write_pictures, settings, error, match):
    with pytest.raises(error, match=match):
        prepared(write_pictures(rows()), **settings)


def test_given_splits_are_honoured_and_straddling_ones_refused(write_pictures):
    given = [Row(f"images/{number}.png", "NV", split=SPLITS[number % 4]) for number in range(8)]
    path = write_pictures(given)
    dataset = prepared(path)
    assert [len(dataset.examples("manifest", split)) for split in SPLITS] == [2, 2, 2, 2]
    shutil.copy(path.parent / "images/0.png", path.parent / "images/1.png")
    with pytest.raises(SplitError, match=r"images/0.png\) is in train, .*images/1.png\) is in validation"):
        prepared(path)


def test_paths_may_name_environment_variables(write_pictures, tmp_path, monkeypatch):
    write_pictures(rows())
    config = DataConfig(manifest="${PICTURES_OF_TEST}/manifest.csv", image_size=12)
    with pytest.raises(ClientDataError, match="environment variable PICTURES_OF_TEST; set it"):
        prepare(config, seed=0, folder=Path("/"), cache=tmp_path / "cache")
    monkeypatch.setenv("PICTURES_OF_TEST", str(tmp_path))
    assert prepare(config, seed=0, folder=Path("/"), cache=tmp_path / "cache").clients == ("manifest",)


def test_other_adapters_need_a_folder(tmp_path):
    with pytest.raises(AdapterError, match="adapter ham10000 needs `folder`"):
        prepare(DataConfig(adapter="ham10000"), seed=0, folder=tmp_path, cache=tmp_path)


def test_a_client_whose_pictures_are_all_filtered_is_refused(write_pictures, tmp_path):
    manifest = read_manifest(write_pictures(rows()))
    for clinic in ("a", "b"):
        mine = [row for row in manifest.rows if row.extra["clinic"] == clinic]
        write_manifest(manifest.keep(mine), tmp_path / f"{clinic}.csv")
    config = DataConfig(manifest=("a.csv", "b.csv"), where={"clinic": "a"}, image_size=12)
    with pytest.raises(PartitionError, match="client b of 2 would have no pictures"):
        prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")
