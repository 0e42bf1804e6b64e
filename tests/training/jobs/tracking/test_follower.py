"""Following a log: every round is told once, whatever is cut, killed or out of order elsewhere."""

import json

import pytest

from training.jobs.tracking import PAUSE, Follower


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


def test_a_run_that_is_taken_up_goes_on_where_its_curves_end(folder):
    folder.write(line(1), line(2))
    folder.follower().look()
    folder.write(line(1), line(2), line(3))
    folder.follower().look()
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
