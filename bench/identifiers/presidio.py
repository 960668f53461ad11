"""Presidio on the labelled texts that the detector is measured on: `python -m core bench presidio --labelled FILE`.

Presidio (Microsoft's detector of identifiers) is not among this project's packages: install `presidio-analyzer` beside
them to compare. It runs with all its default recognisers for English, its default threshold, and the spaCy model that
the detector's tagger reads, and it is judged by the same function. docs/methods/detector.md has the figures.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json as json_format
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.identifiers._labelled_files import Labelled, read_labelled
from core.evaluation.detection.phi_detection import ALL, judged
from core.phi.detector import tagger

Find = Callable[[str], list[tuple[int, int, str]]]
PACKAGE, ENGINES = "presidio_analyzer", "presidio_analyzer.nlp_engine"  # not installed here, so imported by name


def main(json: bool = False, labelled: Sequence[Path] = ()) -> None:
    """Print Presidio's recall and precision of each labelled corpus: `{corpus: {recall, precision}}` with `json`."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise SystemExit("Presidio is not installed. For this comparison: pip install presidio-analyzer")
    if not labelled:
        raise SystemExit("Give the labelled files to compare on, for example --labelled asq-phi.txt")
    corpora = {name: texts for path in labelled for name, texts in read_labelled(Path(path)).items()}
    find = presidio()
    found = {name: shares(texts, find) for name, texts in corpora.items()}
    version = importlib.metadata.version("presidio-analyzer")
    if json:
        print(json_format.dumps({"presidio": version, "corpora": found}))
        return
    print(f"Presidio {version}")
    for name, both in found.items():
        print(f"  {name}: " + ", ".join(f"{what} {_shown(both[what])}" for what in ("recall", "precision")))


def shares(texts: Sequence[Labelled], find: Find) -> dict[str, dict[str, float]]:
    """Recall and precision over all types, each with its Wilson interval and number of trials."""
    table = judged((text, labels, find(text)) for text, labels in texts).set_index("field").loc[ALL]
    trials = {"recall": "labelled", "precision": "found"}
    return {
        what: {**{end: float(table[f"{what}{column}"]) for end, column in _ENDS.items()}, "n": int(table[counted])}
        for what, counted in trials.items()
    }


_ENDS = {"value": "", "low": "_low", "high": "_high"}


def presidio() -> Find:
    """Presidio's analyzer as a function from a text to places."""
    domains, analysis, engines = (importlib.import_module(name) for name in ("tldextract", PACKAGE, ENGINES))
    domains.__dict__["extract"] = domains.TLDExtract(suffix_list_urls=())  # else it fetches a list of domains
    model = {"lang_code": "en", "model_name": str(tagger.model_folder())}
    engine = engines.NlpEngineProvider(
        nlp_configuration={"nlp_engine_name": "spacy", "models": [model]}
    ).create_engine()
    analyzer = analysis.AnalyzerEngine(nlp_engine=engine)

    def find(text: str) -> list[tuple[int, int, str]]:
        found = analyzer.analyze(text=text, language="en")
        return sorted({(one.start, one.end, one.entity_type) for one in found})

    return find


def _shown(share: dict[str, float]) -> str:
    return f"{share['value']:.3f} ({share['low']:.3f} to {share['high']:.3f}; n = {share['n']:,})"
