"""Jobs whose pictures are from several named sources, with a server, unseen clients and few labels."""

import pickle
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from clients.data.errors import ClientDataError, PartitionError, SubgroupError, UnknownColumnError
from clients.data.manifest import Row
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from training.data.dataset import SERVER, SPLITS, UNLABELLED_CLIENT, Dataset
from training.data.settings import DataConfig

Entry = tuple[str, str, bytes, int]  # client, split, pixels, label

CODES = {
    "ham": ("akiec", "nv", "nv", "mel"),
    "pad": ("AK", "NV", "MEL", "odd"),
    "late": ("benign", "benign", "malignant", ""),
}
HAM = {"name": "ham", "where": {"hospital": "ham"}, "label_map": {"akiec": "AK", "nv": "NV", "mel": "MEL"}}
PAD_MAP = {"AK": "AK", "NV": "NV", "MEL": "MEL", "odd": None}
PAD = {"name": "pad", "where": {"hospital": "pad"}, "label_map": PAD_MAP}
LATE = {"name": "late", "where": {"hospital": "late"}, "unseen": True}


def rows(**sizes: int) -> list[Row]:
    """So many pictures of each hospital, two a lesion; every code in turn."""
    return [
        Row(
            f"images/{hospital}-{number:03d}.png",
            label=CODES[hospital][number // 2 % 4],
            lesion_id=f"{hospital}-{number // 2}",
            extra={"hospital": hospital, "clinic": "" if hospital == "late" else f"c{number // 2 % 3}"},
        )
        for hospital, size in sizes.items()
        for number in range(size)
    ]


@pytest.fixture
def manifest(write_pictures):
    return write_pictures(rows(ham=120, pad=48, late=16))


def prepared(path: Path, *sources: dict[str, Any], seed: int = 0, **settings: Any) -> PreparedDataset:
    named = [{"manifest": path.name, **source} for source in sources or ({**HAM, "count": 3}, PAD)]
    block = {"sources": named, "image_size": 12, "clients": {"by": "source"}, **settings}
    return prepare(
        DataConfig.model_validate(block), seed=seed, folder=path.parent, cache=path.parent / "cache"
    )


def entries(dataset: Dataset, *clients: str) -> Iterator[Entry]:
    """Every picture of these clients, or of all."""
    for client in clients or dataset.clients:
        for split in SPLITS:
            examples = dataset.examples(client, split)
            pixels = examples.batch(np.arange(len(examples)))
            for one, label in zip(pixels, examples.labels, strict=True):
                yield client, split, one.tobytes(), int(label)


def lesions(dataset: Dataset, *clients: str) -> set[int]:
    return {
        int(lesion)
        for client in clients
        for split in SPLITS
        for lesion in dataset.examples(client, split).lesions
    }


def labels(dataset: Dataset, client: str) -> list[int]:
    return dataset.examples(client, "train").labels.tolist()


def test_each_source_becomes_as_many_clients_as_it_counts(manifest):
    dataset = prepared(manifest)
    assert dataset.clients == ("ham-0", "ham-1", "ham-2", "pad")
    assert dataset.communities == {"ham": ("ham-0", "ham-1", "ham-2"), "pad": ("pad",)}
    assert dataset.unseen == ()
    assert [label.code for label in dataset.labels] == ["AK", "MEL", "NV"]
    assert dataset.report.pictures == 120 + 36
    assert dataset.report.left_out.where == 48 + 120 + 2 * 16
    assert dataset.report.left_out.label_map == 12
    for split in SPLITS:
        sizes = [len(dataset.examples(client, split)) for client in dataset.communities["ham"]]
        assert max(sizes) - min(sizes) <= 4
        for number in range(3):
            held = [(dataset.examples(c, split).labels == number).sum() for c in dataset.communities["ham"]]
            assert max(held) - min(held) <= 4
    everyone = [lesions(dataset, client) for client in dataset.clients]
    assert sum(map(len, everyone)) == len(set().union(*everyone)) == 60 + 18
    assert pickle.loads(pickle.dumps(dataset)).communities == dataset.communities


def test_the_number_of_clients_does_not_change_the_splits_and_one_is_by_manifest(manifest):
    whole, divided = prepared(manifest, HAM, PAD), prepared(manifest)
    assert whole.clients == ("ham", "pad")

    def joined(dataset: Dataset) -> list[Entry]:
        return sorted((entry[0].partition("-")[0], *entry[1:]) for entry in entries(dataset))

    assert joined(whole) == joined(divided)
    by_manifest = prepared(manifest, HAM, PAD, clients={"by": "manifest"})
    assert by_manifest.fingerprint == whole.fingerprint
    assert by_manifest.communities == {"ham": ("ham",), "pad": ("pad",)}


@pytest.mark.parametrize("settings", [{}, {"label_fraction": 0.3}, {"server": {"share": 0.2}}])
def test_a_source_alone_is_drawn_as_among_others(manifest, settings):
    together, alone = prepared(manifest, **settings), prepared(manifest, {**HAM, "count": 3}, **settings)
    hams = ("ham-0", "ham-1", "ham-2")
    assert sorted(entries(together, *hams)) == sorted(entries(alone, *hams))


def test_other_rules_see_sources_as_manifests_and_keep_unseen_ones_apart(manifest):
    rules: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"by": "iid", "count": 2}, ("client-0", "client-1", "late")),
        ({"by": "dirichlet", "count": 2, "alpha": 100}, ("client-0", "client-1", "late")),
        ({"by": "column", "column": "clinic"}, ("c0", "c1", "c2", "late")),
        ({"by": "column", "column": "clinic", "count": 4}, ("c0-0", "c0-1", "c1", "c2", "late")),
        ({"by": "manifest"}, ("ham", "pad", "late")),
    ]
    for rule, clients in rules:
        dataset = prepared(manifest, HAM, PAD, LATE, clients=rule)
        assert dataset.clients == clients
        assert dataset.unseen == ("late",)
        by_manifest = rule["by"] == "manifest"
        assert dataset.communities == ({"ham": ("ham",), "pad": ("pad",)} if by_manifest else {})
        assert len(dataset.examples("late", "test")) == 16


