"""What identifies a job, now and for whoever comes later; and jobs that extend others.

What needs single clients is refused when the job is read, with the way out.
"""

import re
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from training.errors import CheckpointError, JobError
from training.jobs.job import Job, read_job
from training.jobs.job_file import read_plain, read_variants
from training.jobs.recipes import recipe_path
from training.jobs.run_folder import RunFolder
from training.privacy.settings import CountsConfig

YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
JOB = {
    "name": "identity",
    "seed": 4,
    "data": {"manifest": "a.csv", "image_size": 32, "clients": {"by": "iid", "count": 3}},
    "model": {"name": "resnet18"},
    "stages": [
        {
            "stage": "federate",
            "rounds": 3,
            "objective": {"name": "supervised", "augment": {"rotation": 10}},
            "aggregator": {"name": "fedauto"},
        }
    ],
}


# Jobs that extend others.


@pytest.fixture
def write(tmp_path):
    """Write a file in `tmp_path`; gives its path."""

    def file(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return path

    return file


def whole() -> dict:
    """The job above, with what a recipe says of itself."""
    return {**deepcopy(JOB), "about": {"system": "Base", "paper": "A", "note": "of the base"}}


def test_a_job_is_another_one_with_changed_lines(write):
    write("base.yaml", whole())
    path = write(
        "job.yaml",
        """
        about: {system: Changed, paper: B}
        name: changed
        extends: base.yaml
        changes:
          data.image_size: 64
          stages.federate.rounds: 5
          stages.0.objective.augment.rotation: 20
          stages.0.aggregator: {name: fedexp, m: 2}
        """,
    )
    expected = whole()
    expected["about"] = {"system": "Changed", "paper": "B"}
    expected["name"] = "changed"
    expected["data"]["image_size"] = 64
    expected["stages"][0]["rounds"] = 5
    expected["stages"][0]["objective"]["augment"]["rotation"] = 20
    expected["stages"][0]["aggregator"] = {"name": "fedexp", "m": 2}
    assert read_plain(path) == expected
    assert read_job(path) == Job.model_validate(expected)
    assert read_job(path).digest == Job.model_validate(expected).digest


def test_changes_come_in_their_order_and_set_after_them(write):
    write("base.yaml", whole())
    write("first.yaml", "{name: first, extends: base.yaml, changes: {data.clients.count: 4, seed: 1}}")
    path = write(
        "second.yaml",
        """
        extends: first.yaml
        seed: 2
        changes:
          data.clients: {by: dirichlet, count: 5, alpha: 1.0}
          data.clients.alpha: 0.5
          data.image_size: 48
        """,
    )
    job = read_job(path, ["data.image_size=56", "data.clients.count=6"])
    assert (job.name, job.seed) == ("first", 2)
    assert job.data.clients.model_dump(exclude_none=True) == {"by": "dirichlet", "count": 6, "alpha": 0.5}
    assert job.data.image_size == 56


def test_a_path_after_extends_starts_from_the_file_it_stands_in(write, monkeypatch):
    write("shared/base.yaml", whole())
    write("shared/middle.yaml", {"extends": "base.yaml", "changes": {"data.image_size": 48}})
    path = write("mine/job.yaml", {"extends": "../shared/middle.yaml"})
    monkeypatch.chdir(path.parent)
    assert read_job(Path("job.yaml")).data.image_size == 48


def test_stages_are_replaced_whole_or_added_after_the_last(write):
    write("base.yaml", whole())
    replaced = {"extends": "base.yaml", "changes": {"stages": [{**JOB["stages"][0], "rounds": 9}]}}
    assert [stage.rounds for stage in read_job(write("replaced.yaml", replaced)).stages] == [9]
    added = write("added.yaml", {"extends": "replaced.yaml", "changes": {"stages.1": {"stage": "export"}}})
    assert [stage.stage for stage in read_job(added).stages] == ["federate", "export"]
    assert len(read_job(added, ["stages.2={stage: register}"]).stages) == 3


def test_of_several_others_a_later_block_stands_whole_and_the_file_itself_comes_last(write):
    write("system.yaml", {**whole(), "engine": {"workers": 3, "min_clients": 2}})
    pictures = {"image_size": 64, "manifest": "b.csv", "clients": {"by": "manifest"}}
    write("pictures.yaml", {"base": "Three hospitals.", "data": pictures, "engine": {"min_clients": 3}})
    path = write(
        "job.yaml",
        """
        name: both
        extends: [system.yaml, pictures.yaml]
        changes: {data.image_size: 48}
        """,
    )
    expected = {
        **whole(),
        "name": "both",
        "data": {**pictures, "image_size": 48},
        "engine": {"min_clients": 3},
    }
    assert read_plain(path) == expected
    assert read_job(path).engine.workers == 1, "a block of a later one is not filled from an earlier one's"
    turned = write("turned.yaml", {"extends": ["pictures.yaml", "system.yaml", "pictures2.yaml"]})
    write("pictures2.yaml", {"engine": {"workers": 4}})
    write("system.yaml", {key: value for key, value in whole().items() if key != "data"})
    assert read_plain(turned) == {**whole(), "data": pictures, "engine": {"workers": 4}}


def test_a_built_in_job_is_read_by_its_name_unless_a_file_is_called_so(write, monkeypatch, tmp_path):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    monkeypatch.chdir(tmp_path)
    named, pathed = read_job(Path("fedperl@t3")), read_job(recipe_path("fedperl@t3"))
    assert named.digest == pathed.digest != read_job(recipe_path("fedperl")).digest
    write("fedperl@t3", {"extends": "demo", "name": "mine"})
    assert read_job(Path("fedperl@t3")).name == "mine"


def test_a_bare_name_is_a_file_beside_and_else_a_built_in_one(write):
    path = write("job.yaml", {"name": "mine", "extends": ["fedprox", "pictures.yaml"]})
    write("pictures.yaml", {"data": {"manifest": "mine.csv", "image_size": 32}})
    assert read_job(path).stages[0].objective.mu == 0.001
    assert read_job(path).data.manifest == "mine.csv"
    write("fedprox.yaml", whole())
    assert read_job(path).stages[0].objective.mu == 0
    write("fedprox", {**whole(), "seed": 77})
    assert read_job(path).seed == 77
    own = write("mine/fed-mae.yaml", {"extends": "fed-mae", "changes": {"data.manifest": "of-its-name.csv"}})
    assert read_job(own).data.manifest == "of-its-name.csv"
    with pytest.raises(JobError, match=r"cannot read .*/fedbeit\.yaml, which .*; did you mean `fed-beit`$"):
        read_job(write("other.yaml", {"extends": "fedbeit.yaml"}))


def test_the_documented_examples_of_a_system_on_other_pictures(write):
    jobs, recipes = (Path("docs", name).read_text() for name in ("jobs.md", "recipes.md"))
    [example] = [text for text in YAML.findall(jobs) if "extends: [fedmae, pictures.yaml]" in text]
    write("pictures.yaml", {"data": {"manifest": "here.csv"}, "engine": {"min_clients": 3}})
    job = read_job(write("here.yaml", example))
    assert (job.name, job.stages[0].rounds, job.stages[0].objective.name) == ("fedmae-here", 50, "mae")
    assert (job.data.manifest, job.engine.min_clients) == ("here.csv", 3)

    assert "`extends: [fedclf,\nisic2019-ten-clients]`, with `changes: {model.name: resnet50}`" in recipes
    extends, changes = ["fedclf", "isic2019-ten-clients"], {"model.name": "resnet50"}
    job = read_job(write("cnn.yaml", {"extends": extends, "changes": changes}))
    assert (job.data.adapter, job.model.name, job.stages[0].exchange.name) == (
        *("isic2019", "resnet50", "features"),
    )


def test_a_stage_that_is_not_there_comes_where_the_order_has_it(write):
    base = {**whole(), "stages": [*JOB["stages"], {"stage": "calibrate"}]}
    write("base.yaml", base)
    changes = {"stages.export": {"stage": "export"}, "stages.pretrain": {"stage": "pretrain", "rounds": 2}}
    path = write("job.yaml", {"extends": "base.yaml", "changes": changes})
    elsewhere = read_plain(path, ["stages.toy={stage: toy}", "stages.register={stage: register}"])["stages"]
    assert [stage["stage"] for stage in elsewhere] == [
        *("pretrain", "federate", "export", "calibrate", "register", "toy"),
    ]
    replaced = read_plain(path, ["stages.export={stage: export, odd: 1}"])["stages"]
    assert replaced == [
        {"stage": "pretrain", "rounds": 2},
        JOB["stages"][0],
        {"stage": "export", "odd": 1},
        {"stage": "calibrate"},
    ]


# Variants.


VARIANTS = """
base.yaml:
  variants:
    small: {about: {note: Small.}, changes: {data: {manifest: b.csv, image_size: 16}, model: {name: vgg11}}}
    few: {about: {note: Few.}, changes: {data.label_fraction: 0.5}}
    few@small: {changes: {data.label_fraction: 0.25}}
middle.yaml:
  about: {system: Middle, paper: B}
  name: middle
  extends: base.yaml
  changes: {stages.federate.rounds: 5, data.on_broken: skip}
  variants:
    long: {about: {system: Longer, note: Long.}, changes: {stages.federate.rounds: 50}}
    small: {changes: {data.on_broken: refuse}}
    pictures: {extends: pictures.yaml, changes: {data.image_size: 48}}
pictures.yaml: {base: Pictures of ours., data: {manifest: c.csv}}
"""


@pytest.fixture
def families(write, tmp_path):
    """Files with variants, one of which extends the other; gives their folder."""
    files = yaml.safe_load(VARIANTS)
    write("base.yaml", {**whole(), **files.pop("base.yaml")})
    for name, content in files.items():
        write(name, content)
    return tmp_path


def test_a_variant_is_its_file_with_changed_lines(families):
    expected = {**whole(), "name": "identity-few"}
    expected["data"]["label_fraction"] = 0.5
    expected["about"]["note"] = "Few."
    assert read_plain(families / "base.yaml@few") == expected
    assert read_plain(families / "base.yaml") == whole()


def test_variants_combine_in_the_order_of_the_file_whatever_order_they_are_named_in(families):
    small = {"manifest": "b.csv", "image_size": 16, "label_fraction": 0.25}
    for names in ("few@small", "small@few"):
        found = read_plain(families / f"base.yaml@{names}")
        assert (found["data"], found["model"]) == (small, {"name": "vgg11"})
        assert found["name"] == f"identity-{names.replace('@', '-')}"
        assert found["about"]["note"] == "Small. Few."


def test_a_variant_of_what_a_file_extends_applies_before_what_it_changes(families):
    found = read_plain(families / "middle.yaml@long@few")
    assert found["data"] == {**JOB["data"], "label_fraction": 0.5, "on_broken": "skip"}
    assert found["stages"][0]["rounds"] == 50
    assert found["name"] == "middle-long-few"
    assert found["about"] == {"system": "Longer", "paper": "B", "note": "Few. Long."}
    small = read_plain(families / "middle.yaml@small")
    assert small["data"] == {"manifest": "b.csv", "image_size": 16, "on_broken": "refuse"}
    assert small["stages"][0]["rounds"] == 5
    assert read_variants(families / "middle.yaml") == (["small", "long"], ["few"])


def test_a_variant_may_extend_and_be_extended(families, write):
    assert read_plain(families / "middle.yaml@pictures")["data"] == {"manifest": "c.csv", "image_size": 48}
    own = write("own.yaml", {"extends": "middle.yaml@long", "changes": {"data.image_size": 8}})
    assert read_plain(own)["name"] == "middle-long"
    assert read_plain(own)["stages"][0]["rounds"] == 50
    small = read_plain(families / "own.yaml@small")
    assert small["data"] == {"manifest": "b.csv", "image_size": 8, "on_broken": "refuse"}
    assert small["stages"][0]["rounds"] == 50
    beside = write("beside.yaml", {"extends": ["middle@few", "pictures"]})
    assert read_plain(beside)["data"] == {"manifest": "c.csv"}
    built_in = write("built_in.yaml", {"name": "mine", "extends": "fedperl@t3"})
    assert read_job(families / "built_in.yaml@ten-hospitals").stages[1].exchange.peers == 3
    assert read_job(built_in).data.image_size == 224


def test_a_file_whose_name_has_a_sign_of_variants_is_that_file(families, write):
    path = write("base.yaml@few", {**whole(), "seed": 8})
    assert read_plain(path)["seed"] == 8


def test_the_documented_example_of_variants(write, tmp_path):
    [example] = [text for text in YAML.findall(Path("docs", "jobs.md").read_text()) if "variants:" in text]
    write("ours.yaml", example)
    write("fedmae-here.yaml", {"extends": "fedmae"})
    job = read_job(tmp_path / "ours.yaml@derm@long")
    assert (job.name, job.stages[0].rounds, job.data.manifest) == ("ours-derm-long", 400, "derm.csv")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (
            "middle.yaml@fwe",
            "{folder}/middle.yaml has no variant `fwe`; did you mean `few`? valid: small, few, few@",
        ),
        ("middle.yaml@", "{folder}/middle.yaml has no variant ``; valid: small, few"),
        ("pictures.yaml@few", "{folder}/pictures.yaml is no job but a base"),
        ("plain.yaml@few", "{folder}/plain.yaml has no variant `few`; valid: none"),
        (
            "only.yaml@odd",
            "{folder}/only.yaml has no variant `odd`; valid: even, even@odd",
        ),
        ("twice.yaml@one@two", "{folder}/twice.yaml: `one` and `two` both change seed; name one of them"),
        ("wrong.yaml", "{folder}/wrong.yaml, variants:\n  a: unknown key `chnges`; did you mean `changes`?"),
        (
            "extending.yaml@gone",
            "{folder}/extending.yaml extends `gone`, which is neither a file beside it nor",
        ),
        (
            "extending.yaml@far",
            "{folder}/extending.yaml, variants, far, changes, stages.pretrain.rounds: there is",
        ),
        ("extending.yaml@back", "{folder}/extending.yaml extends {folder}/extending.yaml: a circle"),
        ("asks.yaml", "{folder}/base.yaml has no variant `gone`; valid: small, few, few@small"),
    ],
)
def test_what_is_wrong_with_a_variant_is_named_with_what_is_allowed(families, write, named, told):
    write("plain.yaml", whole())
    write("only.yaml", {**whole(), "variants": {"even": {}, "even@odd": {}}})
    write(
        "twice.yaml",
        {**whole(), "variants": {"one": {"changes": {"seed": 1}}, "two": {"changes": {"seed": 2}}}},
    )
    write("wrong.yaml", {**whole(), "variants": {"a": {"chnges": {}}}})
    far = {"changes": {"stages.pretrain.rounds": 3}}
    variants = {"gone": {"extends": "gone"}, "far": far, "back": {"extends": "extending.yaml"}}
    write("extending.yaml", {**whole(), "variants": variants})
    write("asks.yaml", {"extends": "base.yaml@gone"})
    with pytest.raises(JobError) as refused:
        read_job(families / named)
    assert told.replace("{folder}", str(families)) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{extends: gone.yaml}", "cannot read {folder}/gone.yaml, which {folder}/job.yaml extends: No such"),
        ("{extends: list.yaml}", "{folder}/list.yaml, which {folder}/job.yaml extends, holds no job"),
        (
            "{extends: broken.yaml}",
            "{folder}/broken.yaml, which {folder}/job.yaml extends, cannot be read as YAML",
        ),
        ("{extends: latin.yaml}", "which {folder}/job.yaml extends, is not text in UTF-8"),
        ("{extends: inside.yaml}", "{folder}/inside.yaml, which {folder}/job.yaml extends, holds a value"),
        ("{extends: {file: base.yaml}}", "`extends` is {'file': 'base.yaml'}; it names one other job file"),
        ("{extends: [base.yaml, 3]}", "`extends` is ['base.yaml', 3]; it names one other job file"),
        ("{extends: [base.yaml, ./base.yaml]}", "`extends` names {folder}/base.yaml twice; once is enough"),
        ("{extends: job.yaml}", "{folder}/job.yaml extends {folder}/job.yaml: a circle"),
        ("{extends: [base.yaml, there.yaml]}", "{folder}/back.yaml extends {folder}/job.yaml: a circle"),
        ("{extends: [base.yaml, pictures.yml]}", "did you mean `pictures.yaml`"),
        ("{extends: fed-avg}", "neither a file beside it nor built in; did you mean `fedavg`"),
        (
            "{extends: [pictures.yaml, base.yaml]}",
            "{folder}/job.yaml extends {folder}/pictures.yaml, of which nothing is left: {folder}/base.yaml",
        ),
        ("{base: Pictures of ours., data: {}}", "{folder}/job.yaml is no job but a base that jobs share"),
        ("{extends: unsaid.yaml}", "{folder}/unsaid.yaml: `base` is 3; it says in a line what"),
        (
            "{extends: base.yaml, changes: {stages.pretrain: {stage: finetune}}}",
            "changes, stages.pretrain: there is no `pretrain` there; valid: federate, 0",
        ),
        (
            "{extends: base.yaml, model: {name: vgg11}, stagez: []}",
            "{folder}/job.yaml extends another job, where `model`, `stagez` may not stand",
        ),
        ("{changes: {seed: 3}}", "{folder}/job.yaml has `changes` and nothing that it changes"),
        ("{extends: base.yaml, changes: [seed]}", "`changes` is ['seed']; write it as `key.path: value`"),
        ("{extends: base.yaml, changes: {data..folder: x}}", "changes, data..folder: write it as"),
        (
            "{extends: base.yaml, changes: {data.image_size.x: 3}}",
            "changes, data.image_size.x: there is no `x` there, only the value 32",
        ),
        (
            "{extends: base.yaml, changes: {data.image_sise: 3}}",
            "{folder}/job.yaml:\n  data: unknown key `image_sise`; did you mean `image_size`?",
        ),
    ],
)
def test_what_is_wrong_with_an_extension_is_named_with_what_to_do(write, tmp_path, content, told):
    write("base.yaml", whole())
    write("pictures.yaml", {"data": JOB["data"], "model": JOB["model"]})
    write("unsaid.yaml", {"base": 3, "data": {}})
    write("list.yaml", "- a")
    write("inside.yaml", "data: &data {options: *data}")
    write("broken.yaml", "a: [")
    (tmp_path / "latin.yaml").write_bytes("näme: a".encode("latin-1"))
    write("there.yaml", {"extends": "back.yaml"})
    write("back.yaml", {"extends": "job.yaml"})
    with pytest.raises(JobError) as refused:
        read_job(write("job.yaml", content))
    assert told.replace("{folder}", str(tmp_path)) in str(refused.value)


