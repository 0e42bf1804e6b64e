"""What a process keeps for all the clients it plays."""

from training.models import build_model
from training.sync import Sync, SyncAll, SyncExcept
from training.workbench import Workbench


def test_a_sync_is_asked_for_the_names_once(monkeypatch, make_job):
    bench = Workbench(build_model(make_job().model, 2, seed=0), "cpu")
    asked = []
    travels = Sync.travels

    def counted(self, model):
        asked.append(self.name)
        return travels(self, model)

    monkeypatch.setattr(Sync, "travels", counted)
    norm = SyncExcept(groups=("norm",))
    first = bench.division(norm)
    assert first.travels == travels(norm, bench.model)
    assert first.keeps == norm.keeps(bench.model)
    assert first.watches == ()
    asked.clear()
    assert bench.division(SyncExcept(groups=("norm",))) is first
    assert not asked
    assert bench.division(SyncAll()).travels == bench.names != first.travels
