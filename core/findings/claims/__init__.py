"""The claims, a few files a paper and a folder for several, in the order of the papers and of their numbers."""

from __future__ import annotations

from core.findings.claim import PAPERS, Claim
from core.findings.claims.again.abstracts import CLAIMS as REAL_ABSTRACTS
from core.findings.claims.again.epochs import CLAIMS as EPOCHS
from core.findings.claims.again.hoory_grid import CLAIMS as HOORY_GRID
from core.findings.claims.again.kinds import CLAIMS as KINDS
from core.findings.claims.again.other_notes.half_generic import CLAIMS as HALF_GENERIC
from core.findings.claims.again.other_notes.inserted_names import CLAIMS as INSERTED_NAMES
from core.findings.claims.again.other_notes.rarely_named import CLAIMS as RARELY_NAMED
from core.findings.claims.again.public_notes import CLAIMS as PUBLIC_NOTES
from core.findings.claims.again.public_notes_ratio import CLAIMS as PUBLIC_NOTES_RATIO
from core.findings.claims.again.ratio_explained import CLAIMS as RATIO_EXPLAINED
from core.findings.claims.again.sizes import CLAIMS as SIZES
from core.findings.claims.again.twelve import CLAIMS as TWELVE
from core.findings.claims.again.white_box import CLAIMS as WHITE_BOX
from core.findings.claims.again.without_noise import CLAIMS as WITHOUT_NOISE
from core.findings.claims.hoory import CLAIMS as HOORY
from core.findings.claims.hoory_copies import CLAIMS as HOORY_COPIES
from core.findings.claims.jagannatha import CLAIMS as JAGANNATHA
from core.findings.claims.jagannatha_noise import CLAIMS as JAGANNATHA_NOISE
from core.findings.claims.jagannatha_rarity import CLAIMS as JAGANNATHA_RARITY
from core.findings.claims.lehman import CLAIMS as LEHMAN
from core.findings.claims.lehman_layers import CLAIMS as LEHMAN_LAYERS
from core.findings.claims.lehman_texts import CLAIMS as LEHMAN_TEXTS
from core.findings.claims.mireshghallah import CLAIMS as MIRESHGHALLAH
from core.findings.claims.mireshghallah_energies import CLAIMS as MIRESHGHALLAH_ENERGIES
from core.findings.claims.mireshghallah_ratio import CLAIMS as MIRESHGHALLAH_RATIO
from core.findings.claims.mireshghallah_samples import CLAIMS as MIRESHGHALLAH_SAMPLES
from core.findings.claims.privai import CLAIMS as PRIVAI
from core.findings.claims.privai_attempts import CLAIMS as PRIVAI_ATTEMPTS

_FILES: tuple[tuple[Claim, ...], ...] = (
    *(JAGANNATHA, JAGANNATHA_NOISE, JAGANNATHA_RARITY, KINDS, SIZES, WHITE_BOX, EPOCHS),
    *(HOORY, HOORY_COPIES, HOORY_GRID, REAL_ABSTRACTS),
    *(PRIVAI, PRIVAI_ATTEMPTS),
    *(MIRESHGHALLAH, MIRESHGHALLAH_ENERGIES, MIRESHGHALLAH_SAMPLES, MIRESHGHALLAH_RATIO),
    *(LEHMAN, LEHMAN_LAYERS, RARELY_NAMED, LEHMAN_TEXTS, INSERTED_NAMES),
    *(TWELVE, WITHOUT_NOISE),
    *(PUBLIC_NOTES, PUBLIC_NOTES_RATIO, RATIO_EXPLAINED, HALF_GENERIC),
)


def _place(claim: Claim) -> tuple[int, int]:
    """The paper's place and the claim's number."""
    letter, _, number = claim.id.partition("-c")
    return list(PAPERS).index(letter), int(number)


CLAIMS: tuple[Claim, ...] = tuple(sorted((claim for file in _FILES for claim in file), key=_place))


def chosen(ids: list[str]) -> list[Claim]:
    """The claims with these ids; all of them without ids.

    Raises:
        ValueError: There is no such claim.
    """
    known = {claim.id.lower(): claim for claim in CLAIMS}
    for name in ids:
        if name.lower() not in known:
            raise ValueError(f"There is no claim “{name}”. The claims are: {', '.join(one.id for one in CLAIMS)}.")
    return [known[name.lower()] for name in ids] if ids else list(CLAIMS)
