"""Which values in the patients' records belong to several patients, so that a text with one does not say which."""

from __future__ import annotations

import pandas as pd

from core.phi.fields import DIRECT
from core.phi.patterns import Form, forms

# Dates of birth are left out: among some thousand patients many have a date in common, so a date is never one person's
# own, and its control counts what is hit by chance (docs/methods/phi.md).
IDENTIFYING = tuple(field for field in DIRECT if field != "date_of_birth")


def shared_values(patients: pd.DataFrame) -> frozenset[tuple[str, str]]:
    """(patient id, field) of every identifying value that some text could also hold as another patient's value.

    Two values are the same if any search form is (`core.phi.patterns.forms`), by which hits are found: “Maria Keller”
    is also a form of “Keller, Maria” and of “Maria A. Keller”.

    Args:
        patients: columns patient_id and any of the PHI fields. Their splits must not matter: which of the patients who
            share a value were trained on is chance, and a rule that looked at it would favour one side.
    """
    found: set[tuple[str, str]] = set()
    for field in IDENTIFYING:
        if field not in patients:
            continue
        holders: dict[Form, set[str]] = {}
        for patient_id, value in zip(patients["patient_id"], patients[field], strict=True):
            for form in forms(field, value)[1] if isinstance(value, str) else ():
                holders.setdefault(form, set()).add(patient_id)
        found |= {(one, field) for people in holders.values() if len(people) > 1 for one in people}
    return frozenset(found)
