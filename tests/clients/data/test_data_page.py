"""The data blocks of docs/data.md: the four scenarios of FedPerl, run on tables of a few lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from training.data.dataset import SERVER, SPLITS
from training.data.settings import DataConfig

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
SCENARIOS = PAGE.split("\n## The four scenarios")[1].split("\n## ")[0]
BLOCKS = [yaml.safe_load(part.split("\n```")[0])["data"] for part in SCENARIOS.split("\n```yaml\n")[1:]]
HOSPITALS = (*(f"isic-{n}" for n in range(5)), *(f"ham-{n}" for n in range(3)), "derm7pt", "pad")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five data sets as they are published, with a few pictures each."""
    monkeypatch.setenv("PICTURES", str(tmp_path))
    drawn = iter(range(1 << 20))

    def table(path: str, head: str, names: list[str], line: Callable[[int, str], str]) -> None:
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join([head, *(line(number, name) for number, name in enumerate(names))]))
        for name in names:
            colour = next(drawn)
            if not (file.parent / name).exists():
                Image.new("RGB", (8, 8), (colour % 256, colour // 256, 40)).save(file.parent / name)

    isic = [f"ISIC_{number:07d}.jpg" for number in range(160)]
    classes = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK")
    table(
        "isic2019/ISIC_2019_Training_Metadata.csv",
        "image,age_approx,anatom_site_general,lesion_id,sex",
        isic,
        lambda n, name: f"{name[:-4]},,,BCN_{n},",
    )  # fmt: skip
    table(
        "isic2019/ISIC_2019_Training_GroundTruth.csv", f"image,{','.join(classes)}", isic,
        lambda n, name: f"{name[:-4]},{','.join(str(int(n % 8 == k)) for k in range(9))}",
    )  # fmt: skip
    table(
        "ham10000/HAM10000_metadata.csv", "lesion_id,image_id,dx,localization",
        [f"ISIC_{number:07d}.jpg" for number in range(1000, 1084)],
        lambda n, name: f"HAM_{n},{name[:-4]},{('akiec', 'bcc', 'bkl', 'df', 'mel', 'nv', 'vasc')[n % 7]},",
    )  # fmt: skip
    table(
        "derm7pt/meta.csv", "case_num,derm,diagnosis", [f"d{number}.jpg" for number in range(42)],
        lambda n, name: f"{n + 1},{name},{('melanoma', 'blue nevus', 'lentigo')[n % 3]}",
    )  # fmt: skip
    table(
        "pad-ufes-20/metadata.csv", "patient_id,lesion_id,img_id,diagnostic,fitspatrick",
        [f"PAT_{number}_1_1.png" for number in range(36)],
        lambda n, name: f"PAT_{n},1,{name},{('ACK', 'SEK', 'SCC')[n % 3]},",
    )  # fmt: skip
    site = "anatom_site_general_challenge"
    table(
        "isic2020/ISIC_2020_Training_GroundTruth.csv",
        f"image_name,patient_id,sex,age_approx,{site},diagnosis,benign_malignant,target",
        [f"ISIC_{number:07d}.jpg" for number in range(5000, 5012)],
        lambda n, name: f"{name[:-4]},IP_{n},,,,{'melanoma,malignant,1' if n < 2 else 'unknown,benign,0'}",
    )
    return tmp_path


def scenario(folder: Path, number: int, **changed: Any) -> PreparedDataset:
    """The first block with the lines that another scenario changes; sources are added."""
    first, other = BLOCKS[0], BLOCKS[number - 1] if number > 1 else {}
    sources = [*first["sources"], *other.get("sources", [])]
    block = {**first, **other, "sources": sources, "image_size": 8, **changed}
    return prepare(DataConfig.model_validate(block), seed=0, folder=folder, cache=folder / "cache")


def labelled(dataset: PreparedDataset, client: str) -> float:
    """The share of training pictures that have a label."""
    return float((dataset.examples(client, "train").labels >= 0).mean())


def test_each_scenario_has_a_block() -> None:
    assert len(BLOCKS) == 4


def test_labels_and_no_labels_at_each_client(folders: Path) -> None:
    dataset = scenario(folders, 1, label_fraction=0.5)
    assert dataset.clients == HOSPITALS
    assert dataset.communities == {
        "isic": HOSPITALS[:5], "ham": HOSPITALS[5:8], "derm7pt": ("derm7pt",), "pad": ("pad",)
    }  # fmt: skip
    codes = [label.code for label in dataset.labels]
    assert codes == ["AK", "BCC", "BKL", "DF", "MEL", "NV", "SCC", "VASC"]
    assert dataset.report.left_out.label_map == 14
    assert dataset.report.pictures == 160 + 84 + 28 + 36
    assert all(0.3 <= labelled(dataset, client) <= 0.7 for client in HOSPITALS)
    assert all(labelled(scenario(folders, 1), client) < 0.3 for client in HOSPITALS)


def test_labels_at_the_server_only(folders: Path) -> None:
    dataset = scenario(folders, 2)
    assert dataset.clients == (*HOSPITALS, SERVER)
    assert [labelled(dataset, client) for client in dataset.clients] == [0] * 10 + [1]
    sizes = [len(dataset.examples(SERVER, split)) for split in SPLITS]
    assert sizes[2:] == [0, 0]
    assert abs(sum(sizes) - 30.8) <= 4
    assert abs(sizes[0] - 0.8 * sum(sizes)) <= 1


def test_an_unseen_client(folders: Path) -> None:
    dataset = scenario(folders, 3)
    assert dataset.clients == (*HOSPITALS, "isic2020")
    assert dataset.unseen == ("isic2020",)
    assert sorted(dataset.examples("isic2020", "test").labels.tolist()) == [0] * 10 + [1] * 2
    assert [len(dataset.examples("isic2020", split)) for split in SPLITS] == [0, 0, 0, 12]


def test_few_labelled_clients(folders: Path) -> None:
    dataset = scenario(folders, 4)
    assert dataset.clients == HOSPITALS
    assert [client for client in HOSPITALS if labelled(dataset, client) == 1] == ["isic-1", "pad"]
    assert sum(labelled(dataset, client) for client in HOSPITALS) == 2
