"""Tokenizers: how patches become visual tokens. The table of what a job may name.

- `base`: the interface
- `codebook`, `dalle`: one tokenizer each; `kmeans`: federated k-means for `codebook`
"""

from registry.bundle.plugins import PartTable
from training.algorithms.objectives.tokenizers.base import Tokenizer
from training.algorithms.objectives.tokenizers.codebook import Codebook
from training.algorithms.objectives.tokenizers.dalle import Dalle

TOKENIZERS: PartTable[Tokenizer] = PartTable("tokenizer", Codebook, Dalle, base=Tokenizer)

__all__ = ["TOKENIZERS", "Codebook", "Tokenizer"]
