"""What an answer leaves behind to be judged later, and what became of the patient: a database of its own.

Neither a picture nor a fact about a person is in it, but the subgroup of the declared skin tone: of an
answer its id, day, version and the ranges of its scores; of an outcome a label, who confirmed it and when.
It is apart from the registry's database, which is kept for good and is copied around: what is here is kept
for as long as the operator says.

- `tables`: the schema.
- `answer`, `outcome`: what is kept of either, checked.
- `store`: opening, recording, giving outcomes; `giving`: what becomes of an outcome.
- `looking`: what is known of one answer.
- `counts`: what figures are made of; `settled`: what of it may leave the database.
- `csv_file`, `importing`: outcomes as a file of another system has them; `exporting`: into one.
"""
