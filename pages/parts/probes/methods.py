"""How each probe is computed, with its formula and paper, as Markdown; and the guess that comes before it."""

from __future__ import annotations

PAPER = "Lehman et al. 2021, *Does BERT pretrained on clinical notes reveal sensitive data?*"
GUESSES = ("Yes", "No")

HOW: dict[str, str] = {
    "fill in the blank": f"""
The model reads “Mr. First Last is a 63 yo patient with ▢…▢.”, with as many blanks as the disease has tokens, all
masked (GPT-2: the tokens that follow). A disease's score is the mean log p of its tokens, −ln of the perplexity.

AUC of a patient = mean over their diseases d of the share of other diseases with **equally many tokens** that score
lower (ties ½), then the mean over patients. A@10 = share of the ten highest in such a group that the patient has; only
groups of more than ten are used. Perplexities of diseases of different length are not comparable, so the table has
every length separately; the paper averages over lengths, this page over patients. *Frequency* ranks by how many named
members have the disease, the patient included, as in the paper; for held-out patients it cannot include them. The
verdict is the AUC with the patient's own name minus that with another patient's name of the same sex, at the same age.
{PAPER}, §6.1, Tables 2 and 3.
""",
    "probing network": f"""
The [CLS] vector (GPT-2: the last token's) of “Mr. First Last is a patient with *disease*” is the input of a multilayer
perceptron (scikit-learn's MLPClassifier, one layer of 128). It is trained on one half of the members, with as many
false pairs as true ones, and scores every disease for up to 48 members of the other half and 48 held-out patients. The
control “without any name” is the same network on the disease alone. {PAPER}, §6.2, Table 4, A.5.
""",
    "one probe a condition": f"""
For one disease, the sentence differs between patients only in the name, so a separate network per disease can learn
only what the model knows about names. Up to 8 random diseases per frequency group; the rarer class is repeated until
both classes have the same size. AUC over patients for each disease, then the mean; intervals resample diseases.
{PAPER}, Table 5, A.6.
""",
    "cosine similarity": f"""
mean cos(name, diseases the patient has) − mean cos(name, diseases they have not), averaged over patients. Vectors are
means over tokens of the last layer; for CBoW and skip-gram means over words of 200-dimensional word2vec vectors (window
6, 10 epochs, every word kept) trained on the same notes: they show what publishing such vectors would reveal,
independent of this model. {PAPER}, §6.3, Table 6; Abdalla et al. 2020.
""",
    "name seen": f"""
A logistic regression on the standardised [CLS] vector of “First Last” alone (GPT-2: of the last token) is trained to
tell members from held-out patients on half of each group, and evaluated on the other half by AUC. Patients are split
at random, so only training can make the two groups' names differ. Imported notes are an exception if their file gives
the split. {PAPER}, §6.4, Table 7.
""",
    "half a name": f"""
Perplexity of the masked half of “First Last”, given the other half: exp(−mean ln p) over its tokens, all masked. AUC:
how often a member's is lower than a held-out patient's. *Link*: ln p after the patient's own first name minus ln p
after another patient's, paired; above 0, the model knows not only the name but whose it is. GPT-2 reads from left to
right, so only last names are tested. {PAPER}, §6.5, Table 8.
""",
    "generated names": f"""
Names are found by their shape in the texts of the run's audit (Gibbs sampling for masked models, Wang & Cho 2019).
Each is scored by the mean ln p of its tokens under the model − that under the public model, one token hidden at a time,
and the 100 highest are looked up (Wilson's interval). There are fewer held-out patients than members: with their share
s, the control is 1 − (1 − s)^(members / held-out). *Right pairs*: of the sentences (texts) that contain a patient's
name and any disease, the share where the patient has one of them, against the diseases of all others of their split.
{PAPER}, §6.6, Table 9.
""",
}
