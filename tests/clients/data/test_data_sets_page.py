"""The data blocks and commands of docs/data-sets.md, run on tables of a few lines."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from training.data.settings import DataConfig

PAGE = (Path(__file__).parents[3] / "docs" / "data-sets.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n### ")[1:]}


def fenced(section: str, kind: str) -> list[str]:
    """The blocks of one kind in the section whose heading starts with `section`."""
    text = next(part for heading, part in SECTIONS.items() if heading.startswith(section))
    return [block.split("\n```")[0] for block in text.split(f"\n```{kind}\n")[1:]]


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Draw pictures into a folder beside the job."""
    monkeypatch.setenv("PICTURES", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    drawn = iter(range(256))

    def draw(folder: str, names: list[str]) -> Path:
        for name in names:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (next(drawn), 90, 40)).save(path)
        return tmp_path / folder

    return draw


def prepared(section: str, tmp_path: Path, **changed: object) -> PreparedDataset:
    """The dataset of a section's data block, with small pictures."""
    block = yaml.safe_load(fenced(section, "yaml")[0])["data"]
    config = DataConfig.model_validate({**block, "image_size": 8, **changed})
    return prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")


def run_commands(section: str) -> None:
    for line in fenced(section, "")[0].splitlines():
        answered = CliRunner().invoke(app, shlex.split(line)[1:])
        assert answered.exit_code == 0, (line, answered.stderr)


@pytest.mark.parametrize("heading", [heading for heading in SECTIONS if "\n```yaml" in SECTIONS[heading]])
def test_every_data_block_is_one(heading):
    for block in fenced(heading, "yaml"):
        assert DataConfig.model_validate(yaml.safe_load(block)["data"])


def test_the_four_scenarios_of_fedperl_are_data_blocks():
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    section = page.split("\n## The four scenarios")[1].split("\n## ")[0]
    first = yaml.safe_load(section.split("\n```yaml\n")[1].split("\n```")[0])["data"]
    unseen = {"name": "isic2020", "adapter": "isic2020", "folder": "${PICTURES}/isic2020", "unseen": True}
    others = (
        {},
        {"server": {"share": 0.1, "train": 0.8}, "label_fraction": 0},
        {"labelled_clients": ["isic-1", "pad"], "label_fraction": 1},
        {"sources": [*first["sources"], unseen]},
    )
    for other in others:
        assert all(f"`{key}: " in section or key == "sources" for key in other)
        assert DataConfig.model_validate({**first, **other})


def test_ddi(tmp_path, pictures):
    folder = pictures("ddi", ["000001.png", "000002.png", "000003.png"])
    (folder / "ddi_metadata.csv").write_text(
        ",DDI_ID,DDI_file,skin_tone,malignant,disease\n"
        "0,1,000001.png,56,True,melanoma-in-situ\n"
        "1,2,000002.png,12,False,nevus\n"
        "2,3,000003.png,34,False,verruca-vulgaris\n"
    )
    dataset = prepared("Diverse Dermatology", tmp_path)
    assert [label.code for label in dataset.labels] == ["benign", "malignant"]
    assert dataset.clients == ("light", "medium", "dark")


def isic2019(pictures: Callable[..., Path], count: int) -> Path:
    """`count` pictures of eight classes, the first two of HAM10000; FLamby does not use the second."""
    classes = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK")
    names = [f"ISIC_{number:07d}" for number in range(count)]
    folder = pictures("isic2019", [f"{name}.jpg" for name in names])
    metadata = [f"{name},,,{'HAM' if i < 2 else 'BCN'}_{i},\n" for i, name in enumerate(names)]
    header = "image,age_approx,anatom_site_general,lesion_id,sex\n"
    (folder / "ISIC_2019_Training_Metadata.csv").write_text(header + "".join(metadata))
    truth = [f"{name},{','.join(str(int(i % 8 == k)) for k in range(9))}\n" for i, name in enumerate(names)]
    (folder / "ISIC_2019_Training_GroundTruth.csv").write_text(
        f"image,{','.join(classes)}\n" + "".join(truth)
    )
    flamby = [f"{name},{i % 6},train\n" for i, name in enumerate(names) if i != 1]
    (folder / "train_test_split.csv").write_text("image,center,fold\n" + "".join(flamby))
    return folder


def test_skin_fl(tmp_path, pictures):
    isic2019(pictures, 32)
    folder = pictures("ham10000", [f"ISIC_{number:07d}.jpg" for number in (0, 1, *range(100, 107))])
    lines = [f"HAM_{path.stem},{path.stem},akiec,\n" for path in sorted(folder.iterdir())]
    (folder / "HAM10000_metadata.csv").write_text("lesion_id,image_id,dx,localization\n" + "".join(lines))
    folder = pictures("derm7pt", ["a.jpg", "b.jpg", "c.jpg"])
    diagnoses = "case_num,diagnosis,derm\n1,lentigo,a.jpg\n2,blue nevus,b.jpg\n3,melanoma,c.jpg\n"
    (folder / "meta.csv").write_text(diagnoses)
    folder = pictures("pad-ufes-20", ["PAT_1_1_1.png", "PAT_2_1_2.png"])
    (folder / "metadata.csv").write_text(
        "img_id,patient_id,lesion_id,diagnostic,fitspatrick\n"
        "PAT_1_1_1.png,PAT_1,1,ACK,2\nPAT_2_1_2.png,PAT_2,1,SEK,\n"
    )
    run_commands("Skin-FL")
    dataset = prepared("Skin-FL", tmp_path)
    assert len(dataset.clients) == 10
    assert [label.code for label in dataset.labels] == [
        "AK", "BCC", "BKL", "DF", "MEL", "NV", "SCC", "VASC",
    ]  # fmt: skip
    assert dataset.report.pictures == 30 + 9 + 2 + 2
    assert dataset.report.left_out.label_map == 1


def test_ten_devices(tmp_path, pictures):
    isic2019(pictures, 160)
    for atlas in ("atlasderm", "dermnet", "darkderm"):
        pictures(atlas, ["MEL/a.png", "NV/a1.png", "SCC/b.png"])
    run_commands("Ten devices")
    dataset = prepared("Ten devices", tmp_path)
    assert len(dataset.clients) == 10
    assert [label.code for label in dataset.labels] == ["BCC", "DF", "MEL", "NV", "SCC"]


def test_ten_clients_and_six_hospitals_of_isic2019(tmp_path, pictures):
    isic2019(pictures, 120)
    ten = prepared("Ten clients", tmp_path)
    assert len(ten.clients) == 10
    six = prepared("Six hospitals", tmp_path)
    assert six.clients == ("0", "1", "2", "3", "4", "5")
    assert six.report.left_out.where == 1
