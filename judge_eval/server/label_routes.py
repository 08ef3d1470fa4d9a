"""The routes of labels that people give to the chunks of a run."""

from typing import Any

from fastapi import APIRouter

from judge_eval.errors import DataError
from judge_eval.runs.folder.labels import Label, add_label, people_labels
from judge_eval.runs.scoring.rescore import scale_of
from judge_eval.server.models import GivenLabel, RunName
from judge_eval.server.served_runs import MissingTraceError, ServedRuns
from judge_eval.study.matching import labels_by_person
from judge_eval.study.people import agree_people
from judge_eval.views.agreement import people_sentence


def make_label_routes(runs: ServedRuns) -> APIRouter:
    """Make the routes that list labels, say how far people agree, and take a label."""
    api = APIRouter()

    @api.get("/runs/{run_id}/labels", tags=["labels"])
    def get_labels(run_id: RunName) -> list[Label]:
        """List the human labels given after the run, each person's last one of a chunk."""
        return [label for labels in people_labels(runs.library.find(str(run_id))[0]).values() for label in labels]

    @api.get("/runs/{run_id}/agreement", tags=["labels"])
    def get_agreement(run_id: RunName) -> dict[str, Any]:
        """Tell how far the judge agrees with the labels, as `agree --json` does; beside the server's floor, if any."""
        return runs.agreement(str(run_id))

    @api.get("/runs/{run_id}/people", tags=["labels"])
    def get_people(run_id: RunName) -> dict[str, Any]:
        """Tell how far people agree, and list the chunks on which they differ, undecided ones first."""
        folder = runs.library.find(str(run_id))[0]
        run, labels = runs.library.table(str(run_id)).run, people_labels(folder)
        people = labels_by_person(run)
        differing = []
        for (trace, chunk), each in labels.items():
            if len({label.label for label in each if not label.final}) > 1:
                shown = [label.model_dump(include={"by", "label", "comment", "final"}) for label in each]
                decided = any(label.final for label in each)
                differing.append({"trace": trace, "chunk": chunk, "labels": shown, "decided": decided})
        pairs = agree_people(people, scale_of(run))
        return {
            "people": [{"by": name, "n": len(grades)} for name, grades in people.items()],
            "pairs": [people_sentence(pair) for pair in pairs],
            "differing": sorted(differing, key=lambda each: each["decided"]),
        }

    @api.post("/runs/{run_id}/labels", status_code=201, tags=["labels"])
    def give_label(run_id: RunName, label: GivenLabel) -> Label:
        """Give a chunk a human label, or take one back."""
        _, scale, _, result = runs.result(str(run_id), label.trace_id)
        if all(chunk.id != label.chunk_id for chunk in result.trace.chunks):
            raise MissingTraceError("this trace does not have a chunk with this id")
        if label.label is not None and label.label > scale.maximum:
            raise DataError(f"the run's scale ends at {scale.maximum}", field="label")
        if label.label is not None and label.label < scale.minimum:
            raise DataError(f"the run's scale begins at {scale.minimum}", field="label")
        record = Label(**label.model_dump())
        add_label(runs.library.find(str(run_id))[0], record)
        return record

    return api
