"""Monitoring, after the answer was sent: drift, shadow comparisons, and the decision log.

- `monitor`: what is done with every answer.
- `drift`: whether the pictures that come in look like those the model was tested on.
- `shadow`: a candidate release compared with production.
- `decision_log`: one line for every diagnosis.
"""
