"""A small hospital whose values collide on purpose, and its index."""

from __future__ import annotations

import pandas as pd
import pytest

from core.phi.index import PhiIndex

COLUMNS = (
    *("patient_id", "split", "full_name", "date_of_birth", "ssn", "mrn", "phone", "email", "address"),
    *("diagnosis", "medication", "procedure"),
)
_ROWS = (
    (
        "P1",
        "member",
        "Maria Keller",
        "1957-03-22",
        "514-22-9078",
        "MRN-4410937",
        "(415) 555-0142",
        "maria.keller57@example.org",
        "1870 Harmon Isle",
        "Type 2 diabetes mellitus without complications",
        "metformin 500 mg",
        "chest radiograph",
    ),
    (
        "P2",
        "member",
        "Israel Moore",
        "1991-12-04",
        "602-81-3345",
        "MRN-7782013",
        "+1-312-555-0199",
        "imoore@example.com",
        "22 Oak Street Apt. 5",
        "Essential (primary) hypertension",
        "lisinopril 10 mg",
        "electrocardiogram",
    ),
    (
        "P3",
        "heldout",
        "Anna Maria Lopez",
        "1988-07-15",
        "333-44-5555",
        "MRN-1200345",
        "212.555.0177x88",
        "anna_lopez@example.net",
        "9 King Row",
        "Essential (primary) hypertension",
        "lisinopril 10 mg",
        "colonoscopy",
    ),
    (
        "P4",
        "heldout",
        "Maria Keller",
        "1940-01-02",
        "111-22-3333",
        "MRN-5550001",
        "001-646-555-0101",
        "mk1940@example.org",
        "77 Elm Way",
        "Gout, unspecified",
        "allopurinol 2.5 mg",
        "joint aspiration",
    ),
    (
        "P5",
        "population",
        "Thomas James",
        "1957-03-22",
        "222-33-4444",
        "MRN-9090909",
        "(646) 555-0133",
        "tj@example.org",
        "5 Hill Road",
        "Asthma",
        "salbutamol 100 mcg",
        "spirometry",
    ),
    (
        "P6",
        "member",
        "James Thomas",
        "2001-02-28",
        "222-33-4445",
        "MRN-9090910",
        "(646) 555-0134",
        "james-t@example.org",
        "55 Hill Road",
        "Asthma",
        "salbutamol 100 mcg",
        "spirometry",
    ),
    (
        "P7",
        "canary",
        "Niamh O'Brien-Smith",
        "1999-11-30",
        "987-65-4321",
        "MRN-3141592",
        "(202) 555-0163",
        "niamh@example.org",
        "1 Quay Lane",
        "Migraine",
        "sumatriptan 50 mg",
        "lumbar puncture",
    ),
    (
        "P8",
        "canary",
        "José de la Cruz",
        "1970-05-05",
        "876-54-3210",
        "MRN-2718281",
        "(202) 555-0164",
        "jose@example.org",
        "2 Quay Lane",
        "Migraine",
        "sumatriptan 50 mg",
        "lumbar puncture",
    ),
)


@pytest.fixture(scope="session")
def patients() -> pd.DataFrame:
    return pd.DataFrame(_ROWS, columns=COLUMNS)


@pytest.fixture(scope="session")
def index(patients) -> PhiIndex:
    """P7 was put into training, P8 was not."""
    return PhiIndex.build(patients, inserted={"P7"})
