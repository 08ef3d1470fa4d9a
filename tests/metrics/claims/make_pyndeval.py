"""Write `pyndeval.json`: random matrices with what pyndeval (to be installed) makes of them."""

import json
import random
from pathlib import Path

import pyndeval


def figures(rows: list[list[int]], alpha: float) -> dict[str, float]:
    """What pyndeval says of one list, its documents' ids falling with the rank."""
    cutoffs = (1, 2, 3, 5, 10, 20)
    qrels = [("q", f"c{j}", f"d{900 - rank}", cell) for rank, row in enumerate(rows) for j, cell in enumerate(row)]
    run = [("q", f"d{900 - rank}", -float(rank)) for rank in range(len(rows))]
    names = {f"alpha-nDCG@{k}": f"alpha-NDCG(alpha={alpha})@{k}" for k in cutoffs}
    names |= {f"ERR-IA@{k}": f"ERR-IA(alpha={alpha})@{k}" for k in cutoffs if k > 1}
    result = pyndeval.ndeval(qrels, run, measures=list(names), alpha=alpha)["q"]
    return {ours: result[theirs] for theirs, ours in names.items()}


if __name__ == "__main__":
    chance = random.Random(7)
    cases = []
    for _ in range(60):
        claims, share = chance.randint(1, 8), chance.choice([0.1, 0.3, 0.6])
        rows = [[int(chance.random() < share) for _ in range(claims)] for _ in range(chance.randint(1, 14))]
        made = {name: value for alpha in (0.5, 0.25) for name, value in figures(rows, alpha).items()}
        cases.append({"rows": rows, "figures": made})
    Path(__file__).with_name("pyndeval.json").write_text(json.dumps(cases) + "\n")
