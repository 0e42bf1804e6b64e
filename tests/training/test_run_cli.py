"""`dermfed-train`, as people and programs call it."""

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

import training.printing
import training.run
from clients.federation.kit import read_federation
from clients.federation.provision import provision
from tests.measured import of_kind
from training.jobs.disclosure_report import Seen, disclosures, over_network
from training.jobs.job import Job, read_job
from training.jobs.recipes import BASES, FOLDER, GROUPS

ROOT = Path(training.run.__file__).parents[1]


def flat(text: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_the_schema_knows_every_block_and_part(train_command):
    schema = json.loads(train_command("--schema").out)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(Job.model_fields)
    assert {"name", "data", "model", "stages"} <= set(schema["required"])
    text = json.dumps(schema)
    for part in ("fedauto", "supervised", "finetune", "federate", "personalize", "export", "calibrate"):
        assert f'"{part}"' in text
    unresolved = set(re.findall(r'"#/\$defs/([^"]+)"', text)) - set(schema["$defs"])
    assert not unresolved, "every reference of a JSON Schema leads somewhere"


def test_recipes_are_listed_with_their_papers_by_group_each_before_its_variants(train_command):
    listed = json.loads(train_command("--recipes", "--json").out)
    there = {path.stem for path in FOLDER.rglob("*.yaml")}
    assert {row["name"].partition("@")[0] for row in listed} == there - {
        path.stem for path in BASES.iterdir()
    }
    text = train_command("--recipes").out
    shown = flat(text)
    for row in listed:
        assert Path(row["path"]).is_file()
        assert row["paper"]
        assert row["system"]
        assert flat(row["note"]) in shown
    rows, told = {row["name"]: row for row in listed}, text.splitlines()
    heads = [told.index(title) for title in GROUPS.values()]
    assert heads == sorted(heads)
    for group, start, end in zip(GROUPS, heads, [*heads[1:], len(told)], strict=True):
        listed = [cell for cell in told[start:end] if cell in rows]
        assert listed == [name for name, row in rows.items() if row["group"] == group]
    systems = [name.partition("@")[0] for name in rows]
    assert systems == sorted(systems)
    assert all(
        list(rows).index(system) <= list(rows).index(name) for system, name in zip(systems, rows, strict=True)
    )
    assert "fedperl@t3" in rows
    assert rows["fedperl"]["also"] == ["ten-hospitals", "few-labelled", "labels-at-server"]


@pytest.mark.usefixtures("without_report")
def test_a_job_is_named_with_its_variants_by_its_file_and_a_built_in_one_by_its_name(
    train_command, tiny, tmp_path, monkeypatch
):
    changes = {"stages.federate.rounds": 1, "seed": 5}
    job = {**tiny, "variants": {"small": {"changes": changes}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(job))
    assert train_command("mine.yaml@small", "--out", "run").code == 0
    resolved = yaml.safe_load((tmp_path / "run" / "job.resolved.yaml").read_text())
    assert (resolved["name"], resolved["seed"]) == (f"{tiny['name']}-small", 5)
    assert "variants" not in resolved
    monkeypatch.setenv("DERMFED_DATA", str(tmp_path))
    for built_in in ("fedperl@t3@ten-hospitals", "isic2019-ten-clients"):
        ended = train_command("--check", built_in)
        assert ended.code == 2
        assert ("milk10k" if "fedperl" in built_in else "is no job but a base") in ended.err
    ended = train_command("--check", "fedmatch@pluss")
    assert "fedmatch.yaml has no variant `pluss`; did you mean `plus`? valid: ten-hospitals, " in ended.err


@pytest.mark.usefixtures("without_report")
def test_finished_runs_are_compared(train_command, job_file, tiny, tmp_path):
    job = job_file(tiny)
    for name in ("one", "two"):
        assert train_command(job, "--out", tmp_path / name, "--set", f"seed={len(name)}").code == 0
    compared = ("--compare", tmp_path / "one", "--compare", tmp_path / "two")
    told = json.loads(train_command(*compared, "--json").out)
    assert json.dumps(told).count(str(tmp_path / "two")) >= 1
    assert "RI" in train_command(*compared, "--cost-over", tmp_path / "one").out
    missing = train_command("--compare", tmp_path / "none")
    assert missing.code == 2
    assert "none" in missing.err


def test_check_counts_pictures_and_leaves_nothing(train_command, job_file, tiny, tmp_path):
    job = job_file(tiny)
    ended = train_command("--check", job, "--json")
    assert ended.code == 0
    rows = json.loads(ended.out)
    assert sum(row["n"] for row in rows) == 80
    assert {row["client"] for row in rows} == {"light", "dark"}
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["job.yaml"]
    assert "malignant" in train_command("--check", job).out


@pytest.mark.parametrize("more", [["--check"], ["--out", "run"]])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_key_that_cannot_sign_is_told_before_anything_is_trained(
    train_command, job_file, tiny, tmp_path, monkeypatch, more, by
):
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    (tmp_path / "no.key").write_text("no key")
    if by == "environment":
        monkeypatch.setenv("DERMFED_SIGNING_KEY", str(tmp_path / "no.key"))
    named = ["--key", tmp_path / "no.key"] if by == "option" else []
    ended = train_command(job_file(tiny), *more, *named)
    assert ended.code == 2
    assert "the figures of this run cannot be signed" in ended.err
    assert "no.key holds no private key in PEM" in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--engine", "nvflare", "--key", "my.key"),
            "over a federation the coordinator measures and signs: set DERMFED_SIGNING_KEY there",
        ),
        (("--without", "east"), "--without dismisses a hospital of a federation; it needs --engine nvflare"),
    ],
)
def test_what_is_of_a_federation_or_of_one_machine_alone_is_refused_elsewhere(
    train_command, job_file, tiny, options, told
):
    ended = train_command(job_file(tiny), *options)
    assert ended.code == 2
    assert told in ended.err


