"""Token signals against log-softmax in float64, one text at a time; order, batches and padding change nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from discreet.llm import LanguageModelError, Texts, encode, losses, token_signals
from discreet.llm import tokens as under_test
from discreet.llm._head import hidden_and_head
from discreet.llm.model import LanguageModel
from discreet.llm.tokens import batches
from tests import llm

NAMES = ("logp", "mean", "std", "rank")


def naive(model: LanguageModel, ids: np.ndarray, first: int) -> dict[str, np.ndarray]:
    """The definitions, token by token, in float64."""
    module = model.module.double()
    with torch.no_grad():
        logp = torch.log_softmax(module(input_ids=torch.from_numpy(ids)[None]).logits[0], dim=-1).numpy()
    module.float()
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for at in range(first, len(ids)):
        line = logp[at - 1]
        share = np.exp(line)
        mean = float(np.sum(share * line))
        found["logp"].append(line[ids[at]])
        found["mean"].append(mean)
        found["std"].append(np.sqrt(np.sum(share * (line - mean) ** 2)))
        found["rank"].append(int(np.sum(line > line[ids[at]])))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("kind", llm.ARCHITECTURES)
@pytest.mark.parametrize("prompts", [False, True])
def test_signals_are_those_of_the_whole_distribution_in_float64(kind: str, prompts: bool) -> None:
    model = llm.base(kind)
    encoded = encode(llm.texts(12, prompts=prompts), model)
    found = token_signals(model, encoded)
    for text in range(len(encoded)):
        expected = naive(model, encoded.window(text), int(encoded.first[text]))
        part = slice(*encoded.offsets[text : text + 2])
        for name in ("logp", "mean", "std"):
            np.testing.assert_allclose(getattr(found, name)[part], expected[name], atol=2e-5, rtol=1e-5)
        assert found.rank[part].tolist() == expected["rank"].tolist()
        assert found.loss[text] == pytest.approx(-expected["logp"].mean(), abs=1e-5)
    np.testing.assert_allclose(losses(model, encoded), found.loss, atol=1e-6)


@pytest.mark.parametrize("kind", llm.ARCHITECTURES)
def test_the_loss_is_that_of_the_model_itself(kind: str) -> None:
    model = llm.base(kind)
    encoded = encode(llm.texts(5), model)
    for text in range(5):
        ids = torch.from_numpy(encoded.window(text))[None]
        with torch.no_grad():
            own = model.module(input_ids=ids, labels=ids).loss
        assert losses(model, encoded)[text] == pytest.approx(float(own), abs=1e-5)


@pytest.mark.parametrize("kind", llm.ARCHITECTURES)
def test_a_batch_of_one_is_as_a_large_batch_and_the_order_does_not_matter(kind: str) -> None:
    model = llm.base(kind)
    encoded = encode(llm.texts(24, prompts=True), model)
    together, alone = (token_signals(model, encoded, batch_tokens=size) for size in (100_000, 1))
    shuffled = np.random.default_rng(0).permutation(24)
    moved = token_signals(model, encoded.take(shuffled))
    for name in ("logp", "mean", "std"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), atol=1e-4)
    np.testing.assert_allclose(moved.loss, together.loss[shuffled], atol=1e-5)
    assert (together.rank != alone.rank).mean() < 0.01


@pytest.mark.parametrize("kind", llm.ARCHITECTURES)
def test_no_model_needs_its_whole_logits(kind: str) -> None:
    model = llm.base(kind)
    probe = torch.arange(20)
    parts = hidden_and_head(model.module, probe)
    assert parts is not None
    with torch.no_grad():
        own = model.module(input_ids=probe[None]).logits[0]
        torch.testing.assert_close(parts[1](parts[0](probe[None], None)[0]), own, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gemma2", "cohere", "qwen2"])
def test_in_half_precision_what_comes_after_the_head_is_found_too(kind: str) -> None:
    module = llm.module(kind).to(torch.bfloat16).eval()
    with torch.no_grad():
        module.get_input_embeddings().weight.mul_(0.3)  # pyright: ignore  # logits where a cap changes little
        probe = torch.arange(12)
        parts = hidden_and_head(module, probe)
        assert parts is not None
        own = module(input_ids=probe[None]).logits[0]
        torch.testing.assert_close(parts[1](parts[0](probe[None], None)[0]), own, atol=0.02, rtol=0.01)


class Odd(nn.Module):
    """A model that does something of its own to its logits."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.config = inner, inner.config  # type: ignore[attr-defined]

    @property
    def base_model(self) -> nn.Module:
        return self.inner.base_model  # type: ignore[return-value]

    def get_input_embeddings(self) -> nn.Module:
        return self.inner.get_input_embeddings()  # type: ignore[operator]

    def get_output_embeddings(self) -> nn.Module:
        return self.inner.get_output_embeddings()  # type: ignore[operator]

    def forward(self, **given: object) -> object:
        found = self.inner(**given)
        found.logits = found.logits**3 / 9
        return found