@pytest.mark.usefixtures("without_report")
def test_a_run_resolves_what_it_extends_and_looks_for_pictures_beside_the_file_that_is_run(
    train_command, tiny, write, tmp_path
):
    write("shared/base.yaml", tiny)
    path = write(
        "mine/job.yaml",
        {"name": "mine", "extends": "../shared/base.yaml", "changes": {"stages.federate.rounds": 1}},
    )
    assert train_command(path, "--out", "run").code == 0
    resolved = yaml.safe_load((tmp_path / "run" / "job.resolved.yaml").read_text())
    assert Job.model_validate(resolved) == Job.model_validate(
        {**tiny, "name": "mine", "stages": [{**tiny["stages"][0], "rounds": 1}]}
    )
    assert train_command(tmp_path / "run" / "job.resolved.yaml", "--out", "run", "--resume").code == 0

    data = {"data.adapter": None, "data.options": {}, "data.manifest": "mine.csv"}
    write("mine/job.yaml", {"extends": "../shared/base.yaml", "changes": data})
    ended = train_command("--check", path)
    assert ended.code == 2
    assert str(tmp_path / "mine" / "mine.csv") in ended.err


MASKS = {"secure_aggregation": {}}


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("fedperl", "the exchange peers needs those of single clients; use the exchange none"),
        ("fedclf", "the exchange features needs those of single clients"),
        ("fedirm", "the exchange relations needs those of single clients"),
        ("local-cl", "stage finetune judges the models of single clients"),
    ],
)
def test_recipes_that_need_single_clients(recipe, reason, monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    with pytest.raises(Exception, match=reason):
        read_job(recipe_path(recipe), ["privacy.secure_aggregation={}"])


def test_models_of_clients(make_job, federate_block):
    personal = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "per": "client"}
    with pytest.raises(ValueError, match="stage personalize judges the models of single clients"):
        make_job(stages=[federate_block(), personal], privacy=MASKS)
    open_counts = {"secure_aggregation": {"counts": False}}
    make_job(stages=[federate_block(), personal], privacy=open_counts)