def test_check_of_a_federation_needs_no_pictures(train_command, job_file, tiny, tmp_path):
    """They are at the hospitals; who these are says the kit."""
    names = [{"name": name} for name in ("north", "south", "west")]
    federation = {"name": "skin", "coordinator": {"host": "localhost"}, "hospitals": names}
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(federation))
    provision(read_federation(tmp_path / "federation.yaml"), tmp_path, tmp_path / "kits")
    tiny["data"] = {**tiny["data"], "clients": {"by": "manifest"}, "manifest": ["elsewhere.csv"]}
    for key in ("adapter", "options"):
        del tiny["data"][key]
    job, kit = job_file(tiny), ("--kit", tmp_path / "kits" / "admin")
    told = json.loads(train_command("--check", job, *kit, "--json").out)
    assert told["hospitals"] == ["north", "south", "west"]
    expected = disclosures(over_network(read_job(job)), told["hospitals"])
    assert [Seen(**row) for row in told["seen"]] == list(expected)
    said = train_command("--check", job, *kit).out
    assert "3 hospitals: north, south, west" in said
    assert "under masks over 3" in flat(said)
    assert train_command("--check", job, "--kit", tmp_path / "kits" / "north").code == 2


@pytest.mark.usefixtures("without_report")
def test_json_is_the_summary_and_progress_stays_out_of_it(train_command, job_file, tiny, tmp_path):
    ended = train_command(job_file(tiny), "--out", "run", "--json")
    assert ended.code == 0
    summary = json.loads(ended.out)
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["job"] == "tiny"
    assert summary["seed"] == 3
    assert [stage["name"] for stage in summary["stages"]] == ["federate"]
    assert set(summary["test"]["by_subgroup"]) == {"light", "dark"}
    begins = [line for line in ended.err.splitlines() if line.startswith("stage ")]
    stages = [stage["name"] for stage in json.loads(ended.out)["stages"]]
    assert begins[0].startswith(f"stage 1 of {len(stages)}: federate, 2 rounds, ")
    assert [line.split()[4].rstrip(",") for line in begins] == stages
    assert " left" in next(line for line in ended.err.splitlines() if line.startswith("0-federate 1/2"))
    assert "0-federate 1/2" in ended.err
    assert "0-federate 2/2" in ended.err


