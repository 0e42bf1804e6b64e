"""A hospital's pictures: from a folder and a table to the arrays that training gets.

prepare.py, prepared.py  from a job's `data` block to the data set that training reads
sources.py                the manifests that a job names, the rows that it keeps, and a node's own
cli.py                    `dermfed-data`
adapters/                 from published data sets and tables of one's own to manifests
manifest.py, manifest_file.py, delimited.py      rows in memory; as CSV; tables as spreadsheets save them
picture_files.py, picture_names.py               reading and decoding pictures; from a name to a file
label_map.py, subgroups.py, case_groups.py       classes, subgroups, and pictures of one lesion
partition*.py, enough_patients.py                clients and splits; whether a selection holds enough patients
check.py, quality.py, tones.py, near_duplicate*.py  problems, counts, tones and leaks before a job runs
withdraw.py               leaving a patient out
synthetic.py              pictures that are drawn
cell_values.py            values that cannot be read, and what each may mean
taxonomy.py               what the known codes of diagnoses mean, and whether they are malignant
errors.py, output.py      used by all
"""
