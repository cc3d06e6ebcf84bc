"""Texts as tokens: which of them are scored, in windows that fit the model's context."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet._types import Bool, Int
from discreet.llm.model import LanguageModel
from discreet.llm.texts import TextError, Texts
from discreet.records.laws import quoted
from discreet.store.content import content_hash

__all__ = ["Encoded", "encode"]

LONG = ("refuse", "split", "cut")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Tokenized texts.

    A text lies in one window, or in several where it was split. Each token of it that is scored is scored in
    exactly one window, given the tokens before it in that window.

    Attributes:
        sample: Ids of the texts.
        tokens: Token ids of all windows, one after the other.
        bounds: Where each window begins, and where the last one ends.
        first: The first scored position of each window, from 1 on; all positions from there on are scored.
        owner: The number of the text that each window belongs to, ascending.
        text: What is scored of each text, as the text was before tokenization; of those that were cut, what is left.
        counts: How many texts there are, and how many of them were ``cut`` or ``split``; of those that were
            cut, how many tokens are not scored (``tokens_cut``).
        about: How it was made: ``model`` (``LanguageModel.sha``), ``mask_prompt``, ``on_long``, ``context``, ``end``.
        whole: A hash of all tokens of each text, prompt and all, before anything was cut off.
    """

    sample: np.ndarray
    tokens: Int[np.ndarray, " token_in"]
    bounds: Int[np.ndarray, " window_bound"]
    first: Int[np.ndarray, " window"]
    owner: Int[np.ndarray, " window"]
    text: tuple[str, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    whole: tuple[bytes, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def lengths(self) -> Int[np.ndarray, " window"]:
        """Tokens of each window."""
        return np.diff(self.bounds)

    @cached_property
    def offsets(self) -> Int[np.ndarray, " bound"]:
        """Where the scored tokens of each text begin among all scored tokens, and where the last ones end."""
        scored = np.bincount(self.owner, weights=self.lengths - self.first, minlength=len(self.sample))
        return np.concatenate([[0], np.cumsum(scored)]).astype(np.int64)

    @cached_property
    def sha(self) -> str:
        """Hash of tokens, windows, what is scored, and the ids."""
        parts = [self.sample, self.tokens, self.bounds, self.first, self.owner]
        return content_hash([*parts, list(self.text)])

    def also_in(self, other: Encoded) -> Bool[np.ndarray, " sample"]:
        """Which of the texts are, prompt and all, also among others, be they cut or split there."""
        known = set(other.whole)
        return np.array([whole in known for whole in self.whole], bool)

    def window(self, number: int) -> Int[np.ndarray, " _"]:
        """Token ids of one window."""
        return self.tokens[self.bounds[number] : self.bounds[number + 1]]

    def take(self, index: Sequence[int] | np.ndarray) -> Encoded:
        """Some of the texts, in the order given; a mask takes those where it is true."""
        places = np.asarray(index)
        places = np.flatnonzero(places) if places.dtype == bool else places.astype(np.int64)
        starts = np.searchsorted(self.owner, np.arange(len(self.sample) + 1))
        windows = [w for place in places.tolist() for w in range(int(starts[place]), int(starts[place + 1]))]
        owner = np.repeat(np.arange(len(places)), np.diff(starts)[places])
        return _packed(
            self.sample[places],
            [self.window(w) for w in windows],
            self.first[windows],
            owner,
            tuple(self.text[i] for i in places),
            {"texts": len(places)},
            self.about,
            tuple(self.whole[i] for i in places) if self.whole else (),
        )


def encode(
    texts: Texts,
    model: LanguageModel,
    *,
    mask_prompt: bool = True,
    on_long: str = "refuse",
    end: bool = False,
) -> Encoded:
    """Tokenize texts for a model.

    Prompt and answer are tokenized *together*, since that is the sequence a model was trained on; where a
    token spans the seam, cutting them apart would ask about tokens that training never showed. The answer's
    tokens are those behind the longest run of tokens that the prompt alone begins with as well, so a token
    that spans the seam counts as the answer's. Chats go through the tokenizer's own template, with and
    without the answer.

    Special tokens are those that the tokenizer itself adds: where it puts one in front (Llama's BOS), the
    first token of a text without prompt is scored given that one; where it does not (GPT-2, Qwen), the first
    token of such a text only serves as context. The tokenizer needs no pad token: batches are padded behind
    the text, with masked positions.

    Args:
        texts: The texts.
        model: Whose tokenizer, vocabulary and context to use.
        mask_prompt: Score the answer alone; False: everything but the first token.
        on_long: What to do with a text of more tokens than the context: ``"refuse"``; ``"split"`` it into
            windows that overlap by half, each token scored once, with at least half a context before it; or
            ``"cut"`` its end off.
        end: Append the tokenizer's end-of-text token to each text, and score it.

    Raises:
        TextError: Texts that are empty, have nothing to score or are too long, by number and id; or a
            tokenizer that does not fit the model or has no chat template.
    """
    if on_long not in LONG:
        raise TextError(f"on_long: expected one of {', '.join(LONG)}, got {on_long!r}")
    scored = texts.answer if mask_prompt else texts.whole
    _refuse(
        texts,
        [i for i, text in enumerate(scored) if not text.strip()],
        lambda i: (
            f"has nothing to score: {'its answer' if mask_prompt and texts.prompt[i] else 'it'} is empty"
            f"{' but for white space' * bool(scored[i])}"
        ),
    )
    _refuse(
        texts,
        [i for i, text in enumerate(texts.whole) if not _is_unicode(text)],
        "has half of a surrogate pair in it, which no tokenizer takes; write the whole character",
    )
    tokens, first = _cut(texts, model.tokenizer, mask_prompt, end)
    _refuse(
        texts,
        [i for i, ids in enumerate(tokens) if first[i] >= len(ids)],
        lambda i: (
            f"has nothing to score: it is {_count(len(tokens[i]))}, and the first has nothing before it"
        ),
    )
    _check_vocabulary(texts, tokens, model)
    whole = tuple(hashlib.sha256(each.tobytes()).digest() for each in tokens)
    size = [len(ids) for ids in tokens]
    tokens, counts = _fitted(texts, tokens, first, model.context, on_long)
    scored = tuple(
        text if len(ids) == was else _said(model.tokenizer, ids[at if mask_prompt and before else 0 :])
        for text, ids, was, at, before in zip(scored, tokens, size, first, texts.prompt, strict=True)
    )
    pieces = [
        (owner, ids[start:stop], begin - start)
        for owner, (ids, at) in enumerate(zip(tokens, first, strict=True))
        for start, stop, begin in windows(len(ids), at, model.context)
    ]
    about = {
        "model": model.sha,
        "context": model.context,
        "mask_prompt": mask_prompt,
        "on_long": on_long,
        "end": end,
    }
    owners, windowed, firsts = zip(*pieces, strict=True)
    return _packed(
        texts.sample, list(windowed), np.array(firsts), np.array(owners), scored, counts, about, whole
    )


def _fitted(
    texts: Texts,
    tokens: list[Int[np.ndarray, " _"]],
    first: Sequence[int],
    context: int,
    on_long: str,
) -> tuple[list[Int[np.ndarray, " _"]], dict[str, int]]:
    """Tokens of texts that may be scored, and how many were too long."""
    long = [i for i, ids in enumerate(tokens) if len(ids) > context]
    counts = {"texts": len(texts), "split": 0, "cut": 0, "tokens_cut": 0}
    if on_long == "split":
        return tokens, counts | {"split": len(long)}
    if on_long == "cut":
        late = [i for i in long if first[i] >= context]
        _refuse(texts, late, f"cannot be cut to {context} tokens: nothing to score would be left")
        lost = sum(len(tokens[i]) - context for i in long)
        return [ids[:context] for ids in tokens], counts | {"cut": len(long), "tokens_cut": lost}
    _refuse(
        texts,
        long,
        lambda i: (
            f"has {len(tokens[i])} tokens, more than the model's context of {context}; split or cut it (on_long,"
            " --on-long)"
        ),
    )
    return tokens, counts


def windows(length: int, first: int, context: int) -> list[tuple[int, int, int]]:
    """Start, end and first scored position of each window of a text; what is scored is scored once.

    Example:
        >>> windows(10, 1, 4)
        [(0, 4, 1), (2, 6, 4), (4, 8, 6), (6, 10, 8)]
    """
    if length <= context:
        return [(0, length, first)]
    half, found, at = context // 2, [], first
    while at < length:
        start = 0 if at < context else at - half
        stop = min(length, start + context)
        found.append((start, stop, at))
        at = stop
    return found


def _cut(
    texts: Texts, tokenizer: Any, mask_prompt: bool, end: bool
) -> tuple[list[Int[np.ndarray, " _"]], list[int]]:
    """Token ids of each whole text, and the first position that is scored."""
    whole, before, special = texts.whole, texts.prompt, True
    if texts.messages:
        whole, before, special = *_templated(texts, tokenizer), False
    tokens = _ids(tokenizer, whole, special)
    if end:
        if tokenizer.eos_token_id is None:
            raise TextError("end: the tokenizer has no end-of-text token to append")
        tokens = [np.append(ids, tokenizer.eos_token_id) for ids in tokens]
    if not mask_prompt:
        return tokens, [1] * len(tokens)
    asked = iter(_ids(tokenizer, [text for text in before if text], special))
    found = []
    for text, ids in zip(before, tokens, strict=True):
        found.append(max(1, _shared(next(asked), ids)) if text else 1)
    return tokens, found


def _ids(tokenizer: Any, texts: Sequence[str], special: bool) -> list[Int[np.ndarray, " _"]]:
    if not texts:
        return []
    limit = tokenizer.model_max_length
    tokenizer.model_max_length = 1 << 40  # or transformers warns of long texts, which are seen to here
    try:
        found = tokenizer(list(texts), add_special_tokens=special, padding=False, truncation=False)[
            "input_ids"
        ]
    finally:
        tokenizer.model_max_length = limit
    return [np.array(ids, dtype=np.int64) for ids in found]


def _shared(one: np.ndarray, other: np.ndarray) -> int:
    """Length of the longest common beginning."""
    size = min(len(one), len(other))
    differs = np.flatnonzero(one[:size] != other[:size])
    return int(differs[0]) if differs.size else size


def _templated(texts: Texts, tokenizer: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Whole chats and their beginnings as the tokenizer's template writes them."""
    if not getattr(tokenizer, "chat_template", None):
        raise TextError("messages: the tokenizer has no chat template; give prompt and completion instead")
    whole, before = [], []
    for number, chat in enumerate(texts.messages):
        messages = [dict(each) for each in chat]
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            asked = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise what they like
            raise TextError(f"{_called(texts, number)}: the chat template refuses it: {error}") from error
        if not text.startswith(asked):
            raise TextError(
                f"{_called(texts, number)}: the chat template does not continue the prompt with the answer, so the"
                " answer's tokens cannot be told; give prompt and completion instead"
            )
        whole.append(text)
        before.append(asked)
    return tuple(whole), tuple(before)


def _check_vocabulary(texts: Texts, tokens: Sequence[Int[np.ndarray, " _"]], model: LanguageModel) -> None:
    table: Any = model.module.get_input_embeddings()  # pyright: ignore[reportCallIssue]
    size = int(table.weight.shape[0])
    beyond = [i for i, ids in enumerate(tokens) if int(ids.max()) >= size]
    _refuse(
        texts,
        beyond,
        lambda i: (
            f"has the token {int(tokens[i].max())}, but {model.name} knows {size}; the tokenizer is another model's"
        ),
    )


def _refuse(texts: Texts, bad: Sequence[int], why: str | Callable[[int], str]) -> None:
    if bad:
        more = "" if len(bad) == 1 else f" ({len(bad)} such texts)"
        raise TextError(f"{_called(texts, bad[0])} {why if isinstance(why, str) else why(bad[0])}{more}")


def _count(tokens: int) -> str:
    return f"{tokens} token" if tokens == 1 else f"{tokens} tokens"


def _said(tokenizer: Any, ids: Int[np.ndarray, " _"]) -> str:
    """What tokens stand for."""
    return tokenizer.decode(ids.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _called(texts: Texts, number: int) -> str:
    return texts.where[number] if texts.where else f"text {number} (id {quoted(texts.sample[number])})"


def _packed(
    sample: np.ndarray,
    pieces: Sequence[Int[np.ndarray, " _"]],
    first: Int[np.ndarray, " window"],
    owner: Int[np.ndarray, " window"],
    text: tuple[str, ...],
    counts: Mapping[str, int],
    about: Mapping[str, Any],
    hashes: tuple[bytes, ...],
) -> Encoded:
    bounds = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    whole = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    return Encoded(sample, whole, bounds, first, owner, text, counts, about, hashes)
