"""Pictures, texts and encoders of the paper's other tasks, read as they are laid out."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.data import labelled_texts, tinyimagenet
from discreet.data.samples import DataError
from discreet.studies.paper_encoders import Pretrained, numbered


def archive(path: Path, listed: str = "n02\nn01\n") -> Path:
    from PIL import Image

    with zipfile.ZipFile(path, "w") as into:
        into.writestr("t/wnids.txt", listed)
        into.writestr("t/val/val_annotations.txt", "val_0.JPEG\tn02\t0\t0\t9\t9\n")
        for at, name in enumerate(
            ("train/n01/images/n01_0.JPEG", "train/n02/images/n02_0.JPEG", "val/images/val_0.JPEG")
        ):
            data = io.BytesIO()
            mode = "L" if at == 1 else "RGB"  # some pictures of the archive are grey
            Image.new(mode, (64, 64), 100 if mode == "L" else (200, 0, 0)).save(data, "JPEG")
            into.writestr(f"t/{name}", data.getvalue())
    return path


def test_tiny_imagenet_is_read_training_first(tmp_path: Path) -> None:
    x, y, classes = tinyimagenet.read(archive(tmp_path / "a.zip"))
    assert classes == ("n01", "n02")
    assert y.tolist() == [0, 1, 1]
    assert x.shape == (3, 3, 64, 64)
    assert abs(int(x[0, 0, 30, 30]) - 200) < 5
    assert int(x[0, 1, 30, 30]) < 5
    assert abs(int(x[1, 2, 30, 30]) - 100) < 5
    with pytest.raises(DataError, match=r"is of class 'n02', which wnids\.txt does not name"):
        tinyimagenet.read(archive(tmp_path / "b.zip", "n01\n"))
    archive(tmp_path / tinyimagenet.NAME)
    with pytest.raises(DataError, match="expected MD5 90528d7c"):
        tinyimagenet.load(tmp_path)


def test_texts_are_read_and_repeats_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hashlib import md5

    files = {
        "train.csv": b'"1","A","one"\n"4","B","two ""quoted"""\n',
        "test.csv": b'"1","A","one"\n"2","C","three"\n',
    }
    (tmp_path / "ag_news_csv").mkdir()
    for name, data in files.items():
        (tmp_path / "ag_news_csv" / name).write_bytes(data)
    known = tuple((f"ag_news_csv/{name}", md5(data).hexdigest()) for name, data in files.items())
    monkeypatch.setattr(labelled_texts, "AG_NEWS", known)
    found = labelled_texts.ag_news(tmp_path)
    assert found.texts == ("A one", 'B two "quoted"', "C three")
    assert found.y.tolist() == [0, 3, 1]
    assert found.counts == {"texts": 4, "repeats dropped": 1}


def encoder(folder: Path) -> Path:
    """A tiny BERT and its tokenizer, as they are saved."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=12,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=24,
        pad_token_id=0,
    )
    transformers.BertModel(config).save_pretrained(folder)
    words = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "a", "good", "bad", "film"))}
    tokenizer = Tokenizer(models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.filterwarnings("ignore")
def test_encoders_come_from_a_folder(tmp_path: Path) -> None:
    folder = encoder(tmp_path)
    rows = numbered(folder, ["a good film", "bad", "a a a a a a"], 4)
    assert rows.tolist() == [[2, 3, 5, 0], [4, 0, 0, 0], [2, 2, 2, 2]]
    whole, half = Pretrained(folder, 5).eval(), Pretrained(folder, 5, 0.5).eval()
    with torch.no_grad():
        told = whole(torch.from_numpy(rows))
        alone = whole(torch.from_numpy(rows[1:2, :1]))
    assert told.shape == (3, 5)
    torch.testing.assert_close(told[1:2], alone)  # what fills short texts is not looked at
    sizes = [
        sum(v.numel() for name, v in each.named_parameters() if ".layer." in name) for each in (whole, half)
    ]
    assert sizes[0] == 2 * sizes[1]
    first = "body.bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(whole.state_dict()[first], half.state_dict()[first])
    with pytest.raises(DataError, match="no tokenizer there; save the model"):
        numbered(tmp_path / "nowhere", ["a"], 4)
    assert np.all(rows >= 0)