def test_an_account_without_an_accountant(make_job, monkeypatch):
    monkeypatch.setattr("training.jobs.job.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"not installed here.*dermfed\[privacy\]"):
        make_job(privacy={"client_level": {"clip": 1.0, "noise_multiplier": 1.0}})
    make_job(privacy=MASKS)


NOISE = {"counts": {"epsilon": 1.0}}
CALIBRATED = [{"stage": "export"}, {"stage": "calibrate"}]


def test_what_noise_on_counts_cannot_cover(make_job, federate_block):
    for stages, reason in (
        ([federate_block(), *CALIBRATED], "stage calibrate asks for sums and histograms of calibration and"),
        (
            [
                federate_block(),
                {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "per": "client"},
            ],
            "stage personalize judges the models of single clients, each on its own few",
        ),
        ([federate_block(evaluate_on="train")], "evaluate_on: train counts training pictures"),
    ):
        make_job(stages=stages)
        with pytest.raises(ValueError, match=f"{reason}.*noise"):
            make_job(stages=stages, privacy=NOISE)
    with pytest.raises(ValueError, match=r"evaluation.intersections names .*leave them out, or the noise"):
        make_job(privacy=NOISE, evaluation={"intersections": [{"column": "site"}]})


@pytest.mark.parametrize(
    ("rounds", "evaluations", "evaluated"),
    [(10, 2, {5, 10}), (10, 3, {4, 7, 10}), (3, 4, {1, 2, 3}), (7, 1, {7}), (1, 1, {1})],
)
def test_evaluated_rounds_are_evenly_spaced_and_end_with_the_last(rounds, evaluations, evaluated):
    assert CountsConfig(epsilon=1, evaluations=evaluations).evaluated(rounds) == evaluated
    assert CountsConfig(evaluations=evaluations).evaluated(rounds) == set(range(1, rounds + 1))


CONVERGED = {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}}
FINETUNE = {"name": "finetune", "epochs": 1, "objective": {"name": "supervised"}}


