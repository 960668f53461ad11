"""The 13 PHI fields of a patient record (PrivAI-Leak report, §4.2.1) and HIPAA's 18 identifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FieldRole = Literal["direct", "health", "physical"]


@dataclass(frozen=True)
class PhiField:
    """One field of a patient record.

    `role` determines what a match means. A *direct* identifier of a member is a leak by itself, *health* details are a
    leak only together with that patient's identity, and *physical* ones never identify anybody alone.
    """

    name: str
    label: str
    role: FieldRole
    example: str
    hipaa: int | None  # number of the HIPAA identifier that covers it, if any


FIELDS: tuple[PhiField, ...] = (
    PhiField("full_name", "full name", "direct", "Maria Keller", 1),
    PhiField("date_of_birth", "date of birth", "direct", "1957-03-22", 3),
    PhiField("ssn", "social security number", "direct", "514-22-9078", 7),
    PhiField("mrn", "medical record number", "direct", "MRN-4410937", 8),
    PhiField("phone", "phone number", "direct", "(415) 555-0142", 4),
    PhiField("email", "e-mail address", "direct", "maria.keller57@example.org", 6),
    PhiField("address", "street address", "direct", "1870 Harmon Isle", 2),
    PhiField("diagnosis", "diagnosis", "health", "Type 2 diabetes mellitus without complications", None),
    PhiField("medication", "medication", "health", "metformin 500 mg", None),
    PhiField("procedure", "procedure", "health", "chest radiograph", None),
    PhiField("blood_pressure", "blood pressure", "physical", "142/88", None),
    PhiField("height", "height", "physical", "171 cm", None),
    PhiField("weight", "weight", "physical", "82 kg", None),
)
FIELD: dict[str, PhiField] = {field.name: field for field in FIELDS}
DIRECT: tuple[str, ...] = tuple(field.name for field in FIELDS if field.role == "direct")
HEALTH: tuple[str, ...] = tuple(field.name for field in FIELDS if field.role == "health")

# 45 CFR 164.514(b)(2)(i)(A) to (R). The last excepts codes that paragraph (c) permits.
HIPAA_IDENTIFIERS: tuple[str, ...] = (
    "Names",
    "Geographic units smaller than a state",
    "Dates other than the year, ages over 89, and dates that show such an age",
    "Telephone numbers",
    "Fax numbers",
    "E-mail addresses",
    "Social security numbers",
    "Medical record numbers",
    "Health plan beneficiary numbers",
    "Account numbers",
    "Certificate and licence numbers",
    "Vehicle identifiers and serial numbers, with licence plates",
    "Device identifiers and serial numbers",
    "Web addresses (URLs)",
    "IP addresses",
    "Biometric identifiers, with finger and voice prints",
    "Full-face photographs and comparable images",
    "Any other unique identifying number, characteristic or code",
)