def test_an_unseen_source_is_all_test_and_folded(manifest):
    dataset = prepared(manifest, {**HAM, "count": 3}, PAD, {**LATE, "count": 2})
    assert dataset.clients == ("ham-0", "ham-1", "ham-2", "pad", "late-0", "late-1")
    assert dataset.unseen == ("late-0", "late-1")
    assert set(dataset.communities) == {"ham", "pad"}
    assert [label.code for label in dataset.labels] == ["AK", "MEL", "NV"]
    found = [dataset.examples(client, "test").labels.tolist() for client in dataset.unseen]
    assert [len(one) for one in found] == [8, 8]
    assert sorted(found[0] + found[1]) == [-1] * 4 + [0] * 8 + [1] * 4
    for client in dataset.unseen:
        assert not any(len(dataset.examples(client, split)) for split in SPLITS if split != "test")
    counts = Counter[str]()
    for cell, count in dataset.report.counts.items():
        if cell.client in dataset.unseen:
            counts[cell.label] += count
    assert counts == {"benign": 8, "malignant": 4, "": 4}


def test_unseen_pictures_change_nothing_for_the_others(manifest):
    settings: dict[str, Any] = {"label_fraction": 0.4, "server": {"share": 0.2}}
    plain, with_late = (
        prepared(manifest, **settings),
        prepared(manifest, HAM | {"count": 3}, PAD, LATE, **settings),
    )
    assert with_late.clients == (*plain.clients, "late")
    assert sorted(entries(with_late, *plain.clients)) == sorted(entries(plain))
    assert with_late.fingerprint != plain.fingerprint


def test_given_splits_of_an_unseen_source_do_not_count(write_pictures):
    given = [
        Row(f"images/u{n}.png", "MEL", lesion_id="u", split=SPLITS[n % 4], extra={"hospital": "late"})
        for n in range(8)
    ]
    dataset = prepared(write_pictures([*rows(ham=40), *given]), HAM, LATE)
    assert len(dataset.examples("late", "test")) == 8


@pytest.mark.parametrize("tie", ["lesion", "patient", "duplicate", "bytes"])
def test_a_picture_that_is_seen_in_training_is_not_unseen(write_pictures, tie):
    def row(hospital: str, tied: bool) -> Row:
        group = {"duplicate_group": "d" if tie == "duplicate" and tied else ""}
        return Row(
            f"images/{hospital}{tied}.png",
            "MEL",
            lesion_id="L" if tie == "lesion" and tied else "",
            patient_id="P" if tie == "patient" and tied else "",
            extra={"hospital": hospital, **group},
        )

    path = write_pictures([*rows(ham=40), row("ham", True), row("late", True), row("late", False)])
    if tie == "bytes":
        shutil.copy(path.parent / "images/hamTrue.png", path.parent / "images/lateTrue.png")
    source = {**HAM, "label_map": {**HAM["label_map"], "MEL": "MEL"}}  # type: ignore[dict-item]
    with pytest.raises(
        PartitionError, match=r"1 groups .*\n.*hamTrue.png\) of ham, .*lateTrue.png\) of late"
    ):
        prepared(path, source, LATE)
    both_unseen = [{**LATE, "name": "one", "where": {"hospital": ["late"]}}, {**LATE, "name": "two"}]
    assert prepared(path, source | {"where": {"clinic": ["c0"]}}, *both_unseen).unseen == ("one", "two")