@pytest.mark.parametrize(
    ("stages", "split", "said"),
    [
        ([{"stage": "federate"}], {}, "stage federate trains one model in rounds"),
        ([CONVERGED, {"stage": "personalize", "strategy": FINETUNE}], {}, "stage personalize trains one"),
        ([CONVERGED], {"train": 0.7, "validation": 0, "calibration": 0.1, "test": 0.2}, "calibration is 0.1"),
        ([{"stage": "probe", "rounds": 2}], {}, "needs one stage federate"),
    ],
)
def test_what_is_not_cross_fitted(make_job, federate_block, stages, split, said):
    filled = [federate_block() if each == {"stage": "federate"} else each for each in stages]
    job = {"stages": filled, "model": {"weights": "encoder.safetensors"}}
    with pytest.raises(ValueError, match=said):
        make_job(**job, data={"crossfit": 5, **({"split": split} if split else {})})


def test_with_folds_nothing_is_kept_for_calibration_alone(make_job):
    job = {"stages": [CONVERGED], "model": {"weights": "encoder.safetensors"}}
    shares = make_job(**job, data={"crossfit": 5}).data.split
    assert (shares.train, shares.validation, shares.calibration, shares.test) == (0.8, 0, 0, 0.2)
    assert make_job(**job).data.split.calibration == 0.1


