"""Whether a question can be answered is read as each dataset says it, and never guessed."""

import json
from pathlib import Path
from typing import Any

import pytest

from judge_eval import Trace, open_dataset
from judge_eval.errors import DataError
from judge_eval.schema import ANSWERABLE

CHUNKS = ["The sauna opens at ten."]


def read(tmp_path: Path, record: dict[str, Any], **options: Any) -> tuple[Trace, list[str]]:
    """Read a record from a file, with the remarks."""
    path, remarks = tmp_path / "traces.jsonl", list[str]()
    path.write_text(json.dumps(record) + "\n")
    (trace,) = open_dataset(path, on_remark=lambda text, _: remarks.append(text), **options)
    return trace, remarks


@pytest.mark.parametrize(("word", "answerable"), ANSWERABLE.items())
def test_the_words_of_datasets_are_read(tmp_path: Path, word: str, answerable: bool | None) -> None:
    """Under our name, another one that the option names, and MTRAG's, whose word becomes a tag."""
    record = {"query": "q", "chunks": CHUNKS}
    for spelled in (word, word.upper()):
        assert read(tmp_path, {**record, "answerable": spelled})[0].answerable is answerable
        assert read(tmp_path, {**record, "kind": spelled}, map={"answerable": "kind"})[0].answerable is answerable
    trace, remarks = read(tmp_path, {**record, "Answerability": [word.upper()], "tags": ["a"]})
    assert (trace.answerable, trace.tags, remarks) == (answerable, ("a", word), [])


SAID: dict[str, tuple[dict[str, Any], dict[str, Any], bool | None]] = {
    "ours": ({"query": "q", "chunks": CHUNKS, "answerable": False}, {}, False),
    "a number": ({"query": "q", "chunks": CHUNKS, "answerable": 1}, {}, True),
    "nothing": ({"query": "q", "chunks": CHUNKS, "reference": ""}, {}, None),
    "SQuAD's flag": ({"query": "q", "chunks": CHUNKS, "is_impossible": True}, {}, False),
    "SQuAD's other flag": ({"query": "q", "chunks": CHUNKS, "is_impossible": False}, {}, True),
    "SQuAD": ({"question": "q", "context": "c", "answers": {"text": []}}, {}, False),
    "SQuAD with an answer": ({"question": "q", "context": "c", "answers": {"text": ["c"]}}, {}, None),
    "ClapNQ": (
        {"input": "q", "passages": [{"sentences": CHUNKS}], "output": [{"answer": "", "selected_sentences": []}]},
        {},
        False,
    ),
    "NoMIRACL": (
        {"query": "q", "positive_passages": [], "negative_passages": [{"docid": "d", "text": "t"}]},
        {},
        False,
    ),
    "MS MARCO": (
        {"query": "q", "answers": ["No Answer Present."], "passages": {"passage_text": CHUNKS}},
        {"map": {"reference": "answers.0", "chunks": "passages", "query": "query"}},
        False,
    ),
    "mtrag": (
        {"input": [{"speaker": "user", "text": "q"}], "contexts": [], "targets": [], "Answerability": ["PARTIAL"]},
        {},
        True,
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_each_dataset_says_it_in_its_own_way(tmp_path: Path, name: str) -> None:
    """No text that stands for a missing answer becomes a reference, and an empty reference alone says nothing."""
    record, options, answerable = SAID[name]
    trace, _ = read(tmp_path, record, **options)
    assert trace.answerable is answerable
    assert trace.reference in (None, "", "c")
    assert not {"answerable", "is_impossible", "Answerability"} & trace.metadata.keys()


def test_an_unknown_word_is_an_error_or_a_remark_that_lists_the_words(tmp_path: Path) -> None:
    """An error under our name; another dataset may mean something else by its own."""
    record = {"query": "q", "chunks": CHUNKS}
    for given in ({**record, "answerable": "maybe"}, {**record, "kind": "maybe"}):
        options = {} if "answerable" in given else {"map": {"answerable": "kind"}}
        with pytest.raises(DataError, match="'maybe' is not one of true, yes, 1, answerable"):
            read(tmp_path, given, **options)
    trace, (remark,) = read(tmp_path, {**record, "answerability": "maybe"})
    assert (trace.answerable, trace.metadata) == (None, {"answerability": "maybe"})
    assert remark.startswith("`answerability` is not read: 'maybe' is not one of true, yes")


def test_the_flag_is_part_of_no_digest() -> None:
    """What the dataset says of a question changes nothing that is asked."""
    trace = Trace.parse({"query": "q", "chunks": CHUNKS})
    assert trace.replace(answerable=False).digest == trace.digest