def test_subgroups_are_those_that_are_trained_on(write_pictures):
    path = write_pictures(
        [
            *(
                Row(f"images/h{n}.png", "NV", "2", "fitzpatrick", extra={"hospital": "ham", "camera": "x"})
                for n in range(20)
            ),
            Row("images/u1.png", "NV", "2", "fitzpatrick", extra={"hospital": "late", "camera": "x"}),
            Row("images/u2.png", "MEL", "6", "fitzpatrick", extra={"hospital": "late", "camera": "y"}),
        ]
    )
    source = {"name": "ham", "where": {"hospital": "ham"}}
    dataset = prepared(path, source, LATE, subgroups={"column": "camera"})
    assert dataset.subgroups == ("x",)
    assert sorted(dataset.examples("late", "test").subgroups.tolist()) == [-1, 0]
    assert dataset.report.left_out.undeclared == {"other_value": 1}
    assert [label.code for label in dataset.labels] == ["NV"]
    assert sorted(dataset.examples("late", "test").labels.tolist()) == [0, 1]
    groups = {"light": ["2"], "dark": ["6"]}
    with pytest.raises(SubgroupError, match=r"subgroup dark .*tones: fitzpatrick 2: 20;"):
        prepared(path, source, LATE, subgroups={"scale": "fitzpatrick", "groups": groups})


def test_an_unseen_source_needs_no_column_that_parts_or_groups_the_others(write_pictures):
    path = write_pictures(rows(ham=40))
    (path.parent / "unseen.csv").write_text("image,label\nu.png,MEL\n")
    Image.new("RGB", (12, 12)).save(path.parent / "u.png")
    late = {"name": "late", "manifest": "unseen.csv", "unseen": True}
    rule = {"clients": {"by": "column", "column": "clinic"}, "subgroups": {"column": "hospital"}}
    dataset = prepared(path, {"name": "ham", "label_map": HAM["label_map"]}, late, **rule)
    assert dataset.clients == ("c0", "c1", "c2", "late")
    assert dataset.examples("late", "test").subgroups.tolist() == [-1]
    with pytest.raises(UnknownColumnError, match="no column 'hospital'"):
        prepared(path, {"name": "ham", "label_map": HAM["label_map"]}, late | {"unseen": False}, **rule)


def test_the_fingerprint_tells_unseen_clients_from_others(write_pictures):
    given = [
        Row(f"images/u{n}.png", "MEL", split="test", extra={"hospital": "late", "clinic": "c0"})
        for n in range(4)
    ]
    path = write_pictures([*rows(ham=40), *given])
    unseen, seen = (
        prepared(path, HAM, {**LATE, "unseen": unseen}, label_map="malignancy", clients={"by": "manifest"})
        for unseen in (True, False)
    )
    assert sorted(entries(unseen)) == sorted(entries(seen))
    assert unseen.fingerprint != seen.fingerprint


def test_the_server_has_its_share_and_the_others_split_what_remains(manifest):
    dataset = prepared(manifest, server={"share": 0.25, "train": 0.8}, label_fraction=0.2)
    assert dataset.clients == ("ham-0", "ham-1", "ham-2", "pad", SERVER)
    assert SERVER not in [client for clients in dataset.communities.values() for client in clients]
    assert dataset.unseen == ()
    sizes = [len(dataset.examples(SERVER, split)) for split in SPLITS]
    assert sizes[2:] == [0, 0]
    assert abs(sum(sizes) - (120 + 36) / 4) <= 4
    assert abs(sizes[0] - 0.8 * sum(sizes)) <= 2
    assert min(labels(dataset, SERVER)) == 0
    hospitals = dataset.clients[:4]
    assert not lesions(dataset, SERVER) & lesions(dataset, *hospitals)
    assert sum(len(list(entries(dataset, client))) for client in dataset.clients) == 156
    held = Counter(split for _, split, _, _ in entries(dataset, *hospitals))
    for split, share in zip(SPLITS, (0.6, 0.1, 0.1, 0.2), strict=True):
        assert abs(held[split] - share * held.total()) <= 4
    other = prepared(manifest, server={"share": 0.25, "train": 0.0}, label_fraction=0.2)
    assert sorted(entries(other, *hospitals)) == sorted(entries(dataset, *hospitals))
    assert [len(other.examples(SERVER, split)) for split in SPLITS] == [0, sum(sizes), 0, 0]


