"""The coordinator's half of a head that is fitted to convergence, by L-BFGS on sums of loss and gradient.

    min_{W, b}  (1 / N) Σ_c L_c(W, b) + (penalty / 2) ‖W‖²

with L_c as `training.rounds.client.head_gradient` has it: the penalised multinomial regression of pooled
data. The problem is convex, and strictly so in W, so that its minimum depends neither on the hospitals'
number nor on the way there: a gradient of norm g leaves W within g / penalty of it. Here rows are centred by
their mean, and divided by the root of their columns' mean variance, both from one sum at the start; clients
take rows as they are. L-BFGS (Liu and Nocedal 1989) begins at W = 0 and b_k = log π_k, with π_k the share of
class k, and works in the variables √h_kj w_kj and √h_k b_k,

    h_kj = π_k (1 − π_k) var_j + penalty,   h_k = π_k (1 − π_k),

the diagonal of the Hessian there: a rare class has far less curvature than a common one. Of 2,517 MILK10k
lesions in 3,861 columns, at a penalty of 1, the gradient is 2e-8 after 93 evaluations, else 1e-3 after 120.

With cross-fitting K heads more are fitted, each without the examples of one fold and with the same total
penalty, N λ / 2 ‖W‖², so that no hospital sends the size of a fold. All K + 1 are variables of one problem,
whose loss is their sum: one sum is asked for an evaluation. They begin apart, `APART` in those variables.

What has been answered is kept: a resumed fit asks nothing a second time, and takes the same steps.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from training.algorithms.client import weights_digest
from training.errors import MessageError
from training.messages import Shapes, Tensors
from training.rounds.requests import BIAS, GRADIENT, LOSS, MASS, SPREAD, SQUARES, SUM, WEIGHT
from training.tensor_file import read_tensors, write_tensors

Heads = tuple[torch.Tensor, torch.Tensor]
"""W `(heads, classes, features)` and b `(heads, classes)`, float64."""

AskSum = Callable[[str, Tensors, Shapes], Tensors]
"""Asks all clients one request with these tensors, and returns the sum of their answers."""

MEMORY = 20  # pairs of steps and gradients that L-BFGS remembers
APART = 1e-2  # the standard deviation of the places where heads without a fold begin


@dataclass(frozen=True)
class HeadFit:
    """Fitted heads, for rows as they are.

    Attributes:
        weight: W, `(heads, classes, features)` float64: of all examples first, then without each fold.
        bias: b, `(heads, classes)` float64.
        n: N, the examples that the first is fitted to.
        loss: the penalised loss of the first.
        left_out: the mean loss of examples by the heads without their fold; 0 without folds.
        began_at: the same where the fit began.
        gradient: the largest absolute value of the gradient of any.
        evaluations: how often the clients were asked.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    n: float
    loss: float
    left_out: float
    began_at: float
    gradient: float
    evaluations: int


class NothingSentError(MessageError):
    """No client may send rows to fit a head on."""


class MostAskedError(Exception):
    """The clients were asked as often as they may be."""


class KeptSums:
    """Answered sums, in a stage's folder: a fit is resumed from them.

    Args:
        folder: of the stage's checkpoints.
        job: the job's digest.
        fit: the name of one of several fits of the stage.
    """

    def __init__(self, folder: Path, job: str, fit: str = "head") -> None:
        self._folder = folder
        self._job = job
        self._fit = fit

    def get(self, place: int, asked: str) -> Tensors | None:
        """The answer to the request of this place and digest; None where there is none."""
        path = self._path(place)
        if not path.exists():
            return None
        header, tensors = read_tensors(path, self._job)
        return tensors if header["asked"] == asked else None

    def put(self, place: int, asked: str, answer: Tensors) -> None:
        """Keep an answer."""
        write_tensors(self._path(place), self._job, {"asked": asked}, answer)

    def forget(self) -> None:
        """Remove the files."""
        for path in self._folder.glob("sum-*.safetensors"):
            path.unlink()

    def _path(self, place: int) -> Path:
        return self._folder / f"sum-{quote(self._fit, safe='')}-{place:06d}.safetensors"


