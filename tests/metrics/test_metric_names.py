from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.errors import UnknownNameError
from judge_eval.metrics import Metric, families, parse_metric
from judge_eval.metrics.metric import SPECS


@st.composite
def metrics(draw: st.DrawFn) -> Metric:
    """Any metric that can be written."""
    spec = draw(st.sampled_from(list(SPECS.values())))
    cutoff = draw(st.integers(1, 10**9))
    if spec.cutoff == "none" or (spec.cutoff == "optional" and draw(st.booleans())):
        cutoff = None
    params = []
    for parameter in draw(st.permutations(spec.parameters)):
        if draw(st.booleans()):
            numbers = [0, 0.25, 0.1, 0.000001, 1] if parameter.number == "share" else list(range(1, 10))
            choices = list(parameter.choices) or numbers
            params.append((parameter.name, draw(st.sampled_from(choices))))
    if cutoff is None:
        params = [pair for pair in params if pair != ("norm", "k")]
    return Metric(spec.name, cutoff, tuple(params), spec.family)


@given(metrics())
def test_name_parses_back(metric: Metric) -> None:
    """The text of a metric parses back to an equal metric with an equal hash."""
    again = parse_metric(str(metric))
    assert again == metric
    assert hash(again) == hash(metric)
    assert str(again) == str(metric)
    assert parse_metric(metric) is metric


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ContextPrecision@5", "AP@5"),
        ("nDCG@10", "NDCG@10"),
        ("Precision@3", "P@3"),
        (" NDCG( ideal=judged , gain=exp )@10 ", "NDCG(gain=exp,ideal=judged)@10"),
        ("P(norm=retrieved)@5", "P@5"),
        ("P_5(rel=2)", "P_5(rel=2)"),
        ("MAP@5", "MAP@5"),
        ("map", "map"),
        ("alpha_nDCG@10", "alpha-NDCG@10"),
        ("alphaNDCG(alpha=.50)@10", "alpha-NDCG@10"),
        ("alpha-nDCG(alpha=.250)", "alpha-NDCG(alpha=0.25)"),
        ("ERR_IA(alpha=0)@5", "ERR-IA(alpha=0)@5"),
        ("ClaimRecall(of=vital,partial=half)@5", "ClaimRecall(partial=half,of=vital)@5"),
        ("NuggetRecall(score=vital_strict)@5", "NuggetRecall@5"),
    ],
)
def test_one_spelling_is_printed(text: str, canonical: str) -> None:
    """Aliases, spaces, the order of parameters and defaults leave no trace in the name."""
    assert str(parse_metric(text)) == canonical


@pytest.mark.parametrize(
    ("typo", "advice"),
    [
        ("APP@5", "no metric 'APP@5'; did you mean 'AP@5'"),
        ("AP5", "no metric 'AP5'; did you mean 'AP@5'?"),
        ("AP_5", "no metric 'AP_5'; did you mean 'AP@5'?"),
        ("ap@5", "no metric 'ap@5'; did you mean 'AP@5'?"),
        ("NDGC@10", "no metric 'NDGC@10'; did you mean 'NDCG@10'"),
        ("map@5", "no metric 'map@5'; did you mean 'MAP@5' or 'map_cut_5'?"),
        ("P5", "no metric 'P5'; did you mean 'P@5' or 'P_5'?"),
        ("recall@5", "no metric 'recall@5'; did you mean 'Recall@5' or 'recall_5'?"),
        ("AP@0", "no metric 'AP@0'; a cutoff is a whole number of at least 1, as in 'AP@5'"),
        ("AP@-1", "no metric 'AP@-1'; a cutoff is a whole number of at least 1, as in 'AP@5'"),
        ("P_0", "no metric 'P_0'; a cutoff is a whole number of at least 1, as in 'P_5'"),
        ("AP@5.0", "a cutoff is a whole number of at least 1"),
        ("AP@٥", "a cutoff is a whole number of at least 1"),
        ("AP@99999999999999999999", "a cutoff is a whole number of at least 1"),
        ("NDCG(gain=expp)@10", "no gain of NDCG 'expp'; did you mean 'exp'?"),
        ("AP(reel=2)@5", "no parameter of AP 'reel'; did you mean 'rel'?"),
        ("P(rel=x)", "rel is the least relevant grade, a whole number from 1, as in rel=2"),
        ("P(rel=0)@5", "rel is the least relevant grade"),
        ("AP(5)", "parameters are written name=value"),
        ("AP()@5", "parameters are written name=value"),
        ("AP(rel=1,rel=2)@5", "rel is given twice"),
        ("P(norm=k)", "norm=k needs a cutoff, as in 'P(norm=k)@5'"),
        ("ndcg(gain=exp)", "ndcg takes no parameters"),
        ("map_cut", "it needs a cutoff, as in 'map_cut_5'"),
        ("recip_rank_5", "it has none; write 'recip_rank'"),
        ("quality", "known: AP, ClaimPrecision, ClaimRecall, Conflict, DCG, EAP"),
        ("alphandcg@5", "no metric 'alphandcg@5'; did you mean 'alpha-NDCG@5'?"),
        ("alpha-NDCG(alpha=2)@5", "alpha is a number from 0 to 1 with at most 6 decimals, as in alpha=0.5"),
        ("alpha-NDCG(alpha=half)@5", "alpha is a number from 0 to 1"),
        ("alpha-NDCG(alpha=0.1234567)@5", "alpha is a number from 0 to 1 with at most 6 decimals"),
        ("alpha--NDCG@5", "write a name"),
        ("", "write a name, its parameters and its cutoff"),
        ("AP@5; DROP", "a cutoff is a whole number"),
    ],
)
def test_typo_is_answered_with_what_would_be_right(typo: str, advice: str) -> None:
    """One clear message names the typo or its part, and what to write instead."""
    with pytest.raises(UnknownNameError) as caught:
        parse_metric(typo)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=20))
def test_any_text_is_a_metric_or_an_unknown_name(text: str) -> None:
    """Nothing that a user can type raises anything else."""
    try:
        metric = parse_metric(text)
    except UnknownNameError:
        return
    assert parse_metric(str(metric)) == metric


def test_a_metric_is_added_as_one_file(tmp_path: Path) -> None:
    """A module in the folder of families brings its metrics and their other spellings, named nowhere else."""
    package = tmp_path / "judge_eval"
    shutil.copytree(Path(families.__file__).parents[2], package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "metrics" / "families" / "firsts.py").write_text(
        "from judge_eval.metrics.families.relevance import count_relevant\n"
        "from judge_eval.metrics.spec import REL, rag\n"
        "SPECS = (rag('First', (REL,), lambda table, k=None, *, rel=None: count_relevant(table, 1, rel),\n"
        "             '1 where the first chunk is relevant, else 0'),)\n"
        "ALIASES = {'Top1': 'First'}\n"
    )
    code = (
        "from judge_eval.metrics import GradeTable, parse_metric\n"
        "table = GradeTable.from_rows([[2], [1]])\n"
        "print(parse_metric('Top1'), parse_metric('First(rel=2)').compute(table))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.stdout == "First [1. 0.]\n", result.stderr
