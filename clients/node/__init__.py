"""A hospital's node in a federation: the command `dermfed-node`, and what answers the coordinator.

cli.py, check.py, show_journal.py       the command: kits, is this node fit to take part, what has left it
connection.py                           the way to the coordinator, with or without a proxy
hospital.py                             the component that FLARE makes for a job, and its process
chunk_receiver.py                       long questions and answers in chunks
door.py, journal.py, traces.py          all that leaves goes out here, and is entered
request_handler.py, one_question.py, canary_guard.py  answering, once, whatever is killed
policy.py, policy_guard.py, policy_verdict.py  what this hospital allows
identity.py                             what it signs sums with, and which hospitals it knows
own_data.py                             the node's pictures as the job asks for them
"""
