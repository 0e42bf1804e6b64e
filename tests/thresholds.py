"""Thresholds on scores, for tests."""

from math import exp

import numpy as np

from registry.bundle.conclusions import Conclusions, NodeRule
from registry.bundle.manifest import KindMissed, Triage
from registry.bundle.score_bins import LOGIT_BINS


def at_log_odds(log_odds: float) -> int:
    """The score bin that begins at these log-odds, a multiple of a quarter."""
    place = int(LOGIT_BINS.bin(np.array(logistic(log_odds) + 1e-9)))
    assert abs(LOGIT_BINS.lower(place) - logistic(log_odds)) < 1e-9
    return place


def logistic(log_odds: float) -> float:
    """The probability of these log-odds."""
    return 1 / (1 + exp(-log_odds))


def concluding(log_odds: float, *codes: str) -> Conclusions:
    """Rules that conclude these diagnoses, melanoma without any, from a log-odds on."""
    place = at_log_odds(log_odds)
    return Conclusions(
        nodes=tuple(
            NodeRule(level="diagnosis", code=code, threshold_bin=place, n=102, wrong=3, risk_high=0.075)
            for code in codes or ("MEL",)
        )
    )


def triage(below: float | None = -2.0, *kinds: KindMissed) -> Triage:
    """Rules that rule out below a log-odds and call urgent from 0.5 on; None rules nothing out."""
    return Triage(
        missed=0.1,
        false_alarms=0.1,
        level=0.95,
        ruled_out_below=0 if below is None else at_log_odds(below),
        kinds=kinds or (KindMissed(kind="Melanoma", n=113, missed=4, high=0.08),),
        urgent_from=at_log_odds(0.5),
        n_other=512,
        false_alarms_seen=38,
        false_alarms_high=0.097,
    )
