"""What the prompts cost: tokens of a trace of five chunks of 600 characters, counted by real vocabularies.

`python -m benchmarks.tokens` prints the figures that were counted, after seeing that the prompts are still
those that they were counted of. To count anew, without any package of this project:

    npm install --prefix /tmp/vocabularies gpt-tokenizer@4.0.0
    python -m benchmarks.tokens --count /tmp/vocabularies
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judge_eval import Chunk, Trace
from judge_eval.judges import Splitting
from judge_eval.judges.judge import make_judge
from judge_eval.prompts import load_prompt, prompt_ids, prompt_versions
from judge_eval.registry import MODES
from judge_eval.schema import Claim

HERE = Path(__file__).parent
KEPT = HERE / "tokens.json"
DATA = HERE.parent / "fixtures" / "docs_qa.jsonl"
CHUNKS, CHARACTERS = 5, 600
CLAIMS = {
    "short answer": (Claim(id="1", text="The director of the film The Long Harvest was born in Uppsala."),),
    "long answer": (
        Claim(id="1", text="Invoices are exported in Tallyho under Reports, Invoices."),
        Claim(id="2", text="A date range is picked before invoices are exported in Tallyho."),
        Claim(id="3", text="Export and then CSV exports invoices from Tallyho as a CSV file."),
        Claim(id="4", text="Exports above 5,000 rows arrive by e-mail instead of downloading at once."),
    ),
}
"""What the references of the traces claim, as a strong model splits them."""
VOCABULARIES = ("o200k_base", "cl100k_base")
COUNTING = """
const fs = require("fs"), texts = JSON.parse(fs.readFileSync(0)), counts = {};
for (const name of JSON.parse(process.argv[1])) {
  const { encode } = require("gpt-tokenizer/encoding/" + name);
  counts[name] = texts.map((messages) => messages.reduce((sum, text) => sum + encode(text).length, 0));
}
console.log(JSON.stringify(counts));
"""


def traces() -> dict[str, Trace]:
    """Make the two traces: a question with a short answer, and one with an answer of two sentences."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    text = " ".join(chunk["text"] for row in rows for chunk in row["chunks"])
    shown = [text[n * CHARACTERS : (n + 1) * CHARACTERS] for n in range(CHUNKS)]
    chunks = [Chunk(id=f"c{n}", text=text) for n, text in enumerate(shown, 1)]
    asked = {
        "short answer": ("In which town was the director of the film The Long Harvest born?", "Uppsala"),
        "long answer": (rows[0]["query"], rows[0]["reference"]),
    }
    return {
        name: Trace(id=name, query=query, reference=answer, answer=answer, chunks=chunks)
        for name, (query, answer) in asked.items()
    }


def conversations(ref: str, trace: Trace) -> list[list[str]]:
    """Return the texts of the messages of each request of the first round."""
    mode = load_prompt(ref).mode
    if mode == "split":
        return [[message.content for message in Splitting(ref).request(trace).messages]]
    assert mode in MODES
    if mode.startswith("claims"):
        trace = trace.model_copy(update={"claims": CLAIMS[trace.id]})
    requests = next(make_judge(ref, mode).plan(trace))
    return [[message.content for message in request.messages] for request in requests]


def texts() -> dict[str, dict[str, list[list[str]]]]:
    """Return all that is counted, by prompt and trace."""
    refs = [
        f"{name}@{version}"
        for name in prompt_ids()
        for version in prompt_versions(name)
        if "together" not in name  # which is asked where replies make it so
    ]
    made = traces()
    return {ref: {name: conversations(ref, trace) for name, trace in made.items()} for ref in refs}


def fingerprint(said: list[list[str]]) -> str:
    """Digest what was counted, so that a figure is known to be of this text."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def count(folder: Path) -> dict[str, Any]:
    """Count the tokens by the vocabularies that an npm package in a folder carries."""
    lines: dict[str, Any] = {}
    for ref, by_trace in texts().items():
        for name, answers in by_trace.items():
            done = subprocess.run(
                ["node", "-e", COUNTING, json.dumps(VOCABULARIES)],
                input=json.dumps(answers).encode(),
                cwd=folder,
                stdout=subprocess.PIPE,
                check=True,
            )
            tokens = {vocabulary: sum(each) for vocabulary, each in json.loads(done.stdout).items()}
            characters = sum(len(text) for messages in answers for text in messages)
            row = {**tokens, "characters": characters, "of": fingerprint(answers)}
            lines.setdefault(ref, {})[name] = row
    return lines


def stale(kept: Mapping[str, Any]) -> list[str]:
    """Name the prompts whose text is not the one that was counted."""
    return [
        f"{ref}, {name}"
        for ref, by_trace in texts().items()
        for name, answers in by_trace.items()
        if kept.get(ref, {}).get(name, {}).get("of") != fingerprint(answers)
    ]


def main() -> None:
    """Print the figures, counted anew where a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=Path, metavar="FOLDER", help="in which npm installed gpt-tokenizer")
    args = parser.parse_args()
    if args.count is not None:
        KEPT.write_text(json.dumps(count(args.count), indent=1) + "\n", encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    if old := stale(kept):
        parser.error(f"counted of another text: {'; '.join(old)}; count anew")
    for ref, by_trace in kept.items():
        for name, row in by_trace.items():
            figures = "  ".join(f"{vocabulary} {row[vocabulary]:>5}" for vocabulary in VOCABULARIES)
            most = row["characters"] / row[VOCABULARIES[0]]
            print(f"{ref:<28}{name:<14}{figures}  {most:.2f} characters a token")


if __name__ == "__main__":
    main()
