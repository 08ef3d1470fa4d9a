"""What people read of a judge's biases."""

from judge_eval.safe_text import counted
from judge_eval.study.bias import LEAST_EFFECT, BiasReport
from judge_eval.views.blocks import Section, Sentence, TableBlock, TableColumns, Toned, View, make_table
from judge_eval.views.note_sentences import ties_sentence


def bias_view(report: BiasReport) -> View:
    """Build the table of features, the surest bias first, and what it cannot say."""
    columns: TableColumns = ["feature", "step", ("change of P(relevant)", "signed")]
    columns += [("95% interval", "signed interval"), ("p (Holm)", "p"), ("detectable", "number"), "verdict"]
    rows = tuple(
        (
            *(b.feature.replace(" =", ": "), b.step, b.effect, b.interval, b.p, b.detectable),
            Toned(b.verdict, "bad" if b.verdict == "biased" else "plain"),
        )
        for b in report.biases
    )
    blocks: list[Sentence | TableBlock] = [
        Sentence(
            f"{report.judge} in {report.run}: {counted(report.chunks, 'labelled chunk')} of {report.traces:,} traces"
        )
    ]
    if rows:
        blocks += [
            make_table("biases", columns, rows),
            Sentence(
                f"`none seen`: a change of {LEAST_EFFECT:g} would be seen with 80% power; `cannot say`: it might not"
            ),
        ]
    if report.ties:
        blocks.append(Sentence(ties_sentence(report.ties), "doubtful"))
    if report.rank_in_list is not None:
        blocks.append(
            Sentence(
                f"from the top of a list to its end the share of relevant verdicts on the same chunk "
                f"changes by {report.rank_in_list.text}"
            )
        )
    return View("bias", (Section("biases", tuple(blocks)),))
