"""From a manifest of one's own to a commented job file: `dermfed-train init`.

manifests.py  what the manifests hold, as far as a job goes by it
labels.py     what is asked of the model: a label map proposed from the labels that occur
parties.py    who the clients are
tones.py      subgroups: groups proposed from the skin tones that occur
lesions.py    whether pictures or whole lesions are diagnosed, and what is known of a lesion
machines.py   where it runs: the network, the pictures' size and the stages
writing.py    the job file's text, from `job.yaml.j2`
answers.py    the five questions, their proposals and answers
warnings.py   what the answers leave out
command.py    the command
"""
