"""Following a log: every round is told once, whatever is cut, killed or out of order elsewhere.

Trackers of a job: what may be asked for, what is sent, and that the run is the same with and without.
"""

import json
import sys
import types

import pytest
import yaml
from pydantic import ValidationError

from training.errors import JobError
from training.jobs.job import read_job
from training.jobs.settings import TrackingConfig
from training.jobs.tracking import PAUSE, Follower, MLflow, refuse_missing, run_name, tracked, trackers_of


def line(round_, stage="0-federate", loss=None):
    return {
        "stage": stage,
        "round": round_,
        "asked": ["north", "south"],
        "answered": ["north"],
        "loss": 1 / round_ if loss is None else loss,
        "metrics": {"n": 40.0, "accuracy": 0.5, "balanced_accuracy": None, "auroc": 0.7},
        "by_subgroup": {"dark": {"n": 9.0, "accuracy": 0.25, "balanced_accuracy": 0.3, "auroc": None}},
        "models": {"global": {"loss": 1.0, "scalars": {"north": {"private_epsilon": 0.5}}}},
        "bytes_up": 10,
        "bytes_down": 20,
        "seconds": 0.5,
    }


class Told:
    """A tracker that remembers, as its store does when a run is taken up again."""

    name = "told"

    def __init__(self):
        self.points, self.opened, self.ended, self.broken = [], 0, [], False

    def open(self):
        self.opened += 1
        if self.broken:
            raise ConnectionError("no route")
        done = {}
        for stage, round_, _ in self.points:
            done[stage] = max(done.get(stage, 0), round_)
        return done

    def log(self, stage, round_, figures):
        if self.broken:
            raise ConnectionError("no route")
        self.points.append((stage, round_, figures))

    def close(self, *, finished):
        self.ended.append(finished)

    @property
    def rounds(self):
        return [(stage, round_) for stage, round_, _ in self.points]


@pytest.fixture
def folder(tmp_path):
    """A run's folder, how to write its log, and a follower of it."""

    class Folder:
        told, said, now = Told(), [], [0.0]

        def write(self, *lines, text=None):
            content = "".join(json.dumps(each) + "\n" for each in lines) if text is None else text
            (tmp_path / "metrics.jsonl").write_text(content)

        def follower(self):
            return Follower(
                tmp_path / "metrics.jsonl",
                tmp_path / "summary.json",
                [self.told],
                self.said.append,
                clock=lambda: self.now[0],
            )

        def end(self):
            test = {"n": 9, "accuracy": 0.9, "fairness": {"gap": 0.1}, "by_subgroup": {"dark": {"ece": 0.2}}}
            (tmp_path / "summary.json").write_text(json.dumps({"test": test}))

    return Folder()


def test_every_round_is_told_once_with_its_figures_and_no_names(folder):
    follower = folder.follower()
    follower.look()
    assert folder.told.opened == 0
    folder.write(line(1))
    follower.look()
    follower.look()
    folder.write(line(1), line(2), line(1, "1-finetune"))
    follower.look()
    assert folder.told.rounds == [("0-federate", 1), ("0-federate", 2), ("1-finetune", 1)]
    assert folder.told.points[1][2] == {
        "loss": 0.5,
        "asked": 2,
        "answered": 1,
        "accuracy": 0.5,
        "auroc": 0.7,
        "accuracy/dark": 0.25,
        "balanced_accuracy/dark": 0.3,
        "bytes_up": 10,
        "bytes_down": 20,
        "seconds": 0.5,
        "epsilon": 0.5,
    }


def test_half_a_line_waits_for_its_other_half(folder):
    follower = folder.follower()
    whole = json.dumps(line(1)) + "\n"
    folder.write(text=whole + whole[:40])
    follower.look()
    assert folder.told.rounds == [("0-federate", 1)]
    folder.write(text=whole + json.dumps(line(2)) + "\n")
    follower.look()
    assert folder.told.rounds == [("0-federate", 1), ("0-federate", 2)]


@pytest.mark.parametrize("loss", [0.123456789, 7])
def test_of_a_log_that_was_cut_and_grew_again_no_round_is_logged_twice(folder, loss):
    follower = folder.follower()
    folder.write(line(1), line(2))
    follower.look()
    folder.write(line(1))
    follower.look()
    folder.write(line(1), line(2, loss=loss), line(3))
    follower.look()
    assert [round_ for _, round_ in folder.told.rounds] == [1, 2, 3]


