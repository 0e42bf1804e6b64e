"""Every built-in job loads, says where it comes from, is documented, and runs."""

import re
import runpy
import tomllib
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import training.jobs.recipes
from training.jobs.job import Job, read_job
from training.jobs.job_file import read_plain
from training.jobs.recipes import BASES, FOLDER, read_recipes, recipe_path, recipe_paths
from training.models import ModelConfig, build_model
from training.models.cases import Network
from training.models.encoder_files import prepare_torchvision

DOCUMENT = Path(training.jobs.recipes.__file__).parents[2] / "docs" / "recipes.md"
SMALL_FORMS = ("ham10000", "milk10k", "ten-hospitals")
# Recipes with a small form, by where that is.
ON_HAM10000 = (
    *(
        "random-init",
        "random-init@vit",
        "local-cl",
        "fedrotation",
        "fedsimclr",
        "fedmoco",
        "fedclf@fe",
        "fedclf",
    ),
    *("fedbyol", "fedema", "fedmocov3", "fed-mae", "fed-beit", "fedmae", "fedmae@all", "fedmae@no-decoder"),
    *("fedmae@no-patch-projection", "fedmae@no-decoder-projection"),
)
ON_MILK10K = (
    *("fedavg", "fedequal", "q-ffl@q0", "q-ffl", "q-ffl@q5", "fedloss", "fedexp", "fedauto", "afl"),
    *("fedexp@m2", "fedexp@m3", "fedexp@m4", "fedauto@m2", "fedauto@m4"),
)


def documented() -> list[str]:
    """The recipes that the document's tables name."""
    rows = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    return [cell.strip().strip("`") for row in rows for cell in row.split(",")]


def whole_form(name: str) -> str:
    """The paper's form of a small form."""
    return "@".join(part for part in name.split("@") if part not in SMALL_FORMS)


def in_folder(folder: str) -> list[str]:
    """The recipes whose files are in one of the folders."""
    return [name for name in NAMES if PATHS[name].parent.name == folder]


PAPERS = [name for name in documented() if recipe_path(name).parent.name == "semi-supervised"]
NAMES = sorted(
    {
        *(recipe.name for recipe in read_recipes()),
        *documented(),
        *(f"{name}@ham10000" for name in ON_HAM10000),
        *(f"{name}@milk10k" for name in ON_MILK10K),
        *(f"{name}@ten-hospitals" for name in PAPERS),
    }
)
PATHS = {name: recipe_path(name) for name in NAMES}
PLAIN = {name: read_plain(path) for name, path in PATHS.items()}
SSL, FAIR = in_folder("semi-supervised"), in_folder("fairness")
# A fair recipe goes to the end as its small form does, `fedauto@milk10k`.
EXPORTING = [name for name in NAMES if {"stage": "export"} in PLAIN[name]["stages"] and name not in FAIR]
# Of those that extend others, a few whose parts and data differ most; the others are read and planned below.
TRAINED = [name for name in NAMES if name not in SSL + FAIR] + [
    *("afl", "fedauto@personalized", "fedavg", "fedequal", "fedexp", "fedloss", "q-ffl@q0", "q-ffl@q5"),
    *("milk10k-group-dro", "fedauto@milk10k"),
    *(f"fedauto@{strategy}@milk10k" for strategy in ("adapters", "ditto", "head", "none", "norm")),
]
TRAINED += [
    f"{name}@ten-hospitals"
    for name in (
        "fedperl@gated-validation-85",
        "fedperl@unseen",
        "ssfl@labels-at-server",
        "semi-fl",
        "fedirm",
        "local@fixmatch",
    )
]
PARTS = ("objective", "aggregator", "exchange", "sync", "strategy")


def parts_of(name):
    """What a recipe is made of: pairs of stages, the parts of each, and the kind of its encoder."""
    stages, model = PLAIN[name]["stages"], PLAIN[name]["model"]
    parts = {
        (stage["stage"], part, (stage.get(part) or {}).get("name")) for stage in stages for part in PARTS
    }
    pairs = {(one["stage"], other["stage"]) for one, other in pairwise(stages)}
    return {*parts, *pairs, ("encoders" in model, model.get("name", "").startswith("vit"))}


def first_of_their_parts():
    """Recipes that have a part which none before has; the others are trained on request."""
    seen = set()
    for name in TRAINED:
        if not parts_of(name) <= seen:
            seen |= parts_of(name)
            yield name


