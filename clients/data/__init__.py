"""A hospital's pictures: from a folder and a table to the arrays that training gets.

prepare.py, prepared.py  from a job's `data` block to the data set that training reads
sources.py                the manifests that a job names, the rows that it keeps, and a node's own
cli.py                    `dermfed-data`
adapters/ manifests/ pictures/ labels/ partition/ inspect/  one step each
synthetic.py              pictures that are drawn
cell_values.py            values that cannot be read, and what each may mean
taxonomy.py               what the known codes of diagnoses mean, and whether they are malignant
errors.py, output.py      used by all
"""
