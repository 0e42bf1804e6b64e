"""What a run on frozen features proves of each tone, and what a head of its own would give a tone.

1. The figures of the run's head on its test lesions, with intervals of 2,000 resamplings of patients; what
   its calibration proves, cross-fitted, by tone and kind of malignancy, and what the test lesions show.
2. With `--heads`, that head (under masks if the run has masks) beside the one that scikit-learn fits to the
   same rows in one place: the largest difference of a probability, of the lesions of all splits.
3. And a tone's own head beside the global one, in five parts by patient: fitted to four of them
   and judged on the fifth. `shrink` as the stage fits it; `finetune` from the global head (AdamW, 1e-3, decay
   .01, batches of 32, the epoch from 0 to 5 with the best accuracy on left-out folds); and alone, with the
   global penalty towards 0. Differences of log loss and of the AUROC of malignancy are over all lesions, each
   judged once.

    DERMFED_DATA=... python benchmarks/heads_of_tones.py runs/quick --heads
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from honesty import BETAS, KINDS, Bools, Ints, kinds_of, rules_out, share, working_point
from numpy.typing import NDArray
from quick import start
from run_heads import Answered, Study, answered_by, answers, heads_of, in_parts, read, run_of
from scipy.special import betaincinv, log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from tables import print_conditions, print_table

from personalization.calibration.at_thresholds import LEVEL
from personalization.strategies.shrink import Shrink
from registry.bundle.counts.score_bins import smallest_cell
from training.algorithms.client import HeadRows
from training.rounds.server.head_fit import Heads

PARTS, REPLICATES, EPOCHS = 5, 2000, 5


def figures(study: Study, run: Path) -> list[list[object]]:
    """Rows: AUROC of malignancy and macro F1 of the run's head on its test lesions, over all and by tone."""
    test = answered_by(study, [~each.trained_on for each in study.hospitals], heads_of(study, run))
    malignant = kinds_of(study.codes) >= 0
    found = []
    for number, tone in enumerate(["all", *study.subgroups]):
        some = test if tone == "all" else test.of(number - 1)
        likely = torch.softmax(torch.from_numpy(some.logits), dim=1).numpy()
        score, truth = likely[:, malignant].sum(axis=1), malignant[some.labels]
        drawn = [roc_auc_score(truth, score, sample_weight=times) for times in resampled(some.people)]
        low, high = np.quantile(drawn, [0.025, 0.975])
        f1 = f1_score(some.labels, likely.argmax(axis=1), average="macro")
        found.append(
            [tone, len(truth), f"{roc_auc_score(truth, score):.3f} [{low:.3f}, {high:.3f}]", f"{f1:.3f}"]
        )
    return found


def resampled(people: Ints) -> Iterator[Ints]:
    """How often each lesion is drawn, patients with replacement."""
    owner, random = np.unique(people, return_inverse=True)[1], np.random.default_rng(0)
    for _ in range(REPLICATES):
        drawn = random.integers(0, owner.max() + 1, owner.max() + 1)
        yield np.bincount(drawn, minlength=owner.max() + 1)[owner]


def proven(study: Study, run: Path) -> tuple[list[list[object]], list[list[object]]]:
    """Rows: what the run's calibration proves by tone and by kind, and what its test lesions show."""
    folds, cell = study.job.data.crossfit or 0, smallest_cell(study.job.privacy.min_count)
    fitted = [each.trained_on for each in study.hospitals]
    rest = [~each for each in fitted]
    overall, by_kind = list[list[object]](), list[list[object]]()
    for tone, sample, test in answers(study, heads_of(study, run), fitted, rest, folds):
        point, below = working_point(sample, cell), rules_out(sample, BETAS[0], cell)
        assert point is not None
        found = int((test.malignancy >= point.threshold_bin)[test.malignant].sum())
        missing = [f"{share(each.malignancy < below, ~each.malignant):.3f}" for each in (sample, test)]
        low = f"{point.sensitivity_low:.3f} of {point.n}"
        overall.append([tone, low, f"{found} of {int(test.malignant.sum())}", *missing])
        for kind, name in enumerate(KINDS):
            cells = []
            for each in (sample, test):
                n, x = (int(of[each.kind == kind].sum()) for of in (each.malignant, each.malignancy < below))
                cells += [f"{x} of {n}", f"{betaincinv(x + 1, n - x, LEVEL) if x < n else 1:.3f}"]
            by_kind.append([tone, name, *cells])
    return overall, by_kind


