"""Settings that contradict each other are refused when a job is read, with what to do."""

import pytest

BEGUN = {"model": {"weights": "encoder.safetensors"}}
HEAD, LAST, LORA = ({"trainable": {"name": name}} for name in ("head", "last_blocks", "lora"))
LEVEL = {"clip": 1.0, "noise_multiplier": 1.0}
SIMCLR, SUPERVISED, FIXMATCH = ({"name": name} for name in ("simclr", "supervised", "fixmatch"))
FEDIRM = {"objective": {"name": "fedirm"}, "exchange": {"name": "relations"}}
DRO = {"aggregator": {"name": "group-dro"}}
PROBE, ROUNDS = {"stage": "probe", "rounds": 3}, {"stage": "federate"}  # the rounds of a tiny job
PERSONAL = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1, "objective": SIMCLR}}
CONVERGED = {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}}


def pretrain(objective=SIMCLR, aggregator="fedavg", **changes):
    rounds = {"stage": "pretrain", "rounds": 1, "aggregator": {"name": aggregator}}
    return {**rounds, "objective": objective, **changes}


def finetune(objective=SUPERVISED, **changes):
    return {"stage": "finetune", "epochs": 1, "objective": objective, **changes}


def small_until(rounds, size=8):
    return {"rounds": 3, "progressive_resizing": {"rounds": rounds, "image_size": size}}


def only_labelled(aggregator, objective):
    return (
        f"aggregator {aggregator} .* objective {objective}\\w* (needs no labels; use|also trains where there)"
    )


# Changes of the tiny job's rounds, or of the job, and what is said.
IN_ROUNDS = [
    ({**LAST, "sync": {"name": "none"}}, BEGUN, "says what travels, and so does sync none"),
    (small_until(3), {}, r"rounds is 3 of 3 rounds, and the last ones have to be at data\."),
    (small_until(1, 16), {}, "image_size is 16, and pictures have 16 pixels on both sides"),
    (small_until(1, 32), {}, "image_size is 32, and pictures have 16 pixels on both sides"),
    ({**small_until(2), **HEAD}, {}, "trainable: head trains on features that are made once; remove it"),
    (HEAD, {}, r"it knows nothing\. Name weights, put a stage pretrain before it"),
    ({**HEAD, "objective": FIXMATCH}, BEGUN, "needs pictures; use the objective supervised"),
    ({**HEAD, "objective": {"mixup": 0.2}}, BEGUN, r"mixup is 0\.2 and mixes pictures, and trainable: head"),
    ({**LORA, "objective": FIXMATCH}, BEGUN, "trainable: lora trains adapters, and the objective fixmatch"),
    (LORA, {}, r"trainable: lora leaves the encoder as it is, and model\.weights"),
    ({**LORA, "aggregator": {"name": "afl"}}, BEGUN, "aggregator afl weighs by the received model's loss"),
    ({**LORA, "aggregator": {"name": "q-ffl"}}, BEGUN, "aggregator q-ffl weighs by the received model's"),
    ({**DRO, "objective": {"class_weights": "inverse-frequency"}}, {}, "group-dro says what .*class_weights"),
    (DRO, {"privacy": {"client_level": LEVEL}}, "aggregator group-dro reads losses or norms of clients"),
    ({}, {"compression": {"up": "8-bit"}, "privacy": {"secure_aggregation": {}}}, "masked numbers are"),
    ({"exchange": {"name": "peers"}}, {}, "supervised does not share peers; use the exchange peers with"),
]
IN_STAGES = [
    ([{**ROUNDS, **DRO, "objective": FIXMATCH}], {}, "objective fixmatch also trains where there are none"),
    ([{**ROUNDS, **DRO, "objective": {"name": "dp-sgd", "noise_multiplier": 1}}], {}, "dp-sgd weighs none"),
    ([pretrain(aggregator="group-dro"), ROUNDS], {}, "objective simclr needs no labels"),
    *(([pretrain(aggregator=name), ROUNDS], {}, only_labelled(name, "simclr")) for name in ("afl", "q-ffl")),
    (
        [{**ROUNDS, "aggregator": {"name": "afl"}, "objective": FIXMATCH}],
        {},
        only_labelled("afl", "fixmatch"),
    ),
    ([{**ROUNDS, "aggregator": {"name": "q-ffl"}, **FEDIRM}], {}, only_labelled("q-ffl", "fedirm")),
    ([pretrain(SUPERVISED)], {}, "supervised needs labels; pre-train with simclr, rotation"),
    ([{**ROUNDS, "objective": SIMCLR}], {}, "simclr learns no classes; put it into a stage pretrain"),
    ([pretrain(exchange={"name": "features"})], {}, "simclr does not share features"),
    ([pretrain({"name": "moco", "local_negatives": False})], {}, "no negatives with exchange none"),
    ([pretrain({"name": "beit"})] * 2, {}, "two stages learn a codebook of the same pictures"),
    ([finetune(start="own")], {}, "start: own needs a stage of rounds right before it"),
    ([pretrain(), PROBE, finetune(start="own")], BEGUN, "start: own needs a stage of rounds right before it"),
    ([finetune(SIMCLR)], {}, "simclr learns no classes; put it into a stage pretrain before this one"),
    ([ROUNDS, PERSONAL], {}, "simclr learns no classes; fine-tune with supervised"),
    ([finetune({"name": "fedirm"})], {}, "fedirm gets no relations with exchange none"),
    ([finetune(), {"stage": "export"}], {}, "none to export; add a stage federate"),
    ([ROUNDS, {"stage": "register"}], {}, "register adds exported models"),
    ([PROBE, {**ROUNDS, **HEAD}], {}, r"model\.weights is none: it knows nothing"),
    ([{**PROBE, "objective": FIXMATCH}], BEGUN, "supervised"),
    ([{**PROBE, "sync": {"name": "none"}}], BEGUN, "all"),
    (
        [{**PROBE, "objective": {"optimizer": {"encoder_rate": 0.1}, "augment": {"hue": 0.1}, "mixup": 0.2}}],
        BEGUN,
        "optimizer.encoder_rate, augment, mixup of the objective is for more layers or for pictures",
    ),
    ([PROBE], {**BEGUN, "privacy": {"counts": {"epsilon": 4}}}, "stage probe counts test pictures twice"),
    ([PROBE], {**BEGUN, "privacy": {"client_level": LEVEL}}, "does not cover; set neighbours: null, and"),
    ([{**CONVERGED, "trainable": {"name": "all"}}], BEGUN, "trainable: {name: head}"),
    ([{**CONVERGED, "rounds": 3}], BEGUN, "rounds is of them"),
    ([{**CONVERGED, "fit": "rounds"}], BEGUN, "needs rounds, objective, aggregator"),
]