SEVERAL = {"encoders": [{"name": "resnet18", "weights": "x"}, {"name": "resnet34", "weights": "y"}]}


@pytest.mark.parametrize(
    ("stages", "privacy", "reason"),
    [
        ([CONVERGED, {"stage": "export"}], {}, None),
        ([CONVERGED, {"stage": "personalize", "strategy": {"name": "none"}}], {}, None),
        (["rounds"], {}, "stage federate works on one encoder"),
        (["last"], {}, "stage federate works on one encoder"),
        (["rounds on features"], {}, None),
        ([{"stage": "probe", "rounds": 1}, CONVERGED], {}, "stage probe works on one encoder"),
        ([CONVERGED, {"stage": "personalize", "strategy": FINETUNE}], {}, "stage personalize"),
        ([{"stage": "finetune", "epochs": 1, "objective": FINETUNE["objective"]}, CONVERGED], {}, "finetune"),
        (["rounds on features"], {"counts": {"epsilon": 1.0}}, "projected by exact sums of features"),
        (
            ["rounds on features"],
            {"client_level": {"clip": 1.0, "noise_multiplier": 1.0}},
            "projected by exact sums of features",
        ),
    ],
)
def test_several_encoders_stay_as_they_are_and_are_projected_exactly(
    make_job, federate_block, monkeypatch, stages, privacy, reason
):
    monkeypatch.setattr("training.jobs.job.find_spec", lambda name: name)
    in_rounds = {
        "rounds": federate_block(),
        "last": federate_block(trainable={"name": "last_blocks", "blocks": 1}),
        "rounds on features": federate_block(trainable={"name": "head"}),
    }
    stages = [in_rounds.get(each, each) if isinstance(each, str) else each for each in stages]
    one = make_job(stages=stages, model={"weights": "x"}, privacy=privacy)
    plain = {**one.resolved(), "model": SEVERAL}
    if reason is None:
        assert Job.model_validate(plain).model.named == "resnet18 + resnet34"
        return
    with pytest.raises(ValueError, match=reason):
        Job.model_validate(plain)