def test_a_tracker_that_fails_is_reported_once_left_alone_and_caught_up(folder):
    follower = folder.follower()
    folder.told.broken = True
    folder.write(line(1))
    follower.look()
    follower.look()
    assert folder.told.opened == 1
    folder.now[0] += PAUSE
    follower.look()
    assert folder.told.opened == 2
    [said] = folder.said
    assert (
        said == "tracking with told fails: ConnectionError: no route; the run goes on, and it is tried again"
    )
    folder.told.broken = False
    folder.now[0] += PAUSE
    folder.write(line(1), line(2))
    follower.look()
    assert [round_ for _, round_ in folder.told.rounds] == [1, 2]


def test_the_end_logs_what_is_left_and_the_test_figures_once(folder):
    for _ in range(2):
        follower = folder.follower()
        folder.write(line(1))
        follower.start()
        folder.end()
        follower.close()
    assert folder.told.rounds == [("0-federate", 1), ("test", 1)]
    assert folder.told.points[1][2] == {"accuracy": 0.9, "fairness/gap": 0.1, "ece/dark": 0.2}
    assert folder.told.ended == [True, True]


def test_a_run_that_ends_early_says_so(folder):
    follower = folder.follower()
    folder.write(line(1))
    follower.start()
    follower.close()
    assert folder.told.ended == [False]
    assert folder.told.rounds == [("0-federate", 1)]


class Store:
    """The part of MLflow that is used, in memory."""

    def __init__(self):
        self.runs, self.points, self.uris = {}, [], []
        self.experiments = {}

    def modules(self):
        store = self

        class Client:
            def __init__(self, uri):
                store.uris.append(uri)

            def get_experiment_by_name(self, name):
                found = store.experiments.get(name)
                return found and types.SimpleNamespace(experiment_id=found)

            def create_experiment(self, name):
                return store.experiments.setdefault(name, f"{len(store.experiments) + 1}")

            def search_runs(self, places, wanted, max_results):
                return [run for tag, run in store.runs.items() if f"'{tag}'" in wanted]

            def create_run(self, place, run_name, tags):
                [tag] = tags.values()
                info = types.SimpleNamespace(run_id=f"id {tag}", status="RUNNING")
                data = types.SimpleNamespace(metrics={}, params={"name": run_name})
                store.runs[tag] = types.SimpleNamespace(info=info, data=data)
                return store.runs[tag]

            def update_run(self, run, status):
                self._of(run).info.status = status

            set_terminated = update_run

            def log_param(self, run, name, value):
                self._of(run).data.params[name] = value

            def log_batch(self, run, metrics):
                store.points += metrics
                self._of(run).data.metrics |= {key: value for key, value, _, _ in metrics}

            def get_metric_history(self, run, key):
                return [types.SimpleNamespace(step=step) for name, _, _, step in store.points if name == key]

            def _of(self, run):
                return store.runs[run.removeprefix("id ")]

        def metric(key, value, timestamp, step):
            return (key, value, timestamp, step)

        modules = {name: types.ModuleType(name) for name in ("mlflow", "mlflow.tracking", "mlflow.entities")}
        modules["mlflow.tracking"].MlflowClient = Client
        modules["mlflow.entities"].Metric = metric
        return modules


@pytest.fixture
def store(monkeypatch):
    made = Store()
    for name, module in made.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_one_run_there_for_one_run_here(store, make_job, tmp_path):
    job = make_job()
    for first in (1, 3):
        tracker = MLflow("sqlite:///x.db", job, lambda: "abc")
        known = tracker.open()
        assert known == ({} if first == 1 else {"0-federate": 2})
        for round_ in (first, first + 1):
            tracker.log("0-federate", round_, {"loss": 1 / round_, "accuracy/V (dark)": 0.5, "answered": 2})
        tracker.close(finished=first == 3)
    [run] = store.runs.values()
    assert run.info.status == "FINISHED"
    assert run.data.params["digest"] == job.digest
    assert [step for key, _, _, step in store.points if key == "0-federate/loss"] == [1, 2, 3, 4]
    assert {key for key, *_ in store.points} == {
        "0-federate/loss",
        "0-federate/accuracy/V _dark_",
        "0-federate/answered",
    }