FIRST = list(first_of_their_parts())
TONES = {"scale": "fitzpatrick", "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}}
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
TRAINING = ("pretrain", "finetune", "federate", "personalize")


SMALL_FILE = "small.safetensors"
SMALL_VIT = {"img_size": 16, "patch_size": 8, "depth": 1, "embed_dim": 16, "num_heads": 2}
# Of a ViT's options, those that say how it works rather than how large it is.
KINDS = ("class_token", "fc_norm", "global_pool")
# Sizes of whatever an objective brings; a recipe that names one gets this instead.
SMALL = {
    "batch_size": 16,
    "decoder_depth": 1,
    "decoder_heads": 2,
    "decoder_width": 16,
    "hidden": 16,
    "queue": 16,
    "samples": 16,
}


def shrunk(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same combination of parts on 80 drawn pictures and a very small model, for one round."""
    data = recipe["data"]
    if "sources" in data:
        return shrunk_otherwise(recipe, small_sources(data))
    rule = data.get("clients", {})
    by_subgroup = rule.get("by") == "subgroup"
    cases = {key: data[key] for key in ("unit", "cases") if key in data}
    small = {
        **cases,
        "adapter": "synthetic",
        "options": {"pictures": 80, "size": 32, "seed": 1},
        "label_map": "malignancy",
        "image_size": 16,
        "subgroups": TONES if "scale" in (data.get("subgroups") or {}) else None,
        "clients": {"by": "subgroup"} if by_subgroup else {"by": "iid", "count": 3},
        "split": {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2},
        "label_fraction": max(data.get("label_fraction", 1.0), 0.8),
    }
    return shrunk_otherwise(recipe, small)


def small_sources(data: dict[str, Any]) -> dict[str, Any]:
    """The same sources with as many clients, but of drawn pictures."""
    sources = [
        {
            "name": source["name"],
            "adapter": "synthetic",
            "options": {
                "pictures": 30 * source.get("count", 1),
                "size": 32,
                "seed": seed,
                "prefix": f"{seed}-",
            },
            "count": source.get("count", 1),
            "unseen": source.get("unseen", False),
        }
        for seed, source in enumerate(data["sources"])
    ]
    split = {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2}
    fraction = max(data["label_fraction"], 0.4) if data["label_fraction"] else 0
    return {**data, "sources": sources, "image_size": 16, "split": split, "label_fraction": fraction}


def shrunk_otherwise(recipe: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The recipe on these pictures, small in all else."""
    engine = {name: value for name, value in recipe.get("engine", {}).items() if name != "min_clients"}
    return {
        **recipe,
        "data": data,
        "model": small_model(recipe["model"]),
        "engine": {**engine, "workers": 1},
        "privacy": {"min_count": 1, "counts": {"masks": "encoders" in recipe["model"]}},
        "evaluation": {},
        "stages": [short(stage) for stage in recipe["stages"]],
    }


def small_model(model: dict[str, Any]) -> dict[str, Any]:
    """A model of the same kind, with weights from the same place."""
    if "encoders" in model:
        return {**model, "encoders": [small_encoder(encoder) for encoder in model["encoders"]]}
    weights = model.get("weights", "none")
    if weights.startswith("package:"):
        return model
    if "vit" not in model["name"]:
        return {"name": "resnet18", "weights": weights, "options": {"channels": [4, 8, 16, 32]}}
    kinds = {name: value for name, value in model.get("options", {}).items() if name in KINDS}
    return {"name": "vit_tiny_patch16_224", "weights": weights, "options": {**SMALL_VIT, **kinds}}


def small_encoder(encoder: dict[str, Any]) -> dict[str, Any]:
    """One of several: one of a package as it is, in place of one from the hub a small ViT's file."""
    if not encoder["weights"].startswith("hub:"):
        return {**encoder, "components": 4}
    same = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    small = {**small_model(encoder), "weights": SMALL_FILE, "normalisation": same}
    return {**small, "layers": [0], "components": 4}


def save_small_vit(folder: Path) -> None:
    """The file of a small ViT's weights."""
    prepare_torchvision()
    import timm

    model = timm.create_model("vit_tiny_patch16_224", num_classes=0, **SMALL_VIT)
    save_file(model.state_dict(), folder / SMALL_FILE)


def short(stage: dict[str, Any]) -> dict[str, Any]:
    """The stage with one round of one epoch."""
    changed = dict(stage)
    for name in ("rounds", "epochs"):
        if name in stage:
            changed[name] = 1
    if "objective" in stage:
        changed["objective"] = small_objective(stage["objective"])
    if "epochs" in stage.get("strategy", {}):
        changed["strategy"] = {**stage["strategy"], "epochs": 1}
    return changed


def small_objective(objective: dict[str, Any]) -> dict[str, Any]:
    """The objective with the same settings but those of size."""
    sizes = {name: value for name, value in SMALL.items() if name in objective}
    if "tokenizer" in objective:
        sizes["tokenizer"] = {**objective["tokenizer"], "size": 8, "iterations": 2, "min_members": 2}
    return {**objective, **sizes, "epochs": 1}


def make_documented_weights(folder: Path) -> None:
    """Run what the document says makes a file of weights, on a small model in place of the published one."""
    [code] = [text for text in PYTHON.findall(DOCUMENT.read_text()) if "save_file" in text]
    script = folder / "make_weights.py"
    script.write_text(code)
    prepare_torchvision()
    import timm

    create = timm.create_model

    def create_small(name: str, *, pretrained: bool, num_classes: int) -> Any:
        assert pretrained, "the document must ask for the published weights"
        torch.manual_seed(0)
        model = create("vit_tiny_patch16_224", num_classes=num_classes, **SMALL_VIT)
        save_file(model.state_dict(), folder / "published.safetensors")
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(timm, "create_model", create_small)
        runpy.run_path(str(script))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_loads_says_what_it_is_and_may_be_copied_alone_or_extended(name, tmp_path):
    """From where the pictures are, as the document says; what it extends is found where it is built in."""
    job = read_job(PATHS[name])
    assert job.name == name.replace("@", "-")
    assert job.about is not None
    assert job.about.system
    assert job.about.paper
    assert {name, whole_form(name)} & {*documented()}
    file, *variants = name.split("@")
    (tmp_path / "mine.yaml").write_bytes(recipe_path(file).read_bytes())
    assert read_plain(tmp_path / "@".join(["mine.yaml", *variants])) == PLAIN[name]
    (tmp_path / "ours.yaml").write_text(f"extends: '{name}'")
    assert read_plain(tmp_path / "ours.yaml") == PLAIN[name]


def test_bases_say_what_they_are_have_names_of_their_own_and_are_extended():
    bases = {path.stem: yaml.safe_load(path.read_text()) for path in BASES.iterdir()}
    assert bases
    assert not bases.keys() & set(NAMES)
    files = [yaml.safe_load(path.read_text()) for path in recipe_paths()]
    parts = [part for file in files for part in (file, *file.get("variants", {}).values())]
    assert bases.keys() <= {name for part in parts for name in part.get("extends", [])}
    for name, base in bases.items():
        assert base["base"].endswith("."), name
        assert base.keys() - {"base"} in ({"data", "engine"}, {"model", "stages"}), name


def test_every_file_of_the_recipes_is_installed():
    project = tomllib.loads((DOCUMENT.parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["training"]
    installed = {path for pattern in patterns for path in FOLDER.parent.glob(pattern)}
    assert set(FOLDER.rglob("*.yaml")) <= installed


def test_no_recipe_is_documented_that_is_not_there():
    """In no table, and nowhere else by a name with variants."""
    told = re.findall(r"`([a-z0-9-]+@[a-z0-9@-]+)`", DOCUMENT.read_text())
    assert len(told) > len(NAMES) / 4
    for name in {*documented(), *told}:
        assert read_plain(recipe_path(name))


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FIRST else pytest.mark.long) for name in TRAINED],
)
def test_a_recipe_trains_a_round(name, train_command, job_file, tmp_path):
    recipe = shrunk(PLAIN[name])
    if "encoders" in recipe["model"]:
        save_small_vit(tmp_path)
    recipe["stages"] = [stage for stage in recipe["stages"] if stage["stage"] in TRAINING]
    if recipe["model"].get("weights", "none") != "none":
        make_documented_weights(tmp_path)
    ended = train_command(job_file(recipe), "--out", "run")
    assert ended.code == 0, ended.err
    logged = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    training = [
        stage
        for stage in recipe["stages"]
        if stage.get("strategy") != {"name": "none"} and stage.get("fit") != "converged"
    ]
    assert len(logged) == len(training), "a line for the one round or epoch of every stage"


@pytest.mark.long
@pytest.mark.parametrize("name", EXPORTING)
def test_a_recipe_runs_to_its_bundles(name, train_command, job_file, tmp_path):
    recipe = shrunk(PLAIN[name])
    if "encoders" in recipe["model"]:
        save_small_vit(tmp_path)
    ended = train_command(job_file(recipe), "--out", "run")
    assert ended.code == 0, ended.err
    assert (tmp_path / "run" / "bundles" / "global" / "model.onnx").exists()


def test_the_documented_weights_are_the_published_function(tmp_path):
    make_documented_weights(tmp_path)
    recipe = PLAIN["vit-supervised"]
    model = {**small_model(recipe["model"]), "weights": str(tmp_path / recipe["model"]["weights"])}
    ours = build_model(ModelConfig.model_validate(model), num_classes=2, seed=0).eval()
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    import timm

    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=0, **SMALL_VIT).eval()
    theirs.load_state_dict(load_file(tmp_path / "published.safetensors"))
    known = theirs.pretrained_cfg
    mean, std = (torch.tensor(known[name]).view(3, 1, 1) for name in ("mean", "std"))
    with torch.no_grad():
        patches = theirs.forward_features((images - mean) / std)[:, theirs.num_prefix_tokens :]
        torch.testing.assert_close(ours.embed(images), patches.mean(dim=1), rtol=1e-4, atol=1e-5)


