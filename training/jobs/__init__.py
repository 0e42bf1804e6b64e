"""A job: its file, its stages, and its run.

- `job_file`, `recipes`, `settings`, `job`: the job file, and checks of it
- `stages`: the steps of a job
- `preflight`, `disclosure_report`: what is known of a run before it begins
- `contexts`, `pipeline`, `run_folder`: a run, and what it leaves
- `client_app`, `noise_plan`: a client's answers, filtered before they leave
- `tracking`: curves in TensorBoard or MLflow
"""
