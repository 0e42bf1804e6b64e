"""Pictures out of updates: a gradient-inversion attack on what a client sends, in each of its forms.

Geiping et al. 2020 ("Inverting Gradients", Eq. 4): with the model's weights θ, the labels y and the update
known,

    x* = argmin_x  1 − ⟨∇L(x, y), g⟩ / (‖∇L(x, y)‖ ‖g‖) + α TV(x)

by Adam on the signs of the gradient, x kept in [0, 1]. The worst case for a client: one gradient step on one
drawn picture, its label known, a small network with fresh weights. What the attacker sees:

- plain: the step as it is;
- 8-bit: as `compression.up: 8-bit` sends it;
- clipped: as `privacy.client_level` clips it, without noise;
- noise z: with noise of z times the clip beside it;
- sum of n: under masks, the mean over n clients with one picture each; of the n pictures that fit it best,
  the one nearest to the client's.

A guess without any update (the mean of other pictures) says what a score is worth. Prints a table and writes
the pictures in a grid: a row for each picture, the first column is the picture itself.

    python benchmarks/gradient_inversion.py --out docs/gradient-inversion.png
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from PIL import Image
from quick import print_conditions, print_table, start
from torch import Tensor, nn

from clients.data.synthetic import case_of, draw
from training.privacy.compression import decode, encode
from training.privacy.noisy_updates import clip
from training.randomness import NoiseSource

SIZE, CLASSES = 32, 7
CLIP = 1.0
TOTAL_VARIATION = 1e-2
NOISES = (0.001, 0.01, 0.1)
SUMS = (4, 16)


@dataclass(frozen=True)
class Seen:
    """What an attacker has: a gradient, and the labels of the pictures behind it."""

    gradient: Sequence[Tensor]
    labels: Tensor


def small_network() -> nn.Module:
    """Three convolutions and a linear layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (SIZE // 4) ** 2, CLASSES),
    )


def pictures(count: int) -> tuple[Tensor, Tensor]:
    """Drawn lesions `(count, 3, size, size)` in [0, 1], and labels."""
    drawn = np.stack([draw(case_of(1, number), SIZE) for number in range(count)])
    return torch.from_numpy(drawn).permute(0, 3, 1, 2).float() / 255, torch.arange(count) % CLASSES


def gradient(
    network: nn.Module, images: Tensor, labels: Tensor, *, differentiable: bool = False
) -> list[Tensor]:
    """∇L of the mean loss over some pictures."""
    loss = F.cross_entropy(network(images), labels)
    return list(torch.autograd.grad(loss, list(network.parameters()), create_graph=differentiable))


def clipped(step: Sequence[Tensor]) -> list[Tensor]:
    """A step as `privacy.client_level` clips it."""
    found = clip({str(place): tensor.double() for place, tensor in enumerate(step)}, CLIP, "the client")
    return [tensor.float() for tensor in found.values()]


def forms(network: nn.Module, images: Tensor, labels: Tensor, victim: int) -> dict[str, Seen]:
    """What the attacker sees of one client's picture, in each form."""
    one = slice(victim, victim + 1)
    step, label = gradient(network, images[one], labels[one]), labels[one]
    random = torch.Generator().manual_seed(victim)
    seen = {
        "plain": Seen(step, label),
        "8-bit": Seen([decode(encode("t", tensor, "8-bit", random))["t"] for tensor in step], label),
        "clipped": Seen(clipped(step), label),
    }
    for noise in NOISES:
        source = NoiseSource()
        noised = [tensor + source.normal(tensor, noise * CLIP) for tensor in clipped(step)]
        seen[f"noise {noise:g}"] = Seen(noised, label)
    for count in SUMS:
        chosen = [(victim + other) % len(images) for other in range(count)]
        seen[f"sum of {count}"] = Seen(gradient(network, images[chosen], labels[chosen]), labels[chosen])
    return seen


