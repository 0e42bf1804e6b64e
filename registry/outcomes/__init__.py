"""Post-deployment monitoring: which answers of a service turned out right.

- `store`: the database of answers and outcomes; `intake`: outcomes as text and as CSV files.
- `metrics`: sensitivity, specificity and coverage by version and subgroup, and the evidence against targets.
- `alarms`: missed targets as events of the registry.
"""
