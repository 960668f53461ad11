"""The three questions that are asked before and after the lesson, always in the same words and order."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "I do not know"


@dataclass(frozen=True)
class Question:
    """A question with its options, the place of the right one, and why it is right."""

    short: str  # on the axis of the picture
    text: str
    options: tuple[str, ...]
    right: int
    why: str


QUESTIONS = (
    Question(
        short="What ε promises",
        text="A model was trained with differential privacy, with a small ε per patient. What does that promise?",
        options=(
            "The model never writes a patient’s name",
            "Every result is nearly as likely without any one patient’s notes",
            "No attack on the model can succeed",
            "At most ε of 100 patients can be recognised",
            UNKNOWN,
        ),
        right=1,
        why="ε limits how much the model may depend on the notes of any one patient. So no attack can learn much about "
        "whether that patient was in the data. It is a limit on probabilities: a name may still appear by chance, and "
        "an attack may still be right now and then.",
    ),
    Question(
        short="Removing names",
        text="All names were removed from the notes before a model was trained on them. Can it be given to anyone?",
        options=(
            "Yes: without names no one can be recognised",
            "Yes, if no name appears in 1,000 of its texts",
            "No: other details can still point to a person",
            "No: a model can guess the names that were removed",
            UNKNOWN,
        ),
        right=2,
        why="Dates, places, rare diagnoses and wording can point to one person, alone or together. And an "
        "attack can still tell whose notes were used: the Defences page shows this for notes without names.",
    ),
    Question(
        short="A low attack AUC",
        text="An attack meant to tell training patients from others has an AUC of 0.52. What does that prove?",
        options=(
            "The model has not memorised anything",
            "The model was trained with a small ε",
            "52 of 100 patients were recognised",
            "Only that this attack found little here",
            UNKNOWN,
        ),
        right=3,
        why="A measurement is about one attack, one model and these patients. A stronger attack may find more. Only a "
        "guaranteed ε limits every attack, including those no one has thought of yet.",
    ),
)
