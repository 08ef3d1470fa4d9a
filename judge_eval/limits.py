"""What a record may hold at most: every limit on data, each in one place, checked where data come in."""

from typing import Final

DEPTH: Final = 64
"""How deep `metadata` may nest, its own braces counted: `{"a": {"b": 1}}` is 2 deep.

Readers of JSON give up at 200 levels, and a result wraps a trace into a few more."""
DIGITS: Final = 100
"""Digits of a whole number inside `metadata`; readers of JSON give up at 4,300."""
ID: Final = 10_000
"""Characters of the id of a trace or a chunk, and of a tag."""
CHUNKS: Final = 10_000
"""Chunks of a trace."""
TAGS: Final = 1_000
"""Tags of a trace."""
TOTAL: Final = 1_000_000
"""The largest `relevant_total`: each chunk of it that was not retrieved is a line of TREC judgments."""
POOL: Final = 100_000
"""Grades of a trace's `pool`."""
TURNS: Final = 10_000
"""Turns of the conversation before a question."""
CLAIMS: Final = 1_000
"""Claims of a reference."""
NUMBER: Final = 2**31 - 1
"""The largest `label`; the least is 0."""
GRADE: Final = 10
"""The highest grade of a scale."""
LINE: Final = 32 * 2**20
"""Bytes of a trace written as one line of JSON, and of a line of a JSON Lines file that is read.

A result wraps its trace with what the judge said, and fits into one request to a server (64 MiB)."""
JSON: Final = 2**30
"""Bytes of a JSON file that is read: all of it is held in memory."""
ESCAPED: Final = 6
"""The most bytes that one character takes in a line of JSON."""
LABEL: Final = 500
"""Characters of what people call a run that is submitted to a server."""
HREF: Final = 2_000
"""Characters of the address of where such a run belongs."""
RUN_TAGS: Final = 50
"""Tags of such a run."""
UNPACKED: Final = 2**30
"""The most bytes of a packed file after unpacking."""
RATIO: Final = 100
"""How many times its own size a packed file may be beyond that; a bomb is packed to next to nothing."""
WORKBOOK: Final = 256 * 2**20
"""Bytes of an `.xlsx` workbook unpacked; its texts are held in memory."""