def invert(network: nn.Module, seen: Seen, iterations: int, seed: int) -> Tensor:
    """The pictures `(n, 3, size, size)` whose gradient points where the one that was seen does."""
    guess = torch.rand(len(seen.labels), 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
    guess.requires_grad_(True)
    optimizer = torch.optim.Adam([guess], lr=0.1)
    steps = [iterations * part // 8 for part in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, steps, 0.1)
    length = torch.sqrt(sum((tensor.square().sum() for tensor in seen.gradient), torch.zeros(())))
    for _ in range(iterations):
        optimizer.zero_grad()
        own = gradient(network, guess, seen.labels, differentiable=True)
        along = sum((a * b).sum() for a, b in zip(own, seen.gradient, strict=True))
        norm = torch.sqrt(sum((tensor.square().sum() for tensor in own), torch.zeros(())))
        loss = 1 - along / (norm * length) + TOTAL_VARIATION * total_variation(guess)
        loss.backward()
        assert guess.grad is not None, "the loss depends on the guess"
        guess.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            guess.clamp_(0, 1)
    return guess.detach()


def total_variation(images: Tensor) -> Tensor:
    """The mean absolute difference of neighbours."""
    down, right = images.diff(dim=2).abs().mean(), images.diff(dim=3).abs().mean()
    return down + right


def psnr(found: Tensor, truth: Tensor) -> float:
    """Peak signal to noise, in dB."""
    return -10 * log10(max(float((found - truth).square().mean()), 1e-12))


def ssim(found: Tensor, truth: Tensor) -> float:
    """Structural similarity (Wang et al. 2004), mean over windows of 7 × 7 and colours."""
    first, second = 0.01**2, 0.03**2

    def mean(values: Tensor) -> Tensor:
        return F.avg_pool2d(values[None], 7, stride=1)

    a, b = mean(found), mean(truth)
    var_a, var_b = mean(found**2) - a**2, mean(truth**2) - b**2
    cov = mean(found * truth) - a * b
    similar = (2 * a * b + first) * (2 * cov + second)
    return float((similar / ((a**2 + b**2 + first) * (var_a + var_b + second))).mean())


def nearest(found: Tensor, truth: Tensor) -> Tensor:
    """Of the pictures that were found, the one nearest to the truth."""
    return max(found, key=lambda picture: psnr(picture, truth))


def write_grid(rows: Sequence[Sequence[Tensor]], path: Path, zoom: int = 3) -> None:
    """Pictures side by side, with a line of white between them."""
    padded = [torch.cat([F.pad(picture, (0, 1, 0, 1), value=1.0) for picture in row], dim=2) for row in rows]
    grid = (torch.cat(padded, dim=1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    image = Image.fromarray(grid)
    image.resize((image.width * zoom, image.height * zoom), Image.Resampling.NEAREST).save(
        path, optimize=True
    )


def main(
    out: Annotated[Path, typer.Option(help="The grid of pictures.")] = Path("gradient-inversion.png"),
    victims: Annotated[int, typer.Option(help="How many pictures are attacked.", min=1)] = 4,
    iterations: Annotated[int, typer.Option(help="Steps of the attack.", min=8)] = 2400,
) -> None:
    """Attack each picture in each form, print the scores and write the grid."""
    network = small_network()
    images, labels = pictures(max(*SUMS, victims) + 16)
    others = images[max(*SUMS, victims) :]
    scores: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for victim in range(victims):
        truth, found = images[victim], {"no update: mean of others": others.mean(dim=0)}
        own = images[: max(*SUMS, victims)], labels[: max(*SUMS, victims)]
        for name, seen in forms(network, *own, victim).items():
            found[name] = nearest(invert(network, seen, iterations, seed=victim), truth)
        for name, picture in found.items():
            scores.setdefault(name, []).append((psnr(picture, truth), ssim(picture, truth)))
        rows.append([truth, *found.values()])
        write_grid(rows, out)
    print_conditions(
        "Pictures out of updates",
        {"pictures": f"{victims} drawn ones of {SIZE} pixels", "steps of the attack": iterations},
    )
    print_table(
        ["what the attacker sees", "PSNR, dB", "SSIM"], [score(name, of) for name, of in scores.items()]
    )


def score(name: str, of: Sequence[tuple[float, float]]) -> list[str]:
    """A row of the table: the mean over pictures, and in brackets the best for the attacker."""
    columns: Mapping[str, list[float]] = {"psnr": [a for a, _ in of], "ssim": [b for _, b in of]}
    return [name, *(f"{fmean(column):.2f} ({max(column):.2f})" for column in columns.values())]


if __name__ == "__main__":
    start(main, "--out {scratch}/grid.png --victims 1 --iterations 8")
