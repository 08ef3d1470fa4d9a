"""Readers of traces.

Reading takes three steps that know nothing of each other, so that any shape may stand in any container:

1. A **container** (`containers`: JSON Lines, JSON, CSV, TSV, Parquet, a worksheet) turns a file into records,
   one by one, each with its place; in JSON their list is found wherever it stands (`files/jsonlists`). One
   that cannot be read is an error at its place, not the end of the file.
2. A **shape** (`shape.Shape`) is a value: a name, `fits(keys)` on the whole set of keys of the first records,
   and `read(record)`, which yields the data of no, one or several traces. `catalog` holds ours; installed
   packages add theirs under the entry point group `judge_eval.readers`. Where two shapes fit nothing is
   guessed: the error names both and `--format`. Where none fits it names the keys and the nearest shape.
3. A **chunk** is recognised by what it brings (`chunks`), the same for every shape; one that brings only an
   id takes its text from the corpus.

What people say of data (`options.ReadOptions`) is the same for flags, settings and Python: `mapping` puts
fields under our names, `grouping` joins rows of one passage. `ids` keeps ids unique, `remarks` counts what
is worth knowing.

Collections of several files (`collection`: a BEIR folder, TREC topics with run and qrels) are joined instead.
`reading.open_dataset` is the one way in. Our own JSON Lines skip all of this (`jsonl`). What is in memory
(`memory`: frames, tables, datasets, lists) enters at the second step (`telling`), as named records.
"""