# What the papers print of each stage: epochs of `finetune` and rounds of the others, batch, and rate.
# Rates of Fed-MAE in Table I of Yan et al. are per 256 pictures: 7.5e-4 at 128 is 3.75e-4.
FEDCLF = {"finetune": (20, 256, 1e-4), "federate": (100, 128, 1e-4)}
FEDMAE = {"finetune": (200, 512, 1e-3), "federate": (50, 256, 5e-4)}
TUNED = {"federate": (100, 256, 3e-3)}
PRETRAINED_CLF = {"pretrain": (100, 128, 0.03), **FEDCLF}
PRETRAINED_MAE = {"pretrain": (100, 256, 1.5e-4), **FEDMAE}  # the rounds are section V-A's
PRINTED: dict[str, dict[str, tuple[int, int, float]]] = {
    "random-init": FEDCLF,
    "local-cl": PRETRAINED_CLF,
    "fedrotation": PRETRAINED_CLF,
    "fedsimclr": PRETRAINED_CLF,
    "fedmoco": PRETRAINED_CLF,
    "fedclf@fe": PRETRAINED_CLF,
    "fedclf": PRETRAINED_CLF,
    "random-init@vit": FEDMAE,
    "fedmae": PRETRAINED_MAE,
    "fedmae@all": PRETRAINED_MAE,
    "fedmae@no-decoder": PRETRAINED_MAE,
    "fedmae@no-patch-projection": PRETRAINED_MAE,
    "fedmae@no-decoder-projection": PRETRAINED_MAE,
    "fed-mae": {"pretrain": (1600, 128, 3.75e-4), **TUNED},
    "fed-mae@skin-fl": {"pretrain": (1600, 128, 3.75e-4), **TUNED},
    "fed-beit": {"pretrain": (1000, 128, 3e-3), **TUNED},
    "fed-beit@skin-fl": {"pretrain": (1000, 128, 1.5e-3), **TUNED},
    "fedbyol": {"pretrain": (1000, 384, 5e-4), **TUNED},
    "fedema": {"pretrain": (1000, 384, 5e-4), **TUNED},
    "fedmocov3": {"pretrain": (300, 384, 5e-4), **TUNED},
    "fedmoco@resnet50": {"pretrain": (150, 256, 0.03), **TUNED},
    "vit-scratch": {"federate": (1000, 256, 3e-3)},
    "vit-supervised": TUNED,
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_has_the_numbers_that_its_paper_prints(name):
    found = {}
    for stage in PLAIN[name]["stages"]:
        objective = stage["objective"]
        length = stage.get("rounds") or stage["epochs"]
        found[stage["stage"]] = (length, objective["batch_size"], objective["optimizer"]["lr"])
    assert found == PRINTED[name]


# What the papers print of a method beside that: the masked share, the temperature, the momentum.
OBJECTIVES: dict[str, dict[str, float]] = {
    "fedmae": {"mask_ratio": 0.75},
    "fed-mae": {"mask_ratio": 0.6},
    "fed-mae@skin-fl": {"mask_ratio": 0.6},
    "fed-beit": {"mask_ratio": 0.4},
    "fed-beit@skin-fl": {"mask_ratio": 0.4},
    "fedmae@ham10000": {"mask_ratio": 0.75},
    "fed-mae@ham10000": {"mask_ratio": 0.6},
    "fed-beit@ham10000": {"mask_ratio": 0.4},
    "fedmoco@ham10000": {"temperature": 0.2},
    "fedclf@ham10000": {"temperature": 0.2},
    "fedmocov3": {"temperature": 0.2},
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_recipe_masks_and_contrasts_as_its_paper_does(name):
    objective = PLAIN[name]["stages"][0]["objective"]
    assert {key: objective[key] for key in OBJECTIVES[name]} == OBJECTIVES[name]


def kept_apart(name: str) -> tuple[str, ...]:
    """What does not travel in a recipe's first stage."""
    return tuple(PLAIN[name]["stages"][0].get("sync", {}).get("groups", ()))


@pytest.mark.parametrize("name", [name for name in NAMES if "class_token" in kept_apart(name)])
def test_a_class_token_that_stays_has_no_position_that_travels(name, monkeypatch):
    """A position added to the token gets the token's gradient: half of what it learns would travel."""
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    job = read_job(PATHS[name])
    with torch.device("meta"):
        model = build_model(job.model, num_classes=2, seed=0, image_size=job.data.image_size)
    encoder = model.encoder
    assert encoder.cls_token is not None
    assert encoder.pos_embed.shape[1] == encoder.patch_embed.num_patches


def test_fedprox_is_its_baseline_with_a_proximal_term():
    ours, baseline = deepcopy(PLAIN["fedprox"]), PLAIN["vit-scratch"]
    (stage,) = ours["stages"]
    assert stage["objective"].pop("mu") > 0
    assert {**ours, "about": 0, "name": 0} == {**baseline, "about": 0, "name": 0}


@pytest.mark.parametrize("name", [name for name in NAMES if "mae" in name or "beit" in name])
def test_masked_models_decay_no_norm_and_no_bias(name):
    """As the code of MAE and BEiT does."""
    assert PLAIN[name]["stages"][0]["objective"]["optimizer"]["decay_norms"] is False


@pytest.mark.parametrize("name", ["fedmocov3", "fedmocov3@ham10000"])
def test_moco_v3_projects_the_class_token(name):
    assert PLAIN[name]["model"].get("options", {}).get("global_pool", "token") == "token"


def parameters(job: Job, stage: int) -> int:
    """How many parameters travel in a stage of rounds."""
    with torch.device("meta"):
        model = build_model(job.model, num_classes=2, seed=0, image_size=job.data.image_size)
        heads = job.stages[stage].objective.heads(model)
        network = model if heads is None else Network(model, heads)
    return sum(parameter.numel() for parameter in network.parameters())


def test_models_are_as_large_as_the_paper_says():
    """Yan et al. 2023, section IV-D1: 85.8M when fine-tuning, 111.7M for Fed-MAE and 92M for Fed-BEiT.

    Positions, 0.15M, are learned here and fixed in MAE's code; Fed-BEiT's head is over DALL-E's 8192 tokens.
    """
    tokens = "stages.pretrain.objective.tokenizer.size=8192"
    fed_mae = read_job(PATHS["fed-mae"])
    fed_beit = read_job(PATHS["fed-beit"], [tokens])
    assert parameters(fed_mae, 1) == pytest.approx(85.8e6, abs=0.05e6)
    assert parameters(fed_mae, 0) == pytest.approx(111.7e6 + 0.15e6, abs=0.05e6)
    assert parameters(fed_beit, 0) == pytest.approx(92e6, abs=0.5e6)


# Semi-supervised learning (Bdair et al. 2022, sections 3 to 3.10): recipes that extend others.

# T, peer anonymization, what ranks peers, and the policy with its threshold.
FOUND_BEST = (2, True, "weights", {"name": "static"})
PEERS = {
    "fedmatch": (2, False, "predictions", {"name": "static"}),
    "fedmatch@plus": (2, True, "predictions", {"name": "static"}),
    "fedperl": FOUND_BEST,
    "fedperl@t1": (1, *FOUND_BEST[1:]),
    "fedperl@t3": (3, *FOUND_BEST[1:]),
    "fedperl@t4": (4, *FOUND_BEST[1:]),
    "fedperl@t5": (5, *FOUND_BEST[1:]),
    "fedperl@no-pa@t1": (1, False, *FOUND_BEST[2:]),
    "fedperl@no-pa": (2, False, *FOUND_BEST[2:]),
    "fedperl@no-pa@t3": (3, False, *FOUND_BEST[2:]),
    "fedperl@no-pa@t4": (4, False, *FOUND_BEST[2:]),
    "fedperl@no-pa@t5": (5, False, *FOUND_BEST[2:]),
    "fedperl@random-peers": (2, True, "random", {"name": "static"}),
    "fedperl@validation": (*FOUND_BEST[:3], {"name": "validation"}),
    "fedperl@gated-validation-75": (*FOUND_BEST[:3], {"name": "gated-validation", "threshold": 0.75}),
    "fedperl@gated-validation-85": (*FOUND_BEST[:3], {"name": "gated-validation", "threshold": 0.85}),
    "fedperl@gated-validation-95": (*FOUND_BEST[:3], {"name": "gated-validation", "threshold": 0.95}),
    "fedperl@gated-similarity-75": (*FOUND_BEST[:3], {"name": "gated-similarity", "threshold": 0.75}),
    "fedperl@gated-similarity-85": (*FOUND_BEST[:3], {"name": "gated-similarity", "threshold": 0.85}),
    "fedperl@gated-similarity-95": (*FOUND_BEST[:3], {"name": "gated-similarity", "threshold": 0.95}),
    "fedperl@labels-at-server": FOUND_BEST,
    "fedperl@unseen": FOUND_BEST,
    "fedperl@few-labelled": FOUND_BEST,
}
# Of each stage: its rounds or epochs, what it minimises, and τ where that has one.
FEDERATED = [(500, "fixmatch", 0.6)]
STAGES = {
    "local": [(150, "supervised", None)],
    "local@upper": [(150, "supervised", None)],
    "local@fixmatch": [(150, "fixmatch", 0.9)],
    "fedavg-labelled": [(500, "supervised", None)],
    "fedavg-labelled@upper": [(500, "supervised", None)],
    "fedavg-labelled@few-labelled": [(500, "supervised", None)],
    "fedirm": [(20, "supervised", None), (480, "fedirm", None)],
    "semi-fl": [(400, "supervised", None), (400, "fixmatch", 0.0)],
}


@pytest.mark.parametrize("name", PAPERS)
def test_a_semi_supervised_recipe_has_the_numbers_that_its_paper_prints(name):
    job = read_job(PATHS[name])
    local = name.startswith("local")
    found = [
        (
            stage.epochs if local else stage.rounds,
            stage.objective.name,
            getattr(stage.objective, "threshold", None),
        )
        for stage in job.stages
    ]
    assert found == STAGES.get(name, FEDERATED)
    for stage in job.stages:
        assert stage.stage == ("finetune" if local else "federate")
        assert (stage.objective.epochs, stage.objective.batch_size) == (1, 16)
        assert (stage.objective.optimizer.name, stage.objective.optimizer.lr) == ("adam", 5e-5)
        assert stage.objective.class_weights == "inverse-frequency"
        assert stage.objective.augment.flip
        assert stage.objective.augment.rotation
        if not local and name != "semi-fl":
            assert (stage.participation, stage.aggregator.name) == (0.3, "fedequal")
    assert local or job.stages[-1].keep == "best"
    assert (job.model.name, job.data.image_size) == ("efficientnet_b0", 224)
    exchange = job.resolved()["stages"][-1].get("exchange", {"name": "none"})
    if name not in PEERS:
        assert exchange["name"] == ("relations" if name == "fedirm" else "none")
        return
    found = (exchange["peers"], exchange["anonymous"], exchange["choice"]["name"], exchange["policy"])
    assert (exchange["name"], found, exchange["warm_up"]) == ("peers", PEERS[name], 10)
    assert (job.stages[-1].objective.beta, job.stages[-1].objective.gamma) == (0.5, 0.01)


@pytest.mark.parametrize("name", [name for name in SSL if "labelled_clients" in PLAIN[name]["data"]])
def test_labelled_clients_are_the_papers_second_and_tenth(name):
    data = read_job(PATHS[name]).data
    clients = [client for source in data.sources if not source.unseen for client in source.clients]
    assert data.labelled_clients == (clients[1], clients[9])


# Fairness (Xu et al. 2023, section V): aggregators of Tables II and III, and of AFL, which is in neither.
AGGREGATORS: dict[str, dict[str, Any]] = {
    "fedavg": {"name": "fedavg"},
    "fedequal": {"name": "fedequal"},
    "q-ffl@q0": {"name": "q-ffl", "q": 0},
    "q-ffl": {"name": "q-ffl", "q": 1, "lipschitz": 0.001},
    "q-ffl@q5": {"name": "q-ffl", "q": 5, "lipschitz": 0.001},
    "fedloss": {"name": "fedloss"},
    "fedexp": {"name": "fedexp", "m": 1},
    "fedauto": {"name": "fedauto", "loss_ratio": 3 / 2, "max_scale": 3},
    "fedexp@m2": {"name": "fedexp", "m": 2},
    "fedexp@m3": {"name": "fedexp", "m": 3},
    "fedexp@m4": {"name": "fedexp", "m": 4},
    "fedauto@m2": {"name": "fedauto", "loss_ratio": 3 / 2, "max_scale": 2},
    "fedauto@m4": {"name": "fedauto", "loss_ratio": 3 / 2, "max_scale": 4},
    "afl": {"name": "afl", "step_size": 0.1},
}
# Epochs of post-FL in Tables IV and V.
POST_FL = {
    "fedavg@personalized": 100,
    "q-ffl@q0@personalized": 100,
    "q-ffl@personalized": 100,
    "q-ffl@q5@personalized": 100,
    "fedloss@personalized": 100,
    "fedauto@personalized": 100,
    "fedauto@personalized@longer": 200,
}


def row_of(name: str) -> str:
    """The aggregator's row that a recipe is of."""
    return name.removesuffix("@longer").removesuffix("@personalized")


@pytest.mark.parametrize("name", sorted({*AGGREGATORS, *POST_FL}))
def test_a_fair_recipe_has_the_numbers_that_its_paper_prints(name):
    job = read_job(PATHS[name])
    federate, *after = job.resolved()["stages"]
    objective = federate["objective"]
    assert (federate["stage"], federate["rounds"], federate["participation"]) == ("federate", 100, 1.0)
    assert (objective["name"], objective["epochs"], objective["batch_size"]) == ("supervised", 5, 128)
    assert (objective["optimizer"]["name"], objective["optimizer"]["lr"]) == ("adam", 1e-4)
    assert (objective["schedule"]["name"], objective["sampling"]) == ("cosine", "class-balanced")
    augment = objective["augment"]
    assert (augment["flip"], augment["auto"]) == (True, "imagenet")
    assert augment["rotation"] > 0 < augment["scale"]
    expected = AGGREGATORS[row_of(name)]
    assert {key: federate["aggregator"][key] for key in expected} == expected
    assert (job.model.name, job.data.image_size, job.data.label_fraction) == ("vgg11", 128, 1.0)
    data = PLAIN[name]["data"]
    assert (data["adapter"], data["options"]) == ("fitzpatrick17k", {"labels": "nine_partition_label"})
    assert data["split"] == {"train": 0.6, "validation": 0.2, "calibration": 0.0, "test": 0.2}
    assert data["clients"] == {"by": "subgroup"}
    assert list(data["subgroups"]["groups"].values()) == [[str(tone)] for tone in range(1, 7)]
    assert PLAIN[name]["engine"]["min_clients"] == 6
    if name not in POST_FL:
        assert after == []
        return
    [personalize] = after
    strategy, selection = personalize["strategy"], personalize["selection"]
    assert (personalize["stage"], strategy["name"], strategy["epochs"]) == (
        "personalize",
        "finetune",
        POST_FL[name],
    )
    # "The post-FL stage has the same parameters as the in-FL stage."
    assert strategy["objective"] == {**objective, "epochs": 1}
    assert (selection["band"], selection["rule"]) == (0.05, "paper")
