"""In which order the stages of a job may stand; one from elsewhere comes last."""

ORDER = (
    "pretrain",
    "probe",
    "finetune",
    "federate",
    "personalize",
    "export",
    "calibrate",
    "register",
)