def fit_head(
    ask: AskSum,
    kept: KeptSums,
    classes: int,
    features: int,
    penalty: float,
    most: int,
    watch: Callable[[int, float], None] = lambda evaluation, loss: None,
    folds: int = 0,
    seed: int = 0,
    towards: Heads | None = None,
) -> HeadFit:
    """Fit a head of so many classes on rows of so many features, and one more without each fold.

    Args:
        ask: asks the clients.
        kept: the sums of an earlier attempt, and where new ones are kept.
        classes: outputs.
        features: inputs.
        penalty: on W, of the mean loss.
        most: evaluations of the gradient, at most.
        watch: called with the number of each evaluation and the penalised loss there.
        folds: of the examples.
        seed: from which is drawn where the heads without a fold begin.
        towards: heads for rows as they are at which they begin and that they are drawn to, W and b, in place
            of 0.

    Raises:
        NothingSentError: the sums are of no examples.
        MessageError: they are not finite.
    """
    asked, heads = 0, 1 + folds
    best, lowest, left_out = None, math.inf, list[float]()

    def ask_once(request: str, tensors: Tensors, shapes: Shapes) -> Tensors:
        nonlocal asked
        digest = weights_digest(tensors)
        answer = kept.get(asked, digest)
        if answer is None:
            answer = ask(request, tensors, shapes)
            if not all(torch.isfinite(tensor).all() for tensor in answer.values()):
                raise MessageError(
                    f"the sum of the answers to `{request}` has values that are not finite; look for "
                    "features that are not among the hospitals' pictures"
                )
            kept.put(asked, digest, answer)
        asked += 1
        return answer

    double = torch.float64
    wide = torch.Size([features])
    spread = ask_once(SPREAD, {}, {MASS: torch.Size([classes]), SUM: wide, SQUARES: wide})
    n = float(spread[MASS].sum())
    if not n > 0.5:
        raise NothingSentError(
            "no client sent rows to fit a head on; look in their logs for what was held back, or lower "
            "privacy.min_count"
        )
    centre = spread[SUM] / n
    variances = (spread[SQUARES] / n - centre**2).clamp(min=0)
    mean = float(variances.mean())
    scale = mean**0.5 if mean > 0 else 1.0
    share = (spread[MASS] / n).clamp(min=0.5 / n, max=1 - 0.5 / n)  # a class without examples counts half
    spreads = share * (1 - share)
    own = penalty if towards is not None else 0.0  # b is drawn to another head's alone
    steps = torch.cat([(spreads[:, None] * variances / scale**2 + penalty).flatten(), spreads + own]).rsqrt()
    first = torch.cat([torch.zeros(classes * features, dtype=double), share.log() / steps[-classes:]])
    apart = torch.randn(heads, len(first), dtype=double, generator=torch.Generator().manual_seed(seed))
    apart[0] = 0
    drawn_to = torch.zeros(heads, len(first), dtype=double)
    begin = first + APART * apart
    if towards is not None:
        drawn_to = torch.cat([(towards[0] * scale).flatten(1), towards[1] + towards[0] @ centre], dim=1)
        begin = drawn_to / steps
    shapes = {
        LOSS: torch.Size([3]),
        WEIGHT: torch.Size([heads, classes, features]),
        BIAS: torch.Size([heads, classes]),
    }

    def evaluate(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best, lowest
        if asked > most:
            raise MostAskedError
        flat = steps * torch.from_numpy(point).view(heads, -1)
        weight, bias = flat[:, :-classes].view(heads, classes, features), flat[:, -classes:]
        own_weight = weight / scale  # of rows as they are
        own_bias = bias - own_weight @ centre
        sums = ask_once(GRADIENT, {WEIGHT: own_weight, BIAS: own_bias}, shapes)
        deviation = flat - drawn_to
        if towards is None:
            deviation[:, -classes:] = 0
        squares = (deviation**2).sum(dim=1)
        loss = float(sums[LOSS][0]) / n + penalty / 2 * float(squares[0])
        of_all = loss + float(sums[LOSS][1]) / n + penalty / 2 * float(squares[1:].sum())
        left_out.append(float(sums[LOSS][2]) / n)
        watch(asked - 1, loss)
        of_weight = (sums[WEIGHT] - sums[BIAS][..., None] * centre) / scale
        slope = torch.cat([of_weight.flatten(1), sums[BIAS]], dim=1) / n + penalty * deviation
        if best is None or of_all < lowest:
            lowest = of_all
            gradient = float(slope.abs().max())
            best = HeadFit(own_weight, own_bias, n, loss, left_out[-1], left_out[0], gradient, asked - 1)
        return of_all, (steps * slope).flatten().numpy()

    options = {"maxcor": MEMORY, "maxfun": most, "maxiter": most, "ftol": 1e-15, "gtol": 1e-8}
    with suppress(MostAskedError):
        minimize(evaluate, begin.flatten().numpy(), jac=True, method="L-BFGS-B", options=options)
    assert best is not None, "the loss is finite where it begins"
    return replace(best, evaluations=asked - 1)
