"""What people read of a judge's biases."""

from judge_eval.safe_text import counted
from judge_eval.study.bias import LEAST_EFFECT, BiasReport
from judge_eval.views.blocks import Column, Section, Sentence, TableBlock, Toned, View
from judge_eval.views.note_sentences import ties_sentence


def bias_view(report: BiasReport) -> View:
    """Build the table of features, the surest bias first, and what it cannot say."""
    columns = (
        *(Column("feature"), Column("step"), Column("change of P(relevant)", "signed")),
        *(Column("95% interval", "signed interval"), Column("p (Holm)", "p"), Column("detectable", "number")),
        Column("verdict"),
    )
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
            TableBlock("biases", columns, rows),
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
