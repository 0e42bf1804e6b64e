"""A job: its file, its stages, and its run.

- `job`, `settings`, `job_file`, `recipes`, `compatibility`: the job file, and checks of it
- `stages`: the steps of a job
- `pipeline`, `stage_result`, `run_folder`, `registrar`: a run, and what it leaves
- `client_app`: a client's answers, filtered before they leave
- `tracking`: curves in TensorBoard or MLflow
"""
