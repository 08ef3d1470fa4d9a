"""Readers of traces.

Reading takes three steps that are independent of each other, so that any shape may stand in any container:

1. A **container** (`files/containers`: JSON Lines, JSON, CSV, TSV, Parquet, a worksheet) turns a file into
   records, one by one, each with its place; in JSON, which is held in memory, the list of records may stand
   anywhere (`files/jsonfile`). A record that cannot be read is an error at its place, not the end of the file.
2. A **shape** (`shapes/shape.Shape`) is a value: a name, `fits(keys)` on all keys of the first records
   together, and `read(record)`, which yields the data of the traces in a record. A shape is one file of `shapes/`,
   which `catalog` finds; installed packages add theirs under the entry point group `judge_eval.readers`. If two shapes
   fit, the error names both and the option `format`. If none fits, it names the keys and the nearest shape.
3. A **chunk** is recognised by its fields (`shapes/chunks`), in every shape alike; a chunk that has only an
   id takes its text from the corpus.

The options of reading (`options.ReadOptions`) are the same for flags, settings and Python: `mapping` maps
fields to ours and groups rows of one passage. `remarks` counts what is worth knowing, and keeps ids unique.

Collections of several files (`collection`: a BEIR folder, TREC topics with run and qrels) are joined instead.
`reading.open_dataset` is the one way in. Our own JSON Lines skip all of this (`files/jsonl`). Data in memory (`memory`:
frames, tables, datasets, lists) enters at the second step (`reading.RowReader`), as named records.
"""
