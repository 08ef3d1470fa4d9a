"""The record of a scale, and the scale of a prompt file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judge_eval.errors import PromptError
from judge_eval.prompts import load_form
from judge_eval.schema import BINARY, GRADED, Scale
from tests.support.scales import FIVE, prompt_file


def test_the_shipped_scales_are_written_as_ever() -> None:
    """What stands in the manifests of old runs is read, and written the same again."""
    for scale, name in ((BINARY, "binary"), (GRADED, "graded")):
        record = {"name": name, "maximum": scale.maximum, "relevant": scale.relevant}
        assert scale.model_dump() == json.loads(scale.model_dump_json()) == record
        assert Scale.parse(record) == scale
    assert Scale.parse({"name": "graded", "maximum": 9, "relevant": 4}).words == "0-9 (relevant from 4)"


@FIVE
def test_a_scale_of_a_file_is_read_back_from_a_manifest(scale: Scale, tmp_path: Path) -> None:
    """Its record holds the levels; another threshold keeps them."""
    own = load_form(prompt_file(tmp_path, "pointwise", scale)).scale
    assert own.words == scale.words
    assert len(own.levels) == len(scale.grades)
    assert Scale.parse(json.loads(own.model_dump_json())) == own
    moved = own.relevant_from(scale.maximum)
    assert (moved.levels, moved.relevant) == (own.levels, scale.maximum)
    assert hash(moved) != hash(own) or scale.binary


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('relevant = 2\n[scale.levels]\n1 = "a"\n3 = "b"', "without a gap.*here are 1, 3"),
        ('relevant = 1\n[scale.levels]\nlow = "a"\n1 = "b"', "under its number"),
        ('relevant = 1\n[scale.levels]\n1 = "a"', "from the lowest to the highest"),
        ('[scale.levels]\n1 = "a"\n2 = "b"', "relevant: say which grade"),
        ('relevant = 1\n[scale.levels]\n1 = "a"\n2 = "b"', "not above the lowest grade 1"),
        ('relevant = 3\n[scale.levels]\n1 = "a"\n2 = "b"', "above the highest grade 2"),
        ('relevant = 2\nmaximum = 4\n[scale.levels]\n1 = "a"\n2 = "b"', "maximum: 4 is not that of"),
        ('relevant = 9\n[scale.levels]\n9 = "a"\n10 = "b"\n11 = "c"', "at most 10"),
        ('relevant = 2\nminimum = 0\nmaximum = 4\nlevels = ["a", "b"]', "2 describe the 5 grades 0-4"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(table: str, message: str, tmp_path: Path) -> None:
    """The message names what is wrong with the table."""
    file = prompt_file(tmp_path, "pointwise", GRADED)
    file.write_text(f"{file.read_text().partition('[scale]')[0]}[scale]\n{table}\n")
    with pytest.raises(PromptError, match=message):
        load_form(file)


def test_an_unknown_name_of_a_scale_says_which_there_are(tmp_path: Path) -> None:
    """A name is one of the shipped scales."""
    file = prompt_file(tmp_path, "pointwise", GRADED)
    file.write_text('scale = "likert"\n' + file.read_text().partition("[scale]")[0])
    with pytest.raises(PromptError, match=r"'binary' or 'graded'"):
        load_form(file)


def test_a_scale_is_written_without_its_defaults() -> None:
    """A record that holds a scale is written without defaults too, as a file of a fitted cascade is."""
    written = BINARY.model_dump(mode="json", exclude_defaults=True)
    assert Scale.model_validate({**BINARY.model_dump(), **written}) == BINARY
    assert "minimum" not in written
    assert "levels" not in written
