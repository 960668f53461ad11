"""How likely a sampled continuation begins with given texts: exact sums over every way in which tokens spell them.

Sampling draws tokens, but a reader sees text: “Maria” may be one token or “Mar” and “ia”. The search follows every
sequence of tokens that the sampler can draw and that spells the beginning of a wanted text, and no other. Different
sequences exclude one another, so their probabilities add. It costs one forward pass for each such sequence, shared by
all texts that begin alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from tokenizers import pre_tokenizers

from core.models.build import LanguageModel
from core.models.encoding import encode
from core.models.generation.token_sampling import TokenSampler, check, check_length
from core.models.likelihood import BATCH_TOKENS

# A text has ended where nothing follows it, or one of these. A letter or digit would continue its last word, and
# “-”, “@”, “_” would join it to the next one (“Keller-Schmidt”). Bytes above 127 may be letters.
END_BYTES = frozenset(byte for byte in range(128) if not chr(byte).isalnum() and chr(byte) not in "-@_")
LEAST = math.ulp(0.0)  # the smallest number above 0


@dataclass
class _Node:
    """A beginning of wanted texts. `ends` are the numbers of the values that have a form which is all of it."""

    children: dict[int, _Node] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    steps: _Steps | None = None


@dataclass(frozen=True)
class _Steps:
    """What each next token means at a node: tokens that stay within the wanted texts, and tokens that complete one.

    `tokens` and `nodes` are where a path goes on. `ending` are (values, tokens): any of those tokens completes them.
    """

    tokens: np.ndarray
    nodes: list[_Node]
    ending: list[tuple[list[int], np.ndarray]]


def begins_with(text: str, form: str) -> bool:
    """Whether `text`, after at most one space, begins with `form` as a whole: the event whose chance is computed.

    Upper and lower case of ASCII letters are alike. What follows must be nothing or a character of `END_BYTES`.
    """
    folded, wanted = _fold(text.encode()), _fold(form.encode())
    for start in (0, 1) if folded[:1] == b" " else (0,):
        end = start + len(wanted)
        if folded[start:end] == wanted and (len(folded) == end or folded[end] in END_BYTES):
            return True
    return False


def start_probabilities(
    lm: LanguageModel,
    prompt: str,
    values: Sequence[Sequence[str]],
    *,
    new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    on_batch: Callable[[], None] | None = None,
) -> np.ndarray:
    """P[a sample begins with one of a value's forms] for each value, float64 of shape (values,).

    A sample is what `core.models.generation.generate.sample` draws after `prompt` with the same settings, and “begins
    with” is `begins_with`. The result is exact up to rounding: all tokenisations of a form are summed, forms of one
    value that exclude one another add, and one that begins with another one and an end counts once. It is 0 where the
    cuts of the sampler rule a value out, and nowhere else: chances that would be rounded to 0 are `LEAST`.

    Args:
        lm: a causal model.
        prompt: the text to continue.
        values: the accepted written forms of each value; several values may share a form.
        new_tokens: most new tokens of a sample.
        temperature: above 0.
        top_k: at least 1.
        top_p: above 0, at most 1.
        on_batch: called after each batch of sequences; may raise to stop.

    Raises:
        ValueError: for a masked model, settings out of range, or a prompt that does not fit into the context.
    """
    if not lm.causal:
        raise ValueError(f"a {lm.kind} model does not continue a text, so no text has a chance of being its beginning")
    check([prompt], [0], new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    start = [lm.tokenizer.bos_token_id, *encode(lm, [prompt])[0]]
    check_length(len(start) + 1, lm.context)
    vocabulary = _Vocabulary(lm)
    sampler = TokenSampler(temperature=temperature, top_k=top_k, top_p=top_p, greedy=False)
    found = np.zeros(len(values))
    paths, chances, nodes = [start], [1.0], [_trie(values)]
    for step in range(min(new_tokens, lm.context - len(start)) + 1):
        if not paths:
            break
        last = step == min(new_tokens, lm.context - len(start))
        grown: tuple[list[list[int]], list[float], list[_Node]] = ([], [], [])
        rows = max(1, BATCH_TOKENS // len(paths[0]))
        for first in range(0, len(paths), rows):
            part = slice(first, first + rows)
            if last:  # the sample is cut here, so a form that is complete has ended
                for chance, node in zip(chances[part], nodes[part], strict=True):
                    found[list(node.ends)] += chance
                continue
            shares = _next(lm, sampler, paths[part])
            for path, chance, node, share in zip(paths[part], chances[part], nodes[part], shares, strict=True):
                _follow(vocabulary, path, chance, node, share, found, grown)
            if on_batch is not None:
                on_batch()
        paths, chances, nodes = grown
    return np.minimum(found, 1.0)


def _next(lm: LanguageModel, sampler: TokenSampler, paths: list[list[int]]) -> np.ndarray:
    """The chance of each next token of each path, (paths, vocabulary)."""
    with torch.inference_mode():
        ids = torch.tensor(paths, device=lm.device)
        return sampler.probabilities(lm.head(lm.hidden(ids)[:, -1]).float()).cpu().numpy()


def _follow(
    vocabulary: _Vocabulary,
    path: list[int],
    chance: float,
    node: _Node,
    share: np.ndarray,
    found: np.ndarray,
    grown: tuple[list[list[int]], list[float], list[_Node]],
) -> None:
    """Add what the next token completes to `found`, and the sequences that go on to `grown`."""
    if node.steps is None:
        node.steps = vocabulary.steps(node)
    for values, tokens in node.steps.ending:
        found[values] += _both(chance, share[tokens].sum())
    possible = share[node.steps.tokens]
    for place in np.flatnonzero(possible):
        grown[0].append([*path, int(node.steps.tokens[place])])
        grown[1].append(_both(chance, possible[place]))
        grown[2].append(node.steps.nodes[place])


def _both(chance: float, share: float) -> float:
    return max(chance * share, LEAST) if share > 0 else 0.0


def _trie(values: Sequence[Sequence[str]]) -> _Node:
    """All forms, with and without a space before them, as a tree of bytes."""
    root = _Node()
    for number, forms in enumerate(values):
        for form in _exclusive([_fold(form.encode()) for form in forms if form]):
            for written in (form, b" " + form):
                node = root
                for byte in written:
                    node = node.children.setdefault(byte, _Node())
                node.ends.add(number)
    return root


def _exclusive(forms: Sequence[bytes]) -> list[bytes]:
    """The forms without those that begin with another one and its end: every text that has them has that one, too."""
    kept = sorted(set(forms), key=len)
    return [
        form
        for place, form in enumerate(kept)
        if not any(form.startswith(other) and form[len(other)] in END_BYTES for other in kept[:place])
    ]


def _fold(text: bytes) -> bytes:
    return text.lower()  # of bytes: ASCII letters only


class _Vocabulary:
    """The model's tokens as a tree of their bytes, in lower case."""

    def __init__(self, lm: LanguageModel) -> None:
        self._root: dict = {}  # byte → subtree; the key −1 holds the tokens that end there
        specials = set(lm.tokenizer.all_special_ids)
        self._end_mark = lm.tokenizer.eos_token_id
        byte_of = _byte_of_character()
        for token, written in enumerate(lm.tokenizer.convert_ids_to_tokens(list(range(len(lm.tokenizer))))):
            if token in specials or any(character not in byte_of for character in written):
                continue
            place = self._root
            for byte in _fold(bytes(byte_of[character] for character in written)):
                place = place.setdefault(byte, {})
            place.setdefault(-1, []).append(token)

    def steps(self, node: _Node) -> _Steps:
        """What each token means after the text of `node`."""
        going: list[tuple[int, _Node]] = []
        ending: list[tuple[list[int], np.ndarray]] = []
        open_ones = [(node, self._root)]
        while open_ones:
            at, place = open_ones.pop()
            if at.ends:
                tokens = [token for byte in place if byte in END_BYTES for token in _tokens(place[byte])]
                tokens += [self._end_mark] if at is node else []
                if tokens:
                    ending.append((sorted(at.ends), np.array(tokens)))
            if at is not node:
                going += [(token, at) for token in place.get(-1, ())]
            open_ones += [(child, place[byte]) for byte, child in at.children.items() if byte in place]
        return _Steps(np.array([token for token, _ in going], dtype=int), [to for _, to in going], ending)


def _tokens(place: dict) -> list[int]:
    """Every token of a subtree."""
    found: list[int] = []
    open_ones = [place]
    while open_ones:
        one = open_ones.pop()
        found += one.get(-1, [])
        open_ones += [below for byte, below in one.items() if byte != -1]
    return found


def _byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for, as GPT-2's vocabulary writes them.

    Bytes that are printable in Latin-1 stand for themselves; the others, in order, are the characters from 256 on.
    """
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    printable = [byte for byte in range(256) if chr(byte) in alphabet]
    others = [byte for byte in range(256) if chr(byte) not in alphabet]
    found = {chr(byte): byte for byte in printable}
    return found | {chr(256 + place): byte for place, byte in enumerate(others)}