SHRINK = {"stage": "personalize", "strategy": {"name": "shrink"}}


@pytest.mark.parametrize(
    ("stage", "data", "said"),
    [
        ({**SHRINK, "per": "client"}, {"crossfit": 5}, "fits heads of subgroups, and per is client"),
        (SHRINK, {}, "the job has no folds"),
    ],
)
def test_heads_of_their_own_are_of_subgroups_and_need_folds(make_job, stage, data, said):
    job = {"model": {"weights": "encoder.safetensors"}, "data": data}
    with pytest.raises(ValueError, match=said):
        make_job(stages=[CONVERGED, stage], **job)
    assert make_job(stages=[CONVERGED, SHRINK], **{**job, "data": {"crossfit": 5}})


@pytest.fixture
def begun(tmp_path, make_job):
    """A run's folder with these files under `checkpoints/0-federate`."""

    def build(*left):
        folder = RunFolder(tmp_path / "run")
        folder.claim(make_job(), resume=False)
        for name in left:
            path = folder.checkpoints / "0-federate" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return folder

    return build


def test_what_a_round_left_that_was_never_complete_is_nothing_to_lose(begun, make_job):
    folder = begun("uploads/north/round-000001.safetensors", "best.safetensors")
    folder.claim(make_job(seed=3), resume=False)
    assert not folder.checkpoints.exists()
    assert "seed: 3" in folder.job_file.read_text()


@pytest.mark.parametrize("left", ["round-000001.safetensors", "outcome.safetensors"])
def test_a_round_or_a_stage_that_is_complete_is_kept(begun, make_job, left):
    folder = begun(left)
    with pytest.raises(CheckpointError, match="holds a run already; continue it with --resume"):
        folder.claim(make_job(), resume=False)
    with pytest.raises(CheckpointError, match=r"holds a run of another job: .*seed.* differ"):
        folder.claim(make_job(seed=3), resume=True)
    folder.claim(make_job(), resume=True)
    assert folder.checkpoints.exists()
