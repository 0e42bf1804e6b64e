"""What a process keeps for all the clients it plays."""

from training.algorithms.local_model import LocalModel
from training.algorithms.sync import Sync, SyncAll, SyncExcept
from training.models import build_model


def test_a_sync_is_asked_for_the_names_once(monkeypatch, make_job):
    local_model = LocalModel(build_model(make_job().model, 2, seed=0), "cpu")
    asked = []
    shared = Sync.shared

    def counted(self, model):
        asked.append(self.name)
        return shared(self, model)

    monkeypatch.setattr(Sync, "shared", counted)
    norm = SyncExcept(groups=("norm",))
    first = local_model.division(norm)
    assert first.shared == shared(norm, local_model.model)
    assert first.keeps == norm.keeps(local_model.model)
    assert first.watches == ()
    asked.clear()
    assert local_model.division(SyncExcept(groups=("norm",))) is first
    assert not asked
    assert local_model.division(SyncAll()).shared == local_model.names != first.shared