def beside_one_place(study: Study, run: Path) -> float:
    """The largest difference of a probability between the run's head and that of its rows in one place."""
    rows = torch.cat([each.rows for each in study.hospitals]).numpy()
    labels, trained_on = (
        np.concatenate(each)
        for each in zip(*((each.examples.labels, each.trained_on) for each in study.hospitals), strict=True)
    )
    centre = rows[trained_on].mean(axis=0)
    scaled = (rows - centre) / rows[trained_on].var(axis=0).mean() ** 0.5
    fitted = LogisticRegression(C=1 / (study.penalty * trained_on.sum()), tol=1e-8, solver="newton-cg")
    fitted.fit(scaled[trained_on], labels[trained_on])
    weight, bias = (each[0] for each in heads_of(study, run))
    ours = torch.softmax(torch.from_numpy(rows) @ weight.T + bias, dim=1).numpy()
    return float(np.abs(ours[:, fitted.classes_] - fitted.predict_proba(scaled)).max())


def fine_tuned(held: Sequence[HeadRows], heads: Heads, random: torch.Generator) -> Heads:
    """The head of all, and those without each fold, trained on, to the epoch of the best accuracy."""
    rows, labels, folds = (
        torch.cat([getattr(each, of) for each in held]) for of in ("rows", "labels", "folds")
    )
    weight, bias = (each.clone().requires_grad_() for each in heads)
    optimizer = torch.optim.AdamW([weight, bias], lr=1e-3, weight_decay=0.01)
    outside = torch.arange(len(weight))[None] != 1 + folds[:, None]  # whether a head may learn from a row
    best, kept = -1.0, heads
    for epoch in range(1 + EPOCHS):
        for batch in torch.randperm(len(rows), generator=random).split(32) if epoch else ():
            logits = torch.einsum("nf,hkf->nhk", rows[batch], weight) + bias
            truth = labels[batch, None].expand(-1, len(weight))
            losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), truth, reduction="none")
            optimizer.zero_grad()
            ((losses * outside[batch]).sum(dim=0) / outside[batch].sum(dim=0).clamp(min=1)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            unseen = torch.einsum("nf,nkf->nk", rows, weight[1 + folds]) + bias[1 + folds]
            accuracy = float((unseen.argmax(dim=1) == labels).double().mean())
            if accuracy > best:
                best, kept = accuracy, (weight.detach().clone(), bias.detach().clone())
    return kept


def own_heads(study: Study, folds: int) -> tuple[list[list[object]], list[list[object]]]:
    """Rows: each way to a tone's head beside the global one; and which strengths were chosen."""
    of = in_parts(study, PARTS, np.random.default_rng(PARTS))
    strategy = Shrink()
    judged: dict[str, list[dict[str, Answered]]] = defaultdict(list)
    chosen: list[list[object]] = []
    for part in range(PARTS):
        fitted, rest = [each != part for each in of], [each == part for each in of]
        held = study.held(fitted, folds)
        both = study.fit(held, folds)
        heads = both.weight, both.bias
        for number, tone in enumerate(study.subgroups):
            of_tone = [each.examples.subgroups == number for each in study.hospitals]
            placed = [
                replace(
                    each, rows=each.rows[at], labels=each.labels[at], mass=each.mass[at], folds=each.folds[at]
                )
                for each, at in (
                    (whole, torch.from_numpy(own[kept]))
                    for whole, own, kept in zip(held, of_tone, fitted, strict=True)
                )
            ]
            ways = {"global": heads}
            tried = {
                strength: study.fit(placed, folds, strength, strategy.evaluations, heads)
                for strength in strategy.strengths
            }
            losses = {"∞": next(iter(tried.values())).began_at}
            losses |= {f"{strength:g}": fit.left_out for strength, fit in tried.items()}
            best = min(losses, key=lambda each: losses[each])
            ways["shrink"] = heads
            if best != "∞":
                ways["shrink"] = tried[float(best)].weight, tried[float(best)].bias
            ways["finetune"] = fine_tuned(placed, heads, torch.Generator().manual_seed(part))
            alone = study.fit([replace(each, folds=None) for each in placed], 0)
            ways["alone"] = alone.weight, alone.bias
            test = [kept & own for kept, own in zip(rest, of_tone, strict=True)]
            found = {way: answered_by(study, test, own) for way, own in ways.items()}
            judged[tone].append(found)
            chosen.append([tone, part + 1, best, *(f"{loss:.4f}" for loss in losses.values())])
            print(f"part {part + 1}, {tone}: strength {best}", flush=True)
    kinds = kinds_of(study.codes)
    rows = []
    for tone, parts in judged.items():
        labels, people = (
            np.concatenate([getattr(each["global"], of) for each in parts]) for of in ("labels", "people")
        )
        scores = {
            way: log_softmax(np.concatenate([each[way].logits for each in parts]), axis=1) for way in parts[0]
        }
        for way, found in scores.items():
            rows.append([tone, way, *beside(found, scores["global"], labels, kinds >= 0, people)])
    return rows, sorted(chosen, key=lambda row: study.subgroups.index(str(row[0])))


def beside(
    found: NDArray[np.float64],
    reference: NDArray[np.float64],
    labels: Ints,
    classes: Bools,
    people: Ints,
) -> list[object]:
    """Log loss and AUROC of log-probabilities, and how they differ from the reference's, with intervals."""
    malignant = classes[labels]
    losses = [-each[np.arange(len(labels)), labels] for each in (found, reference)]
    scores = [np.exp(each[:, classes]).sum(axis=1) for each in (found, reference)]
    differences = []
    for times in resampled(people) if found is not reference else ():
        areas = [roc_auc_score(malignant, each, sample_weight=times) for each in scores]
        differences.append([np.average(losses[0] - losses[1], weights=times), areas[0] - areas[1]])
    areas = [roc_auc_score(malignant, each) for each in scores]
    cells: list[object] = [len(labels), f"{losses[0].mean():.4f}", f"{areas[0]:.4f}"]
    if not differences:
        return [*cells, "–", "–"]
    low, high = np.quantile(differences, [0.025, 0.975], axis=0)
    values = (losses[0] - losses[1]).mean(), areas[0] - areas[1]
    return [*cells, *(f"{v:+.4f} [{a:+.4f}, {b:+.4f}]" for v, a, b in zip(values, low, high, strict=True))]


def main(
    run: Annotated[Path | None, typer.Argument(help="A finished run, with its features.")] = None,
    out: Annotated[Path, typer.Option(help="Where one is done if none is given.")] = Path("runs/heads"),
    heads: Annotated[bool, typer.Option("--heads", help="Fit others, too.")] = False,
    folds: Annotated[int, typer.Option(help="For the heads of tones.")] = 5,
) -> None:
    """Fit, and print."""
    torch.set_num_threads(1)
    run = run_of(run, out)
    study = read(run)
    lesions = sum(len(each.examples) for each in study.hospitals)
    conditions = {"run": study.job.name, "seed": study.job.seed, "lesions": lesions, "penalty": study.penalty}
    print_conditions("What a run proves, and heads of tones", conditions)
    print("**Test lesions**\n")
    print_table(["tone", "lesions", "AUROC of malignancy", "macro F1"], figures(study, run))
    overall, by_kind = proven(study, run)
    print(f"**Proven by cross-fitting, and in test; ruled out at {BETAS[0]}**\n")
    columns = ["sensitivity, lower limit", "found in test", "ruled out of others", "in test"]
    print_table(["tone", *columns], overall)
    print_table(["tone", "kind", "missed", "at most", "missed in test", "at most"], by_kind)
    if heads:
        print(
            f"Beside one place a probability differs by {beside_one_place(study, run):.1e} at most.\n",
            flush=True,
        )
        rows, chosen = own_heads(study, folds)
        print("**A tone's own head beside the global one**\n")
        differences = ["log loss, difference", "AUROC, difference"]
        print_table(["tone", "head", "lesions", "log loss", "AUROC", *differences], rows)
        print("**Loss of left-out folds by strength**\n")
        strengths = [f"{each:g}" for each in Shrink().strengths]
        print_table(["tone", "part", "chosen", "∞, the global head", *strengths], chosen)


if __name__ == "__main__":
    start(main, "--out {scratch}/runs --heads --folds 2", pictures=True)