def test_no_report_of_use_is_made(store, make_job, monkeypatch):
    import os

    MLflow("sqlite:///x.db", make_job(), lambda: "abc").open()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "true"


def test_by_default_nothing_leaves_the_machine(make_job, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    job = make_job(tracking={"mlflow": True, "tensorboard": True})
    tensorboard, mlflow = trackers_of(job, tmp_path / "runs" / "one")
    assert mlflow._uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert tensorboard._folder == tmp_path / "runs" / "one" / "tensorboard"
    assert trackers_of(make_job(), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_named_where_the_run_is_started_and_never_by_a_job(make_job, tmp_path, monkeypatch):
    with pytest.raises(ValidationError, match=r"tracking\.mlflow"):
        make_job(tracking={"mlflow": {"uri": "https://me:secret@host"}})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://host:5000")
    [mlflow] = trackers_of(make_job(tracking={"mlflow": True}), tmp_path)
    assert mlflow._uri == "https://host:5000"
    assert trackers_of(make_job(), tmp_path) == []


def test_what_is_not_installed_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr("training.jobs.tracking.find_spec", lambda name: None)
    refuse_missing(TrackingConfig())
    with pytest.raises(JobError, match=r"pip install 'dermfed\[mlflow\]'"):
        refuse_missing(TrackingConfig.model_validate({"mlflow": True}))


def test_it_is_no_part_of_a_jobs_identity(make_job, tmp_path):
    job = make_job()
    watched = make_job(tracking={"tensorboard": True, "mlflow": True})
    assert watched.digest == job.digest
    plain = {key: value for key, value in job.resolved().items() if key != "tracking"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(plain))
    changed = read_job(tmp_path / "job.yaml", ["tracking.tensorboard=true", "tracking.mlflow=true"])
    assert changed.tracking == watched.tracking


def test_a_run_of_another_job_in_the_same_folder_is_another_run(make_job, tmp_path):
    first = run_name(make_job(), tmp_path)
    (tmp_path / "tensorboard" / "0-federate").mkdir(parents=True)
    assert run_name(make_job(), tmp_path) == first
    assert (tmp_path / "tensorboard").exists()
    assert run_name(make_job(seed=8), tmp_path) != first
    assert not (tmp_path / "tensorboard").exists()


def test_a_run_ends_with_the_same_weights_and_its_rounds_are_there(store, run_job, make_job, tmp_path):
    job = make_job(tracking={"mlflow": True})
    with tracked(job, tmp_path / "watched", lambda text: pytest.fail(text)):
        watched = run_job(job, out=tmp_path / "watched")
    plain = run_job(make_job(), out=tmp_path / "plain")
    assert all((watched.weights()[name] == tensor).all() for name, tensor in plain.weights().items())
    steps = [(value, step) for key, value, _, step in store.points if key == "0-federate/loss"]
    assert steps == [(line["loss"], line["round"]) for line in plain.lines]
    assert [run.info.status for run in store.runs.values()] == ["FINISHED"]


@pytest.mark.usefixtures("store")
def test_a_store_that_is_not_reached_ends_no_run(run_job, make_job, tmp_path, monkeypatch):
    def unreachable(uri):
        raise ConnectionError(f"{uri} is not reached")

    monkeypatch.setattr(sys.modules["mlflow.tracking"], "MlflowClient", unreachable)
    said = []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://nowhere:5000")
    job = make_job(tracking={"mlflow": True})
    with tracked(job, tmp_path / "run", said.append):
        assert run_job(job).result.summary["test"]
    [warned] = said
    assert "tracking with mlflow fails: ConnectionError: http://nowhere:5000 is not reached" in warned


def test_event_files_hold_each_point_once(make_job, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [tracker] = trackers_of(make_job(tracking={"tensorboard": True}), tmp_path)
    assert tracker.open() == {}
    tracker.log("0-federate", 1, {"loss": 0.5, "accuracy/dark": 0.25, "answered": 2})
    tracker.close(finished=False)
    [again] = trackers_of(make_job(tracking={"tensorboard": True}), tmp_path)
    assert again.open() == {"0-federate": 1}
    again.log("0-federate", 2, {"loss": 0.25, "answered": 2})
    again.close(finished=True)
    events = EventAccumulator(str(tmp_path / "tensorboard" / "0-federate")).Reload()
    assert [(point.step, point.value) for point in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