@pytest.fixture
def read_job(make_job, federate_block, monkeypatch):
    """`read_job(stages, blocks)`: the job, its rounds filled up with those of the tiny one."""
    monkeypatch.setattr("training.jobs.job.find_spec", lambda name: name)

    def build(stages, blocks):
        in_rounds = [stage["stage"] == "federate" and "fit" not in stage for stage in stages]
        filled = [
            {**federate_block(), **stage} if rounds else stage
            for stage, rounds in zip(stages, in_rounds, strict=True)
        ]
        return make_job(stages=filled, **blocks)

    return build


@pytest.mark.parametrize(("federate", "blocks", "said"), IN_ROUNDS)
def test_rounds(read_job, federate_block, federate, blocks, said):
    with pytest.raises(ValueError, match=said):
        read_job([federate_block(**federate)], blocks)


@pytest.mark.parametrize(("stages", "blocks", "said"), IN_STAGES)
def test_stages(read_job, stages, blocks, said):
    with pytest.raises(ValueError, match=said):
        read_job(stages, blocks)


@pytest.mark.parametrize(
    ("stages", "blocks"),
    [
        ([pretrain(), ROUNDS], {}),
        ([pretrain({"name": "beit"})], {}),
        ([finetune(), ROUNDS, {"stage": "export"}], {}),
        ([{**PROBE, "neighbours": None}], {**BEGUN, "privacy": {"client_level": LEVEL}}),
        ([{**ROUNDS, "objective": {"name": "supervised", "mixup": 0.2}}], BEGUN),
        ([CONVERGED], BEGUN),
    ],
)
def test_the_control_without_the_contradiction_a_job_is_read(read_job, stages, blocks):
    assert len(read_job(stages, blocks).stages) == len(stages)
