"""Models made to ask: a bias moves the border between two classes, the confusion matrix counts both sides.

Confusion matrices are exact, whatever happens to histograms. Whoever sends models of his own making asks for
them at any border, and learns between which two borders each picture's score lies.
"""

import numpy as np
from numpy.typing import NDArray

from tests.attacks.hospitals import Hospital, Model, arrays_of, ask
from tests.attacks.records import Records

REACH = 6.0  # log-odds; few pictures are beyond


def sweep(hospital: Hospital, requests: int) -> Records:
    """The records of two classes' pictures, read from confusion matrices at evenly spaced borders."""
    borders = np.linspace(-REACH, REACH, requests)
    matrices = np.stack([_confusion(hospital, border) for border in borders])
    ends = np.concatenate([[-REACH - 1], borders, [REACH + 1]])
    labels, scores = [], []
    for label in (0, 1):
        above = np.concatenate([[matrices[0, label].sum()], matrices[:, label, 1], [0]])
        for low, high, pictures in zip(ends[:-1], ends[1:], -np.diff(above), strict=True):
            scores.append(low + (high - low) * (np.arange(pictures) + 0.5) / max(pictures, 1))
            labels += [label] * int(pictures)
    second = 1 / (1 + np.exp(-np.concatenate(scores)))
    return Records(np.array(labels), (second > 0.5).astype(np.int64), np.stack([1 - second, second], axis=1))


def _confusion(hospital: Hospital, border: float) -> NDArray[np.int64]:
    return arrays_of(ask(hospital, Model(2, bias=np.array([0.0, -border]))))["confusion"]