def test_a_run_says_where_everything_is_and_resolves_the_job(train_command, job_file, tiny, tmp_path):
    ended = train_command(job_file(tiny), "--set", "stages.federate.rounds=1", "--set", "seed=11")
    assert ended.code == 0
    assert "report: runs/tiny/report.html" in ended.out
    assert "summary: runs/tiny/summary.json" in ended.out
    out = tmp_path / "runs" / "tiny"
    resolved = yaml.safe_load((out / "job.resolved.yaml").read_text())
    assert resolved["seed"] == 11
    assert resolved["stages"][0]["rounds"] == 1
    assert Job.model_validate(resolved).digest == json.loads((out / "summary.json").read_text())["digest"]
    for figure in ("sensitivity", "specificity", "AUROC", "malignant", "other"):
        assert figure in ended.out
    report = (out / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["']https?:""", report), "the report needs no network"


def test_what_went_wrong_is_told_last(capsys, tmp_path):
    dark = {"n": 40, "n_malignant": 0, "n_other": 40, "malignant_specificity": 0.75, "balanced_accuracy": 0.6,
            "intervals": {"malignant_specificity": [0.58, 0.88]}}  # fmt: skip
    test = {**dark, "by_subgroup": {"[red]dark": dark}}
    summary = {"test": test, "stages": [], "versions": [],
               "findings": [{"text": "[red]dark: nobody is answered."}, {"text": "x " * 100}]}  # fmt: skip
    training.printing.print_summary(summary, tmp_path, as_json=False)
    *_, before, first, last = capsys.readouterr().out.splitlines()
    assert before.startswith("summary: ")
    assert first == "! [red]dark: nobody is answered."
    assert last == "! " + "x " * 100


def test_the_table_says_in_words_where_nothing_is_malignant(capsys):
    row = {"n": 9, "n_malignant": 0, "n_other": 9, "malignant_specificity": 0.75, "intervals": {}}
    training.printing.print_patient_figures({**row, "by_subgroup": {"[red]dark": row}})
    said = capsys.readouterr().out
    assert said.replace("\n", "").count("malignant") >= 4
    assert "[red]dark" in said


def test_the_table_has_a_line_for_each_kind_of_malignancy(capsys):
    kinds = {"melanoma": of_kind(28, found=20), "basal": of_kind(80, found=79)}
    rows = {"dark": {"n": 9, "by_kind": {"basal": kinds["basal"]}, "intervals": {}}}
    training.printing.print_patient_figures({"by_kind": kinds, "intervals": {}, "by_subgroup": rows})
    said = " ".join(capsys.readouterr().out.split())
    assert "melanoma 28 0.714" in said
    assert "dark" in said[: said.index("too few")]


def test_a_probe_prints_both_figures_of_the_encoder_with_intervals(train_command, job_file, tiny, tmp_path):
    job = job_file({**tiny, "stages": [{"stage": "probe", "rounds": 1}]})
    ended = train_command(job, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    (stage,) = json.loads((tmp_path / "run" / "summary.json").read_text())["stages"]
    for kind in ("linear", "neighbours"):
        of = stage["facts"][kind]
        for place, figures in {"all": of, **of["by_subgroup"]}.items():
            (line,) = [
                line for line in ended.out.splitlines() if line.startswith(f"│ {kind} ") and place in line
            ]
            low, high = figures["intervals"]["malignancy_auroc"]
            assert f"{figures['malignancy_auroc']:.3f} [{low:.3f}, {high:.3f}]" in line
    assert "What the encoder knows" in (tmp_path / "run" / "report.html").read_text()
    compared = json.loads(train_command("--compare", tmp_path / "run", "--json").out)["runs"]
    assert compared[0]["stage"] == "probe"
    assert compared[0]["over_clients"]["auroc"] == {
        key: stage["facts"]["over_clients"]["auroc"][key] for key in ("mean", "median", "std")
    }


def test_a_run_that_only_pre_trains_ends_well_without_a_report(train_command, job_file, tiny, tmp_path):
    stage = {
        "stage": "pretrain",
        "rounds": 1,
        "objective": {"name": "rotation", "batch_size": 16},
        "aggregator": {"name": "fedavg"},
    }
    ended = train_command(job_file({**tiny, "stages": [stage]}), "--out", "run")
    assert ended.code == 0, ended.err
    assert "report: none, since no stage judged a model on test pictures" in ended.out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["test"] is None


def test_both_commands_are_one_and_warn_of_nothing(quiet_environment, train_command):
    (command,) = entry_points(group="console_scripts", name="dermfed-train")
    assert command.load() is training.run.main
    script = subprocess.run(
        [sys.executable, str(ROOT / "training" / "run.py"), "--recipes", "--json"],
        capture_output=True,
        text=True,
        env=quiet_environment,
        check=False,
    )
    assert (script.returncode, script.stderr) == (0, "")
    assert script.stdout == train_command("--recipes", "--json").out
