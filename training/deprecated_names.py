"""What others may import of training under the names of before; see `registry.bundle.old_names`."""

from typing import Final

_ALGORITHMS = "training.algorithms"

MOVED: Final = {
    "training.aggregators": f"{_ALGORITHMS}.aggregators",
    "training.exchanges": f"{_ALGORITHMS}.exchanges",
    "training.exchanges.choices": f"{_ALGORITHMS}.exchanges.similarity",
    "training.exchanges.nothing": f"{_ALGORITHMS}.exchanges.base",
    "training.desk": f"{_ALGORITHMS}.exchanges.server_context",
    "training.objectives": f"{_ALGORITHMS}.objectives",
    "training.sync": f"{_ALGORITHMS}.sync",
    "training.sync.plain": f"{_ALGORITHMS}.sync.base",
    "training.stages": "training.jobs.stages",
    "training.parts": "registry.bundle.plugins",
    "training.client": f"{_ALGORITHMS}.client",
    "training.augmentations": f"{_ALGORITHMS}.augmentations.batch",
    "training.sampling": f"{_ALGORITHMS}.sampling",
    "training.census": "training.federation.census",
    "training.journal": "training.federation.server.metrics_log",
    "training.job": "training.jobs.job",
    "training.models.network": "training.models.heads",
    "training.optimizers": f"{_ALGORITHMS}.optimizers",
    "training.state": f"{_ALGORITHMS}.client_state",
    "training.workbench": f"{_ALGORITHMS}.local_model",
    "training.site": "training.jobs.client_app",
}
"""Modules, and all that is in them."""

RENAMED: Final = {
    "training.exchanges.choices": {"Choice": "PeerSimilarity"},
    "training.exchanges.choices.base": {"Choice": "PeerSimilarity"},
    "training.desk": {"Desk": "ServerContext"},
    "training.objectives": {"LocalWork": "LocalRound"},
    "training.objectives.base": {"LocalWork": "LocalRound", "no_twins": "no_copies"},
    "training.stages.base": {"Setting": "StageContext", "Graded": "BundleDraft", "Outcome": "StageResult"},
    "training.journal": {"Journal": "MetricsLog"},
    "training.workbench": {"Workbench": "LocalModel"},
    "training.site": {"Site": "ClientApp"},
}
"""What has another name in its new module."""

_DATASET = ("SERVER", "SPLITS", "UNLABELLED_CLIENT", "FOLDED_CLASSES", "Split", "Examples", "Dataset")
_SETTINGS = (
    "ClientsConfig",
    "ColumnSubgroups",
    "DataConfig",
    "LabelMap",
    "ServerConfig",
    "SourceConfig",
    "SplitConfig",
    "ToneSubgroups",
    "numbered",
)
_MESSAGES = (
    "GLOBAL",
    "Answer",
    "Broadcast",
    "Failure",
    "Message",
    "Shapes",
    "Tensors",
    "Update",
    "all_finite",
    "check_trained",
    "check_update",
    "named",
    "prefixed",
    "reply",
    "tensor_bytes",
    "unknown_question",
)

DATA: Final = {
    **dict.fromkeys((*_DATASET, "HasTraits", "traits_of"), "training.data.dataset"),
    **dict.fromkeys(_SETTINGS, "training.data.settings"),
}
MESSAGES: Final = dict.fromkeys(_MESSAGES, "training.messages.message")
FEDERATION: Final = {"run_rounds": "training.federation.server.round_loop"}
RUN: Final = {
    **dict.fromkeys(("load_data", "open_registrar", "train"), "training.wiring"),
    "read_job": "training.jobs.job",
    "read_recipes": "training.jobs.recipes",
}
