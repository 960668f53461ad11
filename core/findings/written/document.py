"""docs/findings.md, written from the same table as the page Findings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from core.findings.claim import PAPERS
from core.findings.judging import Finding
from core.findings.other_text import agreement, asked_of_both
from core.findings.training import hours_from_nothing, within_from_nothing
from core.findings.wording import bases_text, figure_text, range_text, rule_text, together

WIDTH = 100
NIGHT_HOURS = 12  # of two cores
INTRODUCTION = (
    "What five papers claim, and whether it holds here. Each claim is an experiment with a rule for the verdict "
    "in code (`core/findings/claims/`). A rule reads nothing but a table of figures with intervals. Unless the "
    "claim says that its figures were known, it was written before they were computed; but the shipped runs were there "
    "before, and some of their results were known. For claims that are not run yet the rule is fixed beforehand. This "
    "document is written by "
    "`python -m core findings --write`, and a test keeps it up to date. The page Findings shows the same.",
    "A claim *holds* only if every interval supports it, on every model and seed it was run on. It *does not hold* if "
    "an interval contradicts it. Otherwise the verdict is *cannot tell*, mostly because there are too few patients. "
    "Where a claim rests on several figures, their intervals are widened so that all hold together in 95 % of cases "
    "(Bonferroni). Differences between attacks or models resample the patients for both sides together, except for "
    "runs whose tables are not shipped: their intervals are combined as independent ones, which makes them wider. "
    "Several seeds are several figures, and each has to support the claim; seeds are averaged or pooled only where "
    "the claim says so.",
    "Ratios of perplexity and of spreads, differences of accuracy and rankings of conditions on the first seed rest "
    "on 100,000 resamples. At first they had 1,000, and the seed of the draws decided on two claims: J-c12 was "
    "“does not hold” and became “cannot tell”, L-c2 was “cannot tell” and became “holds”, until it was asked of three "
    "seeds. The rules did not change, and no other verdict did. Correlations and differences between membership "
    "attacks rest on 1,000 resamples, and on 20,000 where 0 is so near an end that the draws could decide: with other "
    "draws J-c42 was “holds” in a quarter of the cases.",
    "Claims with “public reports” in their title are asked of text that was not generated here: sample reports of "
    "mtsamples.com (CC0), each treated as a patient. The figures are shipped, the text is not. "
    "`python -m core findings J-c33 --run --public-notes mtsamples.txt` trains on it again. "
    "Claims with “real abstracts” in their title judge entities in sentences of PubMed (BC5CDR and NCBI disease), "
    "which are not shipped either: `python -m core findings H-c24 --run --labelled bio-ner` reads them in the folders "
    "BC5CDR-IOB and NCBI-disease-IOB of bio-ner.",
    "Claims “with four times as many patients” or on 48,000 notes are about larger hospitals that begin with the same "
    "patients as the smaller one, partly on the other side of the split. So where a claim is asked again there, the "
    "two results are not independent.",
    "The full audits of seeds 1 and 2 are of the same trainings done again on another machine. Rounding adds up over "
    "the steps, so these models are not quite those of the quick audits: with DistilBERT a note's loss differs by .07 "
    "nats a token on average. Where attacks on one model are compared, all their scores are of one training.",
    "Most of the widened intervals come from resampling; they are widened by the quantiles of the normal distribution, "
    "although resampled distributions are a little skewed.",
    "In the table, a claim with several figures has the range of their values and, in brackets, the outermost ends of "
    "their intervals.",
    "A verdict is about this project's small models, and most are about synthetic notes. It does not say that a paper "
    "is wrong.",
)


def document(found: Sequence[Finding]) -> str:
    """The document."""
    parts = [
        "# Findings",
        *map(_wrapped, (*INTRODUCTION, _from_nothing(found))),
        counts(found),
        _overview(found),
        *_on_other_text(found),
    ]
    for letter, paper in PAPERS.items():
        parts.append(f"## {paper}")
        for one in found:
            if one.claim.id.startswith(letter):
                parts += _claim(one)
    return "\n\n".join(parts) + "\n"


def _from_nothing(found: Sequence[Finding]) -> str:
    """How long all runs take, what they need, and which claims a night leaves out."""
    claims = [one.claim for one in found]
    hours = hours_from_nothing(claims)
    kept = {one.id for one in within_from_nothing(claims, NIGHT_HOURS * 2)}
    left_out = ", ".join(one.id for one in claims if one.id not in kept)
    return (
        "All runs are shipped. `python -m core findings --run --without-shipped --processes 2 --public-notes "
        "mtsamples.txt --labelled bio-ner` makes them again "
        f"in a data folder that has none, attacks included: an estimated {hours:.0f} hours of one core, so about "
        f"{hours / 2:.0f} hours of two, and it goes on where it was stopped. The larger models of J-c43 start from "
        "bases that are not shipped; without them (`python -m core pretrain --size small` makes them) their runs are "
        f"left out. With `--hours {NIGHT_HOURS}` as well, and two processes, the command judges what takes at most "
        f"that long, {len(kept)} of the {len(claims)} claims"
        + (f": without those that read the longest trainings ({left_out})." if left_out else ": all of them.")
    )


def counts(found: Sequence[Finding]) -> str:
    """How many claims hold, in one sentence."""
    numbers = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    left = numbers["not run"]
    return _wrapped(
        f"Of {len(found)} claims {numbers['holds']} hold, {numbers['does not hold']} do not hold, and for "
        f"{numbers['cannot tell']} the data cannot tell."
        + (f" {left} {'is' if left == 1 else 'are'} not run yet." if left else "")
    )


VERDICTS = ("holds", "does not hold", "cannot tell", "not run")


def _overview(found: Sequence[Finding]) -> str:
    rows = ["| claim | | the paper's figure | here | verdict | why |", "|---|---|---|---|---|---|"]
    for one in found:
        claim, here = one.claim, range_text(one.evidence.figures, one.claim.unit) if one.evidence else ""
        rows.append(f"| {claim.id} | {claim.title} | {claim.figure} | {here} | **{one.verdict}** | {one.why} |")
    return "\n".join(rows)


def _on_other_text(found: Sequence[Finding]) -> Iterator[str]:
    pairs = asked_of_both(found)
    if not pairs:
        return
    yield "## Text that was not generated here"
    yield _wrapped(
        f"Which claims survive on public reports and abstracts, which were not generated here? {agreement(pairs)}"
    )
    rows = ["| claim | | on synthetic notes | on public text |", "|---|---|---|---|"]
    for first, there in pairs:
        rows.append(
            f"| {there.claim.id} | {there.claim.title} | {first.verdict} ({first.claim.id}) | **{there.verdict}** |"
        )
    yield "\n".join(rows)


def _claim(one: Finding) -> Iterator[str]:
    claim = one.claim
    yield f"### {claim.id}: {claim.title}"
    yield _wrapped(f"{claim.says} The paper: {claim.figure} ({claim.place}).")
    verdict = f"**Verdict: {one.verdict}.**" + (f" {one.why}" if one.why else "")
    if one.evidence is None:
        verdict += " Its runs are not shipped." if claim.needs else ""
    yield _wrapped(verdict)
    if one.evidence is not None:
        yield _wrapped(f"Measured: {claim.quantity}. {together(one.evidence.figures)}")
        rows = ["| | figure |", "|---|---|"]
        rows += [f"| {figure.label} | {figure_text(figure, claim.unit)} |" for figure in one.evidence.figures]
        yield "\n".join(rows)
    else:
        yield _wrapped(f"To be measured: {claim.quantity}.")
    yield "\n".join(
        _wrapped(line, "- ", "  ")
        for line in (
            f"Rule: {rule_text(one)}",
            f"Run at: {claim.sizes}. {bases_text(claim)}",
            f"Differs from the paper: {claim.differs}",
            f"Runs and command: `python -m core findings {claim.id}`"
            + ("." if one.evidence is not None else ", with `--run` to train what is missing."),
        )
    )


def _wrapped(text: str, first: str = "", later: str = "") -> str:
    return textwrap.fill(
        text.strip(),
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
