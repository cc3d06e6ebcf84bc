"""Files of texts, tokens of answers, windows and models that are read, with what is refused and why."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from discreet.llm import TextError, Texts, apart, encode, joined, losses, read_texts
from discreet.llm.encoding import windows
from tests import llm

ROWS = [{"prompt": "Q: a\n", "completion": 'b, "c"\nd'}, {"prompt": "", "completion": "größer"}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_all_kinds_of_files_hold_the_same_texts(suffix: str, tmp_path: Path) -> None:
    found = read_texts(write(tmp_path / f"a{suffix}", ROWS))
    assert found.prompt == ("Q: a\n", "")
    assert found.answer == ('b, "c"\nd', "größer")
    assert found.sample.tolist() == [0, 1]
    plain = read_texts(
        write(tmp_path / f"b{suffix}", [{"id": "x", "text": "one"}, {"id": "y", "text": "two"}])
    )
    assert (plain.prompt, plain.answer, plain.sample.tolist()) == (("", ""), ("one", "two"), ["x", "y"])
    named = read_texts(
        write(tmp_path / f"c{suffix}", [{"smiles": "CCO", "iupac": "ethanol"}]),
        prompt="smiles",
        answer="iupac",
    )
    assert (named.prompt, named.answer) == (("CCO",), ("ethanol",))
    alone = read_texts(
        write(tmp_path / f"d{suffix}", [{"smiles": "CCO", "iupac": "ethanol"}]), answer="iupac"
    )
    assert (alone.prompt, alone.answer) == (("",), ("ethanol",))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": 3}\n', r"a.jsonl, line 2: expected text in 'text', got int '3'"),
        (
            "a.jsonl",
            '{"text": "a"}\n\n{"txt": "b"}\n',
            r"a.jsonl, line 3: expected text in 'text', got nothing",
        ),
        (
            "a.jsonl",
            '{"text": "a"}\nnope\n',
            r"a.jsonl, line 2: expected one JSON object, but it cannot be read: Expecting value at 1",
        ),
        ("a.jsonl", '["a"]\n', r"a.jsonl, line 1: expected one JSON object, got list"),
        ("a.jsonl", "\n", r"a.jsonl: no texts in it"),
        ("a.jsonl", '{"a": "x", "b": "y"}\n', r"cannot tell which columns are meant among a, b"),
        ("a.jsonl", '{"text": "x", "prompt": "y", "answer": "z"}\n', r"cannot tell which columns are meant"),
        (
            "a.jsonl",
            '{"prompt": "y", "answer": "z", "output": "z"}\n',
            r"cannot tell which columns are meant",
        ),
        (
            "a.jsonl",
            '{"id": 1, "text": "x"}\n{"id": 1, "text": "y"}\n',
            r"column 'id': sample '1' appears 2 times",
        ),
        (
            "a.jsonl",
            '{"messages": [{"role": "user", "content": "x"}]}\n',
            r"line 1: expected messages .* the last one by",
        ),
        ("a.jsonl", '{"messages": [{"role": "robot", "content": "x"}]}\n', r"line 1: expected messages"),
        ("a.csv", "text,b\nx,1\ny\n", r"a.csv, row 2: expected 2 values as in the header, got 1"),
        ("a.csv", "text,text\nx,y\n", r"a.csv: there are 2 columns 'text'; keep one"),
        (
            "a.jsonl",
            '{"id": ' + "1" * 5000 + "}",
            r"line 1: expected one JSON object, but it cannot be read: Exc",
        ),
        ("a.jsonl.gz", "\ud83d", r"a.jsonl.gz: expected a .jsonl, .csv or .parquet file"),
        ("a.txt", "x\n", r"a.txt: expected a .jsonl, .csv or .parquet file"),
        ("a.parquet", "x\n", r"a.parquet: cannot be read"),
    ],
)
def test_files_that_cannot_be_read_say_where(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, errors="surrogatepass")
    with pytest.raises(TextError, match=message):
        read_texts(tmp_path / name)


def test_missing_files_columns_and_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"none.jsonl: cannot be read: No such file"):
        read_texts(tmp_path / "none.jsonl")
    (tmp_path / "a.jsonl").write_bytes('{"text": "größer"}'.encode("latin-1"))
    with pytest.raises(TextError, match=r"a.jsonl: expected UTF-8, got the byte 0xf6 at 12"):
        read_texts(tmp_path / "a.jsonl")
    write(tmp_path / "b.jsonl", ROWS)
    with pytest.raises(
        TextError, match=r"no column 'promt'; did you mean 'prompt'\?; there are prompt, completion"
    ):
        read_texts(tmp_path / "b.jsonl", prompt="promt")
    with pytest.raises(TextError, match=r"another column of answers than of prompts, got 'prompt' for both"):
        read_texts(tmp_path / "b.jsonl", prompt="prompt", answer="prompt")


def test_what_is_on_both_sides_is_on_neither() -> None:
    members, others = Texts.of(["a  b", "c", "c", "e"], sample=list("wxyz")), Texts.of(["a b\n", "d", "a b"])
    left, right, counts = apart(members, others)
    assert (left.sample.tolist(), right.answer) == (["x", "z"], ("d",))
    assert counts == {"shared": 3, "repeated_members": 1, "repeated_nonmembers": 0}
    asked = apart(Texts.of(["c", "c"], ["1", "2"]), Texts.of(["c"], ["3"]))  # other prompts, other texts
    assert (len(asked[0]), len(asked[1]), asked[2]["shared"]) == (2, 1, 0)
    assert apart(Texts.of(["gr\u00f6\u00dfer", "a"]), Texts.of(["gro\u0308\u00dfer", "b"]))[2]["shared"] == 2
    with pytest.raises(TextError, match="no text is left"):  # the model saw one and the same text
        apart(Texts.of([" c d"], ["a b"]), Texts.of(["a b c d"]))
    with pytest.raises(TextError, match="nonmembers: no text is left: all 1 are also on the other side"):
        apart(members, Texts.of(["c"]))
    whole = joined(left, right)
    assert (whole.answer, whole.sample.tolist()) == (("c", "e", "d"), [0, 1, 2])
    assert joined(Texts.of(["a"], sample=["x"]), Texts.of(["b"], sample=["y"])).sample.tolist() == ["x", "y"]


def test_texts_are_known_again_where_they_are_cut_or_split() -> None:
    model = llm.base()
    long, prompts = [" ".join(llm.SENTENCES[i : i + 8]) for i in range(3)], ["", "", llm.SENTENCES[3] * 9]
    whole = [a + b for a, b in zip(prompts, long, strict=True)]
    split = encode(Texts.of(["a b", *long], ["", *prompts]), model, on_long="split")
    cut = encode(Texts.of([whole[2], long[1]]), model, mask_prompt=False, on_long="cut")
    assert split.also_in(cut).tolist() == [False, False, True, True]
    assert cut.take([0]).also_in(split.take([3, 0])).tolist() == [True]
    assert cut.take([1]).also_in(split.take([3, 0])).tolist() == [False]


@pytest.mark.parametrize("bos", [False, True])
def test_scored_tokens_are_those_of_the_answer(bos: bool) -> None:
    model = llm.base(bos=bos)
    texts = Texts.of([" ethanol is", "benzene is", " CC(=O)O"], ["What?", "", "The name of"])
    encoded = encode(texts, model)
    for text, whole in enumerate(texts.whole):
        ids = encoded.window(text)
        assert ids.tolist() == model.tokenizer(whole)["input_ids"]
        assert (ids[0] == model.tokenizer.bos_token_id) == bos
        answer = model.tokenizer.decode(ids[encoded.first[text] :])
        if texts.prompt[text] or bos:
            assert answer == texts.answer[text]
        else:
            assert encoded.first[text] == 1
    assert encoded.text == texts.answer
    everything = encode(texts, model, mask_prompt=False)
    assert everything.first.tolist() == [1, 1, 1]
    assert everything.text == texts.whole
    ended = encode(texts, model, end=True)
    assert [ended.window(text)[-1] for text in range(3)] == [model.tokenizer.eos_token_id] * 3
    assert np.diff(ended.offsets).tolist() == (np.diff(encoded.offsets) + 1).tolist()


def test_a_token_across_the_seam_is_the_answers() -> None:
    model = llm.base()
    tokenizer = model.tokenizer
    whole = next(word for word in llm.WORDS if len(tokenizer(f" {word}")["input_ids"]) == 1 and len(word) > 3)
    encoded = encode(Texts.of([whole[2:]], [f"the {whole[:2]}"]), model)
    assert tokenizer.decode(encoded.window(0)[encoded.first[0] :]) == f" {whole}"


def test_the_loss_of_an_answer_does_not_count_its_prompt() -> None:
    model = llm.base()
    texts = llm.texts(6, prompts=True)
    masked, whole = (
        losses(model, encode(texts, model)),
        losses(model, encode(texts, model, mask_prompt=False)),
    )
    assert not np.allclose(masked, whole, atol=1e-3)
    assert (
        masked.tolist() != losses(model, encode(Texts.of(texts.answer), model)).tolist()
    )  # the prompt is context


def test_padding_side_and_pad_token_change_nothing() -> None:
    model = llm.base()
    assert model.tokenizer.pad_token is None
    expected = encode(llm.texts(5), model)
    odd = copy.deepcopy(model.tokenizer)
    odd.add_special_tokens({"pad_token": "</s>"})
    odd.padding_side = odd.truncation_side = "left"
    odd.model_max_length = 5
    found = encode(llm.texts(5), llm.of_module(model.module, odd))
    assert found.tokens.tolist() == expected.tokens.tolist()
    assert odd.model_max_length == 5


def test_chats_go_through_the_template(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "name of CCO"}, {"role": "assistant", "content": "ethanol"}]
    path = write(tmp_path / "a.jsonl", [{"messages": chat}])
    texts = read_texts(path)
    assert texts.answer == ("ethanol",)
    model = llm.base(template=True, bos=True)
    encoded = encode(texts, model)
    ids = encoded.window(0)
    assert model.tokenizer.decode(ids) == "<s>user: name of CCO</s><s>assistant: ethanol</s>"
    assert model.tokenizer.decode(ids[encoded.first[0] :]) == " ethanol</s>"  # the seam is inside a token
    assert encoded.text == ("ethanol",)
    with pytest.raises(TextError, match="the tokenizer has no chat template; give prompt and completion"):
        encode(texts, llm.base())
    with pytest.raises(TextError, match="chats and plain texts cannot be scored together"):
        joined(texts, Texts.of(["a"]))
    model.tokenizer.chat_template = "{{ messages[0].content }}{% if add_generation_prompt %}!{% endif %}"
    try:
        with pytest.raises(
            TextError, match=r"a.jsonl, line 1: the chat template does not continue the prompt"
        ):
            encode(texts, model)
        model.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
        with pytest.raises(TextError, match=r"the chat template refuses it: roles must alternate"):
            encode(texts, model)
    finally:
        llm.tokenizer.cache_clear()


def test_texts_with_nothing_to_score_or_too_long_are_named() -> None:
    model = llm.base()
    long = " ".join(llm.SENTENCES[:8])
    for texts, more, message in (
        (
            Texts.of(["a b", " "], sample=["x", "y"]),
            {},
            r"text 1 \(id 'y'\) has nothing to score: it is empty but for white space$",
        ),
        (
            Texts.of(["", "a", ""], ["q", "q", "q"]),
            {},
            r"text 0 \(id '0'\) .*its answer is empty \(2 such texts\)",
        ),
        (
            Texts.of(["", ""], ["q", ""]),
            {"mask_prompt": False},
            r"text 1 \(id '1'\) has nothing to score: it is empty",
        ),
        (
            Texts.of(["a"]),
            {},
            r"text 0 \(id '0'\) has nothing to score: it is 1 token, and the first has nothing before",
        ),
        (
            Texts.of(["a b", long]),
            {},
            r"text 1 \(id '1'\) has \d+ tokens, more than the model's context of 64; split",
        ),
        (
            Texts.of(["a b"], [long]),
            {"on_long": "cut"},
            r"text 0 .* cannot be cut to 64 tokens: nothing to score would be",
        ),
        (
            Texts.of(["a b", "a \ud800 b"]),
            {},
            r"text 1 \(id '1'\) has half of a surrogate pair in it, which no tokenizer takes",
        ),
        (Texts.of(["a b"]), {"on_long": "drop"}, r"on_long: expected one of refuse, split, cut, got 'drop'"),
    ):
        with pytest.raises(TextError, match=message):
            encode(texts, model, **more)
    assert len(encode(Texts.of(["a"]), llm.base(bos=True))) == 1
    cut = encode(Texts.of([long, "a b"]), model, on_long="cut")
    assert (cut.counts["cut"], cut.lengths.tolist()[0], len(cut.owner)) == (1, 64, 2)
    assert cut.counts["tokens_cut"] == len(model.tokenizer(long)["input_ids"]) - 64
    assert cut.text[1] == "a b"
    assert long.startswith(cut.text[0])
    assert model.tokenizer(cut.text[0])["input_ids"] == cut.window(0).tolist()
    asked = encode(Texts.of([long], ["what is it? "]), model, on_long="cut")
    assert asked.window(0).tolist()[asked.first[0] :] == model.tokenizer(asked.text[0])["input_ids"]
    with pytest.raises(TextError, match=r"expected at least one text, got none"):
        Texts.of([])
    with pytest.raises(TextError, match=r"sample 'x' appears 2 times"):
        Texts.of(["a", "b"], sample=["x", "x"])


def test_texts_read_from_files_are_named_by_file_and_line(tmp_path: Path) -> None:
    """However they were dealt out meanwhile."""
    one = read_texts(write(tmp_path / "one.jsonl", [{"text": text} for text in ("a b", "b c", "c d")]))
    (tmp_path / "two.jsonl").write_text('\n{"text": "x y"}\n\n{"text": " "}\n')
    two = read_texts(tmp_path / "two.jsonl")
    with pytest.raises(
        TextError, match=r"two.jsonl, line 4 has nothing to score: it is empty but for white space$"
    ):
        encode(joined(one.take([2, 0]), two.take([1, 0])), llm.base())
    assert joined(one, Texts.of(["z"])).where == ()


def test_any_line_end_may_be_within_a_text_of_a_table(tmp_path: Path) -> None:
    said = ["a\u2028b", "a\x0cb", "a\r\nb", "a\nb", "a\x85b", "a\rb"]
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in said)])
    assert list(read_texts(tmp_path / "a.csv").answer) == said


def test_a_tokenizer_of_another_model_is_refused() -> None:
    small = llm.of_module(llm.module("gpt2"), llm.tokenizer())
    small.module.resize_token_embeddings(100)  # pyright: ignore
    with pytest.raises(
        TextError, match=r"has the token \d+, but model knows 100; the tokenizer is another model's"
    ):
        encode(llm.texts(3), small)


@given(st.integers(2, 60), st.integers(2, 12), st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_windows_score_each_position_once_with_half_a_context_before(
    length: int, context: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, length - 1))
    made = windows(length, first, context)
    scored = [at for start, stop, begin in made for at in range(begin, stop)]
    assert scored == list(range(first, length))
    for start, stop, begin in made:
        assert 0 <= start < begin < stop <= length
        assert stop - start <= context
        assert start == 0 or begin - start >= context // 2


@pytest.mark.parametrize("size", [4, 5])
def test_taking_texts_takes_their_windows(size: int) -> None:
    model = llm.base()
    texts = Texts.of([llm.SENTENCES[2], " ".join(llm.SENTENCES[:8]), llm.SENTENCES[5]])
    encoded = encode(texts, model, on_long="split")
    some = encoded.take(np.array([2, 1]))
    alone = encode(texts.take([2, 1]), model, on_long="split")
    assert some.sha == alone.sha != encoded.sha
    assert some.offsets.tolist() == alone.offsets.tolist()
    assert encoded.take(np.array([True, False, True])).sample.tolist() == [0, 2]
