"""Families of metrics, one file each: every module here brings its functions with a `Spec` beside them.

A function takes a `GradeTable`, the cutoff `k` (None: the whole list) and the parameters of its `Spec`. It
returns float64, one value a row, within the limits of the `Spec`. A metric over claims returns NaN for a
trace without claims, and raises a `MetricError` if nobody judged by claims.

A module has `SPECS`, the metrics that it brings, and may have `ALIASES`, other spellings of names in the RAG
spelling. Another file in this folder is found without being named anywhere.
"""
