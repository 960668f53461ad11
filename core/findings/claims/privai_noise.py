"""Claims of the PrivAI-Leak report, tried with the noise that its own formula asks for at the ε it prints."""

from __future__ import annotations

from core.demo import SEEDS
from core.evaluation.stats import intervals
from core.findings.claim import Claim, Figure
from core.findings.claims.privai import LEAST_REDUCTION, SAME
from core.findings.experiments import CLASSROOM, FEW, REPORT_NOISE, at_report_noise, plain
from core.findings.measures.tables import labelled, perplexity_ratio
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_SEED = SEEDS[0]
_PLAIN = plain("gpt2", _SEED)
_NOISE = (
    "Noise by the report's formula for 46 steps of 256 of 2,925 notes (σ = 27.5, 13.9, 2.99 and 1.61 for its ε = 0.5, "
    "1, 5 and 10), on the sum of the clipped gradients. The report's code adds it to the mean of four gradients, which "
    "is four times as much. One learning rate for every ε, as there. "
)


def _times_plain(runs: StoredRuns, spec: RunSpec, label: str) -> list[Figure]:
    return [labelled(label, perplexity_ratio(runs, spec, _PLAIN))]


def _destroyed(runs: StoredRuns) -> list[Figure]:
    return _times_plain(runs, at_report_noise(0.5, _SEED), "its ε = 0.5")


def _twentyfold(runs: StoredRuns) -> list[Figure]:
    return _times_plain(runs, at_report_noise(10.0, _SEED), "its ε = 10")


def _whatever_the_rate(runs: StoredRuns) -> list[Figure]:
    lower, same = (at_report_noise(0.5, _SEED, lower_rate=lower) for lower in (True, False))
    return [labelled("its ε = 0.5", perplexity_ratio(runs, lower, same))]


def _leaks(runs: StoredRuns) -> list[Figure]:
    """Rate with its noise − (1 − LEAST_REDUCTION) · rate without privacy, for each ε that it prints."""
    rate = runs.metric(_PLAIN, "attempts_with_leak")
    return [
        labelled(
            f"its ε = {printed:g}",
            intervals.weighted_sum(
                (1, LEAST_REDUCTION - 1), (runs.metric(at_report_noise(printed, _SEED), "attempts_with_leak"), rate)
            ),
        )
        for printed in REPORT_NOISE
    ]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="P-c20",
        title="The noise of its ε = 0.5 destroys the model",
        says="P-c4 with the report's own noise: at what it prints as ε = 0.5, perplexity is thousands of times that of "
        "the model without privacy.",
        figure="9,643.91 against 1.14, 8,459 times as high",
        place="§7.1; §7.3.2",
        quantity="perplexity of held-out notes with the noise of its ε = 0.5 / without privacy",
        unit="ratio",
        measure=_destroyed,
        rule=Above(1_000.0),
        needs=(Need(_PLAIN), Need(at_report_noise(0.5, _SEED))),
        sizes=CLASSROOM,
        differs="Held-out patients' notes. " + _NOISE + FEW + " " + SAME,
        page="tradeoff",
    ),
    Claim(
        id="P-c21",
        title="The noise of its ε = 10 makes perplexity twenty times as high",
        says="P-c10 with the report's own noise: at what it prints as ε = 10, perplexity is twenty times that of the "
        "model without privacy.",
        figure="22.70 against 1.14, 20 times as high",
        place="§7.3.1; §9.1, finding 3",
        quantity="perplexity of held-out notes with the noise of its ε = 10 / without privacy",
        unit="ratio",
        measure=_twentyfold,
        rule=Above(10.0),
        needs=(Need(_PLAIN), Need(at_report_noise(10.0, _SEED))),
        sizes=CLASSROOM,
        differs="Held-out patients' notes. Half of the report's factor is the line, as in P-c10. "
        + _NOISE
        + FEW
        + " "
        + SAME,
        page="tradeoff",
    ),
    Claim(
        id="P-c22",
        title="That loss is the noise's, whatever the learning rate",
        says="An experiment of ours that explains P-c20: with a learning rate that falls with the noise, the model is "
        "destroyed all the same.",
        figure="one rate for every ε",
        place="§6.2.2",
        quantity="perplexity with the noise of its ε = 0.5: rate lowered for the noise / rate of ε = 10",
        unit="ratio",
        measure=_whatever_the_rate,
        rule=Above(0.5),
        needs=(Need(at_report_noise(0.5, _SEED, lower_rate=True)), Need(at_report_noise(0.5, _SEED))),
        sizes=CLASSROOM,
        differs="Our question. A factor of two is the line. The lowered rate is the recipe's, 1.4e-4 instead of 5e-3. "
        + FEW
        + " "
        + SAME,
        page="tradeoff",
    ),
    Claim(
        id="P-c23",
        title="With its noise nearly all leaks are gone",
        says="P-c3 with the report's own noise: at none of the four ε that it prints does a model leak more than a "
        "tenth of what the model without privacy leaks.",
        figure="1.00, 1.07, .93 and .36 % against 17.79 %",
        place="§7.1.1; §7.3.2",
        quantity="leak rate with its noise − a tenth of that without privacy, in points",
        unit="points",
        measure=_leaks,
        rule=Below(0.0),
        needs=(Need(_PLAIN), *(Need(at_report_noise(printed, _SEED)) for printed in REPORT_NOISE)),
        sizes=CLASSROOM + "; 1,400 texts a model",
        differs="Leaks are matched by value. " + _NOISE + FEW + " " + SAME,
        page="tradeoff",
    ),
)