def test_pictures_that_nobody_holds_are_not_the_servers(write_pictures):
    path = write_pictures(
        [Row(f"images/{n}.png", "NV", *(("2", "fitzpatrick") if n % 2 else ("", ""))) for n in range(60)]
    )
    config = DataConfig.model_validate(
        {
            "manifest": path.name,
            "image_size": 12,
            "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["2"]}},
            "clients": {"by": "subgroup"},
            "server": {"share": 0.3, "train": 0.5},
        }
    )
    dataset = prepare(config, seed=0, folder=path.parent, cache=path.parent / "cache")
    assert dataset.clients == ("light", SERVER)
    assert dataset.report.left_out.nobody == 30
    assert sum(len(dataset.examples(SERVER, split)) for split in SPLITS) == 9


def test_labels_at_the_server_only(manifest):
    dataset = prepared(manifest, server={"share": 0.25}, label_fraction=0)
    full = prepared(manifest, server={"share": 0.25})
    for client in dataset.clients[:4]:
        assert set(labels(dataset, client)) == {-1}
        for split in SPLITS[1:]:
            found, before = (data.examples(client, split).labels.tolist() for data in (dataset, full))
            assert found == before
            assert -1 not in found
    assert labels(dataset, SERVER) == labels(full, SERVER)
    assert -1 not in labels(dataset, SERVER)


def test_only_labelled_clients_keep_labels(manifest):
    full = prepared(manifest)
    few = prepared(manifest, labelled_clients=["ham-1", "pad"])
    tenth = prepared(manifest, labelled_clients=["ham-1"], label_fraction=0.5)
    everyones = prepared(manifest, label_fraction=0.5)
    for client in full.clients:
        kept = client in ("ham-1", "pad")
        assert labels(few, client) == (labels(full, client) if kept else [-1] * len(labels(full, client)))
        halved = labels(everyones, client)
        assert labels(tenth, client) == (halved if client == "ham-1" else [-1] * len(halved))
        for dataset in (few, tenth):
            for split in SPLITS[1:]:
                assert -1 not in dataset.examples(client, split).labels
    assert len({data.fingerprint for data in (full, few, tenth, everyones)}) == 4


def test_all_kinds_of_clients_have_one_order(manifest):
    dataset = prepared(
        manifest, LATE, PAD, {**HAM, "count": 2},
        label_fraction=0.5, server={"share": 0.2}, unlabelled_at="one",
    )  # fmt: skip
    assert dataset.clients == ("pad", "ham-0", "ham-1", UNLABELLED_CLIENT, SERVER, "late")
    assert sum(dataset.report.counts.values()) == dataset.report.pictures == 120 + 36 + 16
    assert {cell.client for cell in dataset.report.counts} == set(dataset.clients)
    assert len(dataset.table.rows) == 172


