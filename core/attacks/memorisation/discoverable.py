"""(n, p)-discoverable extraction: how many tries until a model writes a patient's value, computed instead of sampled.

Hayes et al. 2025 ("Measuring memorization in language models via probabilistic extraction"): a text z is
(n, p)-discoverably extractable if at least one of n independent samples from a prompt is z with probability at least p,
so n ≥ ln(1 − p) / ln(1 − p_z), with p_z the chance of z under the sampling scheme. Here z is a patient's direct
identifier in any of its usual written forms (`core.phi.written_forms`), the prompts are those of prompt extraction that
ask for its field (`core.attacks.prompts.ASKED`), and the scheme is that of the run's audit. The same is computed for
held-out patients, whom the model never saw: what their values reach is no memorisation.

The sample must *begin* with the value. Prompt extraction may also write it later in a text, so p_z is a lower bound of
the chance that a text contains it. A masked model has no such chance: it draws tokens in several sweeps, each given
what the one before left, so no product of conditionals is the chance of a text.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from core.attacks.prompts import ASKED, PROMPTS
from core.attacks.registry import Attack, NotPossible, Report, Tables, Target, register, register_table
from core.corpus.tables import JUDGED_SPLITS
from core.phi.written_forms import written_forms

TABLE = "discoverable"
COLUMNS = {
    "patient_id": "str",
    "split": "str",  # member | heldout
    "field": "str",
    "prompt_id": "int32",
    "log_p": "float32",  # ln of the chance that a sample begins with the value; −∞ where the sampler rules it out
}


def discoverable(target: Target, report: Report) -> Tables:
    """A row for each member or held-out patient, direct identifier and prompt that asks for it.

    Raises:
        NotPossible: no patient has a value that the prompts ask for.
    """
    from core.models.generation.continuations import start_probabilities  # imports torch

    patients = target.corpus.patients
    patients = patients[patients["split"].isin(JUDGED_SPLITS)]
    texts = {prompt.prompt_id: prompt.text for prompt in PROMPTS}
    asked = [(field, prompt) for field, prompts in ASKED.items() if field in patients for prompt in prompts]
    audit = target.spec.audit
    frames = []
    for done, (field, prompt) in enumerate(asked):
        report(done, len(asked))
        forms = [written_forms(field, value) if isinstance(value, str) else () for value in patients[field]]
        held = np.array([len(one) > 0 for one in forms])
        chances = start_probabilities(
            target.lm,
            texts[prompt],
            [one for one in forms if one],
            new_tokens=audit.new_tokens,
            temperature=audit.temperature,
            top_k=audit.top_k,
            top_p=audit.top_p,
            on_batch=partial(report, done, len(asked)),
        )
        with np.errstate(divide="ignore"):
            found = patients.loc[held, ["patient_id", "split"]].assign(log_p=np.log(chances))
        frames.append(found.assign(field=field, prompt_id=prompt))
    report(len(asked), len(asked))
    whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if whole.empty:
        raise NotPossible("no patient of this cohort has a direct identifier that the prompts ask for")
    return {TABLE: whole}


register_table(TABLE, COLUMNS)
register(
    Attack(
        name="tries to extract",
        source="Hayes 2025",
        access="grey-box",
        kinds=("gpt2",),
        cost="cheap",
        sentence="Computes how many samples an attacker needs until one begins with a patient's name or number.",
        tables=(TABLE,),
        run=discoverable,
    )
)