def test_a_model_with_a_head_of_its_own_is_asked_as_a_whole() -> None:
    model = llm.base("llama")
    odd = Odd(model.module)
    encoded = encode(llm.texts(6), model)
    assert hidden_and_head(odd, torch.arange(9)) is None
    found = token_signals(odd, encoded)
    for text in range(6):
        ids = encoded.window(text)
        with torch.no_grad():
            logp = odd(input_ids=torch.from_numpy(ids)[None]).logits[0].double().log_softmax(-1).numpy()
        part = slice(*encoded.offsets[text : text + 2])
        np.testing.assert_allclose(found.logp[part], logp[np.arange(len(ids) - 1), ids[1:]], atol=1e-4)


def test_pieces_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = llm.base()
    encoded = encode(llm.texts(), model)
    whole = token_signals(model, encoded)
    monkeypatch.setattr(under_test, "_LOGITS", 3 * 384)
    monkeypatch.setattr(under_test, "_CACHED", 2 * 384)
    pieces = token_signals(model, encoded)
    for name in ("logp", "mean", "std"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), atol=2e-6)


def test_a_distribution_on_few_tokens_has_its_exact_deviation() -> None:
    logits = torch.full((3, 50), -torch.inf)
    logits[0, 7] = 5.0  # one token alone
    logits[1, :4] = 2.0  # four alike
    logits[2, 0], logits[2, 1] = 0.0, float(np.log(3.0))  # one quarter, three quarters
    logp, mean, std, rank = under_test._statistics(logits, torch.tensor([7, 2, 0])).numpy()
    half = 0.25 * np.log(0.25) + 0.75 * np.log(0.75)
    np.testing.assert_allclose(logp, [0, np.log(0.25), np.log(0.25)], atol=1e-7)
    np.testing.assert_allclose(mean, [0, np.log(0.25), half], atol=1e-7)
    np.testing.assert_allclose(std, [0, 0, np.sqrt(3 / 16) * np.log(3)], atol=1e-6)
    assert rank.tolist() == [0, 0, 1]


class Sure(Odd):
    """A model that rules one token out."""

    word = 0

    def forward(self, **given: object) -> object:
        found = self.inner(**given)
        found.logits[..., self.word] = -torch.inf
        return found


def test_a_token_that_is_ruled_out_and_there_is_refused_as_in_a_loss() -> None:
    model = llm.base()
    encoded = encode(llm.texts(4), model)
    sure = Sure(model.module)
    sure.word = int(encoded.window(2)[-1])
    for measure in (token_signals, losses):
        with pytest.raises(
            LanguageModelError, match=r"not finite for \d+ of \d+ tokens, first in text \d \(id 't"
        ):
            measure(sure, encoded)
    logits = torch.tensor([[0.0, 0.0, -torch.inf], [0.0, 0.0, -torch.inf]])
    logp, mean, std, rank = under_test._statistics(logits, torch.tensor([2, 1])).numpy()
    np.testing.assert_allclose(logp, [-np.inf, np.log(0.5)], atol=1e-7)
    np.testing.assert_allclose([mean, std, rank], [[np.log(0.5)] * 2, [0, 0], [2, 0]], atol=1e-7)


def test_a_prediction_without_any_token_is_not_finite() -> None:
    logits = torch.zeros(2, 5)
    logits[1] = -torch.inf
    found = under_test._statistics(logits, torch.tensor([3, 3]))
    assert torch.isfinite(found[:, 0]).all()
    assert not torch.isfinite(found[0, 1])