@pytest.mark.parametrize(
    ("sources", "settings", "error", "match"),
    [
        ([{**HAM, "where": {"hospitl": "ham"}}], {}, UnknownColumnError, "did you mean `hospital`"),
        ([{**HAM, "where": {"hospital": "hm"}}, PAD], {}, ClientDataError, r"ham:\n  hospital has 'ham'"),
        ([HAM, PAD], {"where": {"hospital": "pad"}}, ClientDataError, "keeps no picture of source ham"),
        ([HAM, {**LATE, "where": {"hospital": "x"}}], {}, ClientDataError, "keeps no picture of source late"),
        ([{**HAM, "count": 50}], {}, PartitionError, "to train on; lower the `count` of its source"),
        ([HAM, {**LATE, "count": 9}], {}, PartitionError, "late-8 of 9 would have no.*; lower the `count`"),
        ([HAM], {"labelled_clients": ["hm"]}, PartitionError, "'hm', .* no hospital; did you mean `ham`"),
        (
            [HAM, LATE],
            {"labelled_clients": ["late", "server"], "server": {"share": 0.3}},
            PartitionError,
            "'late', which is no hospital; valid: ham",
        ),
        ([HAM], {"labelled_clients": ["server"], "server": {"share": 0.3}}, PartitionError, "valid: ham"),
        ([HAM, PAD], {"labelled_clients": ["ham"], "unlabelled_at": "one"}, PartitionError, "pad of 2"),
        ([HAM], {"unlabelled_at": "one"}, PartitionError, "all training pictures have labels"),
        ([HAM], {"server": {"share": 0.001}}, PartitionError, "no labelled pictures to train on; raise"),
        ([HAM, PAD], {"server": {"share": 0.99}}, PartitionError, r"client .*; lower `server.share`"),
        (
            [HAM, {**LATE, "name": "c0"}],
            {"clients": {"by": "column", "column": "clinic"}},
            PartitionError,
            "two clients would be called c0",
        ),
        (
            [HAM, {**LATE, "name": "client-0"}],
            {"clients": {"by": "iid", "count": 2}},
            PartitionError,
            "two clients would be called client-0",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(manifest, sources, settings, error, match):
    with pytest.raises(error, match=match):
        prepared(manifest, *sources, **settings)


def test_a_hospital_called_like_the_server_is_refused(write_pictures):
    path = write_pictures(
        [Row(f"images/{n}.png", "NV", extra={"clinic": ("server", "unlabelled")[n % 2]}) for n in range(40)]
    )
    block: dict[str, Any] = {
        "manifest": path.name, "image_size": 12, "clients": {"by": "column", "column": "clinic"}
    }  # fmt: skip
    others = {"where": {"clinic": "unlabelled"}}

    def clients(**settings: Any) -> tuple[str, ...]:
        config = DataConfig.model_validate({**block, **settings})
        return prepare(config, seed=0, folder=path.parent, cache=path.parent / "cache").clients

    with pytest.raises(
        PartitionError, match="a hospital is called server, which is the name of the client that"
    ):
        clients()
    assert clients(**others) == ("unlabelled",)
    with pytest.raises(PartitionError, match="two clients would be called server: "):
        clients(server={"share": 0.2})
    with pytest.raises(PartitionError, match="two clients would be called unlabelled: "):
        clients(label_fraction=0.5, unlabelled_at="one")


SOURCE = {"name": "a", "manifest": "a.csv"}


@pytest.mark.parametrize(
    ("block", "match"),
    [
        ({}, "name one of `manifest`, `adapter` and `sources`"),
        ({"manifest": "a.csv", "adapter": "synthetic"}, "not `manifest` and `adapter`"),
        ({"manifest": "a.csv", "sources": [SOURCE]}, "not `manifest` and `sources`"),
        ({"sources": [SOURCE], "folder": "x"}, "`folder` and `options` belong to one of the `sources`"),
        ({"sources": [{"name": "a"}]}, "source a needs either `manifest` or `adapter`"),
        ({"sources": [{**SOURCE, "adapter": "synthetic"}]}, "source a needs either"),
        ({"sources": [{**SOURCE, "folder": "x"}]}, "source a has a manifest, which uses neither"),
        ({"sources": [{**SOURCE, "name": "a b"}]}, "should match pattern"),
        ({"sources": [{**SOURCE, "name": "server"}]}, "may not be called server"),
        ({"sources": [{**SOURCE, "name": "unlabelled", "unseen": True}, SOURCE]}, "not be called unlabelled"),
        ({"sources": [SOURCE, SOURCE]}, "two clients of `sources` would be called a;"),
        (
            {"clients": {"by": "source"}, "sources": [{**SOURCE, "count": 2}, {**SOURCE, "name": "a-1"}]},
            "would be called a-1;",
        ),
        ({"sources": [{**SOURCE, "count": 2}]}, "clients by manifest does not use; set `clients"),
        ({"sources": [{**SOURCE, "unseen": True}]}, "all `sources` are unseen"),
        ({"manifest": "a.csv", "clients": {"by": "source"}}, "clients by source needs `sources`"),
        ({"sources": [SOURCE], "clients": {"by": "source", "count": 2}}, "does not use `count`"),
        ({"manifest": "a.csv", "server": {"share": 0}}, "greater than 0"),
        ({"manifest": "a.csv", "label_fraction": 0}, "label_fraction 0 leaves no label to train on"),
        ({"manifest": "a.csv", "label_fraction": 0, "server": {"share": 0.1, "train": 0}}, "leaves no label"),
        ({"manifest": "a.csv", "labelled_clients": []}, "`labelled_clients` names no client"),
        (
            {"manifest": "a.csv", "label_fraction": 0, "server": {"share": 0.1}, "labelled_clients": ["a"]},
            "`labelled_clients` a would keep labels",
        ),
        ({"manifest": "a.csv", "unlabelled_at": "two"}, "'clients' or 'one'"),
    ],
)  # fmt: skip
def test_data_blocks_that_contradict_themselves_are_refused(block, match):
    with pytest.raises(ValidationError, match=match):
        DataConfig.model_validate(block)
