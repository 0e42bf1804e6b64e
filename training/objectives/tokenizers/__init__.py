"""Tokenizers: what names patches by visual tokens. The table of what a job may name."""

from training.objectives.tokenizers.base import Tokenizer
from training.objectives.tokenizers.codebook import Codebook
from training.objectives.tokenizers.dalle import Dalle
from training.parts import PartTable

TOKENIZERS: PartTable[Tokenizer] = PartTable("tokenizer", Codebook, Dalle)

__all__ = ["TOKENIZERS", "Codebook", "Tokenizer"]
