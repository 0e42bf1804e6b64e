"""Runs side by side: figures, relative improvement and additional cost by hand."""

import json
from io import StringIO

import pytest
from rich.console import Console

from personalization.report.comparison import compare, comparison_data, comparison_table, read_finished
from training.errors import DataError

FIGURES = ("macro_f1", "macro_precision", "balanced_accuracy", "auroc", "ece", "aurc")


def over(f1, clients=2):
    told = {
        key: {"mean": 0.5, "median": 0.5, "std": 0.25, "interval": None, "clients": clients}
        for key in FIGURES
    }
    return told | {
        "macro_f1": {"mean": f1, "median": f1 - 0.01, "std": 0.05, "interval": None, "clients": clients}
    }


@pytest.fixture
def finished(tmp_path):
    """`finished(name, f1, down)`: the folder of a run whose two rounds sent `down` bytes to each client."""

    def write(name, f1, down=100, *, clients=2, data="sha256:a", stages=None, rounds=2, **keys):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        ids = [f"c{at}" for at in range(clients)]
        facts = {"over_clients": over(f1, clients), "by_client": {client: {"n": 3} for client in ids}}
        summary = {
            "job": "job",
            "recipe": name.upper(),
            "seed": 4,
            "data": data,
            "stages": stages or [{"name": "federate", "facts": facts}, {"name": "export", "facts": {}}],
            **keys,
        }
        (folder / "summary.json").write_text(json.dumps(summary))
        told = {client: {"down": down, "beside": 0, "up": 9} for client in ids}
        told["server"] = {"down": 10_000, "beside": 0, "up": 9}
        line = {"stage": "0-federate", "round": 1, "bytes_by_client": told}
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for _ in range(rounds)))
        return folder

    return write


def test_the_papers_relative_improvements(finished):
    """Table 2: F1 0.647 locally, 0.698 with FedAvg and 0.746 with FedPerl of one peer: 7.88 % and 15.30 %."""
    runs = [finished("local", 0.647), finished("fedavg", 0.698), finished("fedperl", 0.746)]
    improvements = [row.relative_improvement for row in compare(runs).runs]
    assert [round(100 * value, 2) for value in improvements] == [0.0, 7.88, 15.30]


def test_another_baseline_may_be_named(finished):
    runs = [finished("local", 0.4), finished("fedavg", 0.5)]
    told = compare(runs, baseline=runs[1])
    assert told.baseline == "fedavg"
    assert [row.relative_improvement for row in told.runs] == pytest.approx([-0.2, 0.0])


def test_additional_cost_is_over_the_run_named_for_it_without_the_server(finished):
    """Two clients, two rounds: 400 bytes without peers, 1200 with two of them: 200 % more."""
    runs = [finished("local", 0.4, 0), finished("ssfl", 0.5, 100), finished("fedperl", 0.6, 300)]
    told = compare(runs, cost_over=runs[1])
    assert [row.bytes_down for row in told.runs] == [0, 400, 1200]
    assert [row.additional_cost for row in told.runs] == [-1.0, 0.0, 2.0]
    assert [row.additional_cost for row in compare(runs).runs] == [None, None, None]


def test_a_run_that_is_only_compared_with_is_shown_first(finished):
    local, ssfl, fedperl = finished("local", 0.4), finished("ssfl", 0.5), finished("fedperl", 0.6)
    told = compare([fedperl], baseline=local, cost_over=ssfl)
    assert [row.run for row in told.runs] == ["local", "ssfl", "fedperl"]
    assert told.runs[2].relative_improvement == pytest.approx(0.5)


def test_the_last_stage_that_judged_at_clients_is_compared(finished):
    def stage(name, f1):
        return {"name": name, "facts": {"over_clients": over(f1), "by_client": {"a": {}, "b": {}}}}

    folder = finished(
        "two", 0.1, stages=[stage("finetune", 0.3), stage("federate", 0.7), {"name": "calibrate"}]
    )
    run = read_finished(folder)
    assert (run.stage, run.over_clients["macro_f1"]["mean"]) == ("federate", 0.7)


