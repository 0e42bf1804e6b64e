"""A small job of every family of algorithms: what it changes of the tiny one."""

SUPERVISED = {"name": "supervised", "batch_size": 8, "optimizer": {"name": "adam", "lr": 1e-3}}
VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2},
}
FAMILIES = {
    "fedavg": {
        "stages": [
            {"stage": "federate", "rounds": 2, "objective": SUPERVISED, "aggregator": {"name": "fedavg"}}
        ]
    },
    "fedauto": {
        "stages": [
            {"stage": "federate", "rounds": 2, "objective": SUPERVISED, "aggregator": {"name": "fedauto"}}
        ]
    },
    "group-dro": {
        "stages": [
            {"stage": "federate", "rounds": 3, "objective": SUPERVISED, "aggregator": {"name": "group-dro"}}
        ]
    },
    "fedclf": {
        "data": {"label_fraction": 0.5},
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 2,
                "objective": {
                    "name": "moco",
                    "queue": 16,
                    "batch_size": 8,
                    "optimizer": {"name": "sgd", "lr": 0.03, "momentum": 0.9, "state": "keep"},
                },
                "exchange": {"name": "features"},
                "aggregator": {"name": "fedavg"},
            },
            {"stage": "finetune", "epochs": 1, "objective": SUPERVISED},
        ],
    },
    "fedmae": {
        "model": VIT,  # in place of the tiny job's
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 2,
                "objective": {
                    "name": "mae",
                    "decoder_width": 8,
                    "decoder_depth": 1,
                    "decoder_heads": 2,
                    "batch_size": 8,
                    "optimizer": {"name": "adamw", "lr": 1e-3, "state": "keep"},
                },
                "sync": {"name": "except", "groups": ["class_token"]},
                "aggregator": {"name": "fedavg"},
            }
        ],
    },
    "fedperl": {
        "data": {"label_fraction": 0.4},
        "stages": [
            {
                "stage": "federate",
                "rounds": 3,
                "participation": 0.75,
                "objective": {
                    "name": "fixmatch",
                    "batch_size": 4,
                    "samples": 8,
                    "threshold": 0.1,
                    "optimizer": {"name": "adam", "lr": 1e-3},
                },
                "exchange": {"name": "peers", "warm_up": 1},
                "aggregator": {"name": "fedequal"},
            }
        ],
    },
}
