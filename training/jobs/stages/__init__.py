"""Stages: the steps of a job, each with the coordinator's half and the clients' half in one file.

- `base`: the interface; `rounds`: what stages of rounds share
- `pretrain`, `probe`, `finetune`, `federate`, `export`, `register`: one stage each
- `final_test`, `lineage`: test figures, and what each model began from
"""

from registry.bundle.plugins import PartTable
from training.jobs.job_file import ORDER
from training.jobs.stages.base import Stage
from training.jobs.stages.export import Export, Register
from training.jobs.stages.federate import Federate
from training.jobs.stages.finetune import Finetune
from training.jobs.stages.pretrain import Pretrain
from training.jobs.stages.probe import Probe

STAGES: PartTable[Stage] = PartTable(
    "stage", Pretrain, Probe, Finetune, Federate, Export, Register, base=Stage, key="stage"
)

__all__ = ["ORDER", "STAGES", "Stage"]
