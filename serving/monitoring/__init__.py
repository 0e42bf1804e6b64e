"""Monitoring, after the answer was sent: drift, what became of patients, and the decision log.

- `monitor`: what is done with every answer.
- `drift`: whether the pictures that come in look like those the model was tested on.
- `decision_log`, `day_files`: one line for every diagnosis, in one file a day.
- `outcomes`, `field`: answers that are kept so that their outcomes can be given, and metrics of these.
"""