def test_other_data_and_other_numbers_of_clients_and_rounds_are_warnings(finished):
    runs = [finished("a", 0.5), finished("b", 0.5, clients=3, data="sha256:b"), finished("c", 0.5, rounds=5)]
    data, *numbers = compare(runs, cost_over=runs[0]).warnings
    assert data.startswith("Other data than a: b. ")
    assert numbers == [
        "Means over other numbers of clients than in a: b.",
        "AC is over a, and of other numbers of rounds: c.",
    ]
    assert compare([runs[0], runs[2]]).warnings == []


def test_runs_of_one_name_are_told_apart_and_a_run_named_twice_is_one(finished):
    one, other = finished("x/run", 0.5), finished("y/run", 0.6)
    names = [row.run for row in compare([one, other, one]).runs]
    assert names == [str(one.resolve()), str(other.resolve())]


def test_programs_get_what_json_can_hold(finished):
    runs = [finished("local", 0.5), finished("fedavg", 0.6, 250)]
    told = comparison_data(compare(runs, cost_over=runs[0]))
    assert json.loads(json.dumps(told)) == told
    assert (told["baseline"], told["cost_over"], told["warnings"]) == ("local", "local", [])
    second = told["runs"][1]
    assert (second["run"], second["recipe"], second["seed"], second["clients"]) == ("fedavg", "FEDAVG", 4, 2)
    assert second["over_clients"]["macro_f1"] == {"mean": 0.6, "median": 0.59, "std": 0.05}
    assert second["relative_improvement"] == pytest.approx(0.2)
    assert second["additional_cost"] == pytest.approx(1.5)


def printed(comparison):
    out = StringIO()
    Console(width=240, file=out).print(comparison_table(comparison))
    return out.getvalue()


def test_people_get_a_table(finished):
    runs = [finished("local", 0.5), finished("[b]fedavg", 0.6, 500_000, data="sha256:b")]
    text = printed(compare(runs, cost_over=runs[1]))
    lines = [[cell.strip() for cell in line.split("│")] for line in text.splitlines()]
    told = {cells[1]: cells[2:-1] for cells in lines if len(cells) > 3}
    assert "[b]fedavg" in next(line for line in text.splitlines() if "local" in line)
    assert told["recipe"][1] == "[B]FEDAVG"
    assert told["F1"] == ["0.500 (0.490)", "0.600 (0.590)"]
    assert told[""][-1] == "± 0.250"
    assert told["RI %"][1] == "20.00"
    assert told["downloaded"][1] == "2.0\u202fMB"
    assert told["AC %"] == ["−99.98", "0.00"]
    narrow = StringIO()
    Console(width=80, file=narrow).print(comparison_table(compare(runs)))
    assert "0.600 (0.590)" in narrow.getvalue()
    assert "Other data than local: [b]fedavg." in text


def test_what_is_no_finished_run_is_refused(tmp_path, finished):
    good, log = finished("good", 0.5), finished("log", 0.5)
    pre = finished("pre", 0.5, stages=[{"name": "pretrain", "facts": {}}, {"name": "export"}])
    (log / "metrics.jsonl").write_text('{"stage": \n')
    for runs, message in (
        ([], "name the folders of finished runs"),
        ([good, tmp_path / "nowhere"], r"nowhere holds no finished run.*--resume"),
        ([log], r"metrics.jsonl is not JSON"),
        ([pre], r"none of its stages \(pretrain, export\) has over_clients"),
    ):
        with pytest.raises(DataError, match=message):
            compare(runs)
    for text, message in (("{", "is not JSON"), ("[]", "no summary of a run")):
        (good / "summary.json").write_text(text)
        with pytest.raises(DataError, match=message):
            compare([good])
