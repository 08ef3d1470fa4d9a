"""Laws of metrics over claims, on any small trace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_eval.metrics import Metric, parse_metric
from tests.support.examples import examples, mostly_slow
from tests.support.naive_claims import VARIANTS, Case, cases, table_of

CUTS = (None, 1, 2, 3, 4, 6, 9)
ONCE = [name for name in VARIANTS if "dedup=none" not in name and not name.startswith("Redundancy")]
"""Whatever more of it means good or, as `Conflict`, bad."""
RISING = ("ClaimRecall", "Sufficiency", "NuggetRecall")
UNORDERED = (*RISING, "ClaimPrecision", "Novelty", "Conflict")


def values(name: str, *many: Case) -> list[float]:
    """A metric of several traces."""
    return parse_metric(name).compute(table_of(many)).tolist()  # type: ignore[no-any-return]


def at(name: str, k: int | None) -> str:
    """The metric with another cutoff."""
    metric = parse_metric(name)
    return str(Metric(metric.name, k, metric.params))


def repeated(case: Case, chunk: int, place: int) -> Case:
    """The trace with a chunk's text once more at a later rank."""
    rows, repeats = list(case.rows), [False] * len(case.rows)
    rows.insert(place, case.rows[chunk])
    repeats.insert(place, True)
    return replace(case, rows=tuple(rows), repeats=tuple(repeats))


@pytest.mark.parametrize("name", mostly_slow(ONCE, every=4))
@examples(12)
@given(data=st.data(), k=st.sampled_from(CUTS))
def test_a_repeated_chunk_never_raises_a_metric(name: str, data: st.DataObject, k: int | None) -> None:
    """Wherever below the first it stands, and whatever it pushes beyond the cutoff."""
    case = data.draw(cases().filter(lambda case: case.rows and case.vital))
    case = replace(case, repeats=())
    chunk = data.draw(st.integers(0, len(case.rows) - 1))
    place = data.draw(st.integers(chunk + 1, len(case.rows)))
    before, after = values(at(name, k), case, repeated(case, chunk, place))
    assert not after > before + 1e-12


@pytest.mark.parametrize("name", ["Redundancy", "Redundancy(least=partial)"])
@examples(80)
@given(data=st.data(), k=st.sampled_from(CUTS))
def test_a_repeat_of_a_supporting_chunk_never_lowers_redundancy(name: str, data: st.DataObject, k: int | None) -> None:
    """It brings nothing new; what it pushes beyond the cutoff cannot have been more idle."""
    case = data.draw(cases(words=("none", "partial", "full")).filter(lambda case: case.rows and case.vital))
    case = replace(case, repeats=())
    counting = {"full", "partial"} if "partial" in name else {"full"}
    helpful = [i for i, row in enumerate(case.rows) if counting & set(row)]
    if not helpful:
        return
    chunk = data.draw(st.sampled_from(helpful))
    place = data.draw(st.integers(chunk + 1, len(case.rows)))
    before, after = values(at(name, k), case, repeated(case, chunk, place))
    assert after >= before - 1e-12


@pytest.mark.parametrize("name", mostly_slow([name for name in VARIANTS if name.startswith(RISING)], every=4))
@examples(12)
@given(case=cases().filter(lambda case: any(case.vital)))
def test_what_is_covered_stays_covered_further_down(name: str, case: Case) -> None:
    """Recall, sufficiency and nugget scores never fall with K."""
    items = [values(at(name, k), case)[0] for k in (1, 2, 3, 4, 5, 6, 7, None)]
    assert items == sorted(items)


@pytest.mark.parametrize("name", mostly_slow([name for name in VARIANTS if name.startswith(UNORDERED)], every=4))
@examples(12)
@given(data=st.data())
def test_the_order_of_a_whole_list_does_not_matter(name: str, data: st.DataObject) -> None:
    """To metrics that ask what is there and not where."""
    case = replace(data.draw(cases().filter(lambda case: any(case.vital))), repeats=())
    other = replace(case, rows=tuple(data.draw(st.permutations(case.rows))))
    assert values(name, case) == values(name, other)


@pytest.mark.parametrize("name", mostly_slow(VARIANTS, every=4))
@examples(8)
@given(data=st.data(), k=st.sampled_from(CUTS))
def test_the_order_of_the_claims_does_not_matter(name: str, data: st.DataObject, k: int | None) -> None:
    """To any metric."""
    case = data.draw(cases().filter(lambda case: any(case.vital)))
    order = data.draw(st.permutations(range(len(case.vital))))
    other = Case(
        tuple(tuple(row[j] for j in order) for row in case.rows),
        tuple(case.vital[j] for j in order),
        tuple(case.asked[j] for j in order),
        case.repeats,
    )
    before, after = values(at(name, k), case, other)
    assert after == pytest.approx(before, abs=1e-12)


@examples(60)
@given(case=cases(words=("none", "full")).filter(lambda case: case.rows and case.vital))
def test_a_list_in_the_ideal_order_is_exactly_one(case: Case) -> None:
    """Put in the order in which each next chunk gains most, a list with any support has alpha-nDCG 1.0."""
    left, order = list(range(len(case.rows))), []
    seen = [0] * len(case.vital)
    while left:
        gains = [sum(0.5 ** seen[j] for j, word in enumerate(case.rows[i]) if word == "full") for i in left]
        chosen = left.pop(gains.index(max(gains)))
        order.append(chosen)
        seen = [n + (word == "full") for n, word in zip(seen, case.rows[chosen], strict=True)]
    ideal = Case(tuple(case.rows[i] for i in order), case.vital)
    supported = any("full" in row for row in case.rows)
    for k in (1, 3, None):
        assert values(at("alpha-NDCG", k), ideal) == [float(supported)]
