"""Stages: the steps of a job, each with the coordinator's half and the clients' half in one file."""

from training.parts import PartTable
from training.stages.base import Stage
from training.stages.export import Export
from training.stages.federate import Federate
from training.stages.finetune import Finetune
from training.stages.pretrain import Pretrain
from training.stages.register import Register

STAGES: PartTable[Stage] = PartTable("stage", Pretrain, Finetune, Federate, Export, Register, key="stage")

# In which order stages may stand; one from elsewhere comes last.
ORDER = ("pretrain", "finetune", "federate", "personalize", "export", "calibrate", "register")

__all__ = ["ORDER", "STAGES", "Stage"]