def test_sigma_does_not_cancel_where_the_mean_is_large() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4, 60_000)) * 1e-3
    line = z - np.log(np.exp(z).sum(1, keepdims=True))
    share = np.exp(line)
    mean = (share * line).sum(1)
    expected = np.sqrt((share * (line - mean[:, None]) ** 2).sum(1))
    found = under_test._statistics(torch.from_numpy(z).float(), torch.zeros(4, dtype=torch.long)).numpy()
    np.testing.assert_allclose(found[1], mean, rtol=1e-6)
    np.testing.assert_allclose(
        found[2], expected, rtol=1e-3
    )  # float32 logits near 11 hold four digits of 1e-3


def test_batches_hold_like_lengths_and_each_window_once() -> None:
    lengths = np.random.default_rng(1).integers(1, 300, 200)
    made = batches(lengths, 1024)
    assert sorted(np.concatenate(made).tolist()) == list(range(200))
    assert all(lengths[batch].max() * len(batch) <= 1024 for batch in made)
    padding = sum(int(lengths[batch].max() * len(batch) - lengths[batch].sum()) for batch in made)
    apart = sum(
        int(lengths[batch].max() * len(batch) - lengths[batch].sum())
        for batch in batches(lengths, 1024, by_length=False)
    )
    assert padding < 0.1 * apart
    assert [batch.tolist() for batch in batches(np.array([9, 9]), 4)] == [[0], [1]]


def test_modules_are_left_in_the_mode_they_had() -> None:
    model = llm.base("gpt2")  # with dropout
    encoded = encode(llm.texts(4), model)
    expected = losses(model, encoded)
    model.module.train()
    model.module.get_submodule("transformer.h.0").eval()
    np.testing.assert_array_equal(losses(model.module, encoded), expected)
    assert model.module.training
    assert not model.module.get_submodule("transformer.h.0").training
    assert model.module.get_submodule("transformer.h.1.mlp").training


def test_a_split_text_scores_each_token_once_with_what_is_before_it() -> None:
    model = llm.base()
    long = " ".join(llm.SENTENCES[:8])
    encoded = encode(Texts.of([long, llm.SENTENCES[3]]), model, on_long="split")
    ids = np.array(model.tokenizer(long)["input_ids"])
    assert encoded.counts["split"] == 1
    assert encoded.offsets[1] == len(ids) - 1
    found = token_signals(model, encoded)
    at = llm.CONTEXT  # the first token of the second window: half a context before it
    for token, start in ((1, 0), (at - 1, 0), (at, at - llm.CONTEXT // 2), (at + 3, at - llm.CONTEXT // 2)):
        expected = naive(model, ids[start : token + 1], token - start)
        assert found.logp[token - 1] == pytest.approx(float(expected["logp"][-1]), abs=1e-4)
    assert found.loss[0] == pytest.approx(-found.logp[: len(ids) - 1].mean(dtype=np.float64))


def test_logits_that_are_not_finite_name_the_text() -> None:
    model = llm.base()
    encoded = encode(llm.texts(4), model)
    word = int(encoded.window(2)[-2])
    with torch.no_grad():
        model.module.get_input_embeddings().weight[word] = torch.nan  # pyright: ignore
    with pytest.raises(
        LanguageModelError, match=r"not finite for \d+ of \d+ tokens, first in text 0 \(id 't0'\)"
    ):
        token_signals(model, encoded)
    with pytest.raises(ValueError, match="batch_tokens: expected at least 1, got 0"):
        losses(model, encoded, batch_tokens=0)


MEMORY = """
import resource, sys
import numpy as np, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from discreet.llm.encoding import Encoded
from discreet.llm.tokens import token_signals
torch.set_num_threads(1)
vocabulary, length = int(sys.argv[1]), int(sys.argv[2])
config = Qwen2Config(vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True)
model = Qwen2ForCausalLM(config).eval()
def measure(size):
    ids = np.arange(size) % vocabulary
    one = np.array([1])
    token_signals(model, Encoded(np.arange(1), ids, np.array([0, size]), one, np.array([0]), ("x",)))
measure(64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measure(length)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_vocabulary_times_length() -> None:
    out = subprocess.run(
        [sys.executable, "-c", MEMORY, "100000", "4096"], capture_output=True, text=True, check=True
    )
    assert int(out.stdout.split()[-1]) / 1024 < 400  # the logits alone would be 1,600 MB
