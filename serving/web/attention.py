"""Whether anything needs whoever runs the service: health first, then what was overridden, then drift."""

from collections.abc import Iterator, Mapping, Sequence

from registry.outcomes.alarms import Alarm
from registry.records import Event
from registry.views.card import Matter, Standing
from serving.monitoring.drift import DriftRow
from serving.releases.current_release import LoadedRelease, ServedRelease


def attention(
    state: ServedRelease,
    troubles: Sequence[str],
    history: Mapping[str, Sequence[Event]],
    forged: Mapping[str, frozenset[int] | None],
    drift: Sequence[DriftRow],
    alarms: Sequence[tuple[str, Alarm]] = (),
) -> Standing:
    """What needs somebody, the worst first.

    Args:
        state: what is served.
        troubles: what keeps something from working, a sentence each.
        history: what was done to each model, the oldest first.
        forged: events that say to be signed and are not, by model; None where they cannot be checked.
        drift: what came in beside what was tested on.
        alarms: promises that were broken in the field, and that nobody has closed, each with its model.
    """
    silenced = {name: said for name, said in state.silenced.items() if name not in state.releases}
    return Standing(
        (
            *(_trouble(text) for text in troubles),
            *(
                Matter(f"{said}.", "Promote a version, or go back to an earlier release.", wrong=True)
                for _, said in sorted(silenced.items())
            ),
            *_nobody(state, silenced),
            *(_alarm(model, one) for model, one in alarms),
            *(
                Matter(
                    f"History of {model} has events that say to be signed and are not.",
                    "Run `dermfed-registry verify`, and find out who wrote them.",
                    wrong=True,
                )
                for model, events in sorted(forged.items())
                if events
            ),
            *(
                one
                for name, release in sorted(state.releases.items())
                for one in _overridden(name, release, history)
            ),
            *_drifted(drift),
        )
    )


def is_overridden(release: LoadedRelease, history: Sequence[Event]) -> bool:
    """Whether a gate had refused a release and was overridden.

    Of whichever event made it: a rollback to it does not undo that.
    """
    return any(one.overridden for one in history if one.release == release.release.id)


def _trouble(text: str) -> Matter:
    said = text if text.endswith(".") else f"{text}."  # as the log has it, so that it is found there
    return Matter(said, "The service’s log tells more.", wrong=True)


def _alarm(model: str, one: Alarm) -> Matter:
    number = "" if one.number is None else f" (alarm {one.number})"
    return Matter(
        f"Of {model}, {one.said}{number}.",
        f"Look at its figures in the field, go back to the release before, or close the alarm with a reason: "
        f"`dermfed-registry field {model}`.",
        wrong=True,
    )


def _nobody(state: ServedRelease, silenced: Mapping[str, str]) -> Iterator[Matter]:
    if not state.releases and not silenced:
        yield Matter(
            "No model has been promoted.",
            "Nobody is answered until you do: `dermfed-registry promote MODEL VERSION --to ALIAS`.",
            wrong=True,
        )


def _overridden(
    name: str, release: LoadedRelease, history: Mapping[str, Sequence[Event]]
) -> Iterator[Matter]:
    if is_overridden(release, history.get(name, ())):
        yield Matter(
            f"A gate had refused release {release.release.id} of {name} and was overridden.",
            "Read its card, and go back if nobody can say why: `dermfed-registry rollback`.",
        )


def _drifted(drift: Sequence[DriftRow]) -> Iterator[Matter]:
    found = [row for row in drift if row.verdict == "drifted"]
    for model in sorted({row.model for row in found}):
        where = sorted({f"{row.measure} ({row.subgroup})" for row in found if row.model == model})
        yield Matter(
            f"What comes in for {model} is not what it was tested on: {', '.join(where)}.",
            "Look at the pictures that come in, and at whom the model was tested on.",
        )
