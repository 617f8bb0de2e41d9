"""Small data and models for public scripts, which would download larger ones, and extensions that they would build;
``public_scripts.py`` calls this.

    VENV/bin/python benchmarks/public_data.py mnist data

The first word names what is made, the second one the folder for it, below the current one.
"""

from __future__ import annotations

import json
import pickle
import random
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_SENTENCE = "the a cat dog bird fish sees likes finds small red old new house tree river and or not very"
WORDS = _SENTENCE.split()
METRIC = """
import datasets
import evaluate


class Accuracy(evaluate.Metric):
    def _info(self):
        features = {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(features))

    def _compute(self, predictions, references):
        return {"accuracy": sum(ours == theirs for ours, theirs in zip(predictions, references)) / len(references)}
"""
CONFIGURATIONS = """---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
  - {split: test, path: validation.jsonl}
---
"""


def sentence(length: int = 8) -> str:
    return " ".join(random.choices(WORDS, k=length))


def glue(folder: Path) -> None:
    """Pairs of sentences, as in MRPC, and their metric; ``nyu-mll/glue`` and ``glue`` on the hub."""
    (data := folder / "nyu-mll" / "glue").mkdir(parents=True)
    for name, count in {"train": 192, "validation": 64}.items():
        rows = [
            {"sentence1": sentence(), "sentence2": sentence(), "label": random.randrange(2), "idx": number}
            for number in range(count)
        ]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "README.md").write_text(CONFIGURATIONS)
    (folder / "glue").mkdir()
    (folder / "glue" / "glue.py").write_text(METRIC)


def bert(folder: Path) -> None:
    """A BERT of two narrow layers in ``bert-base-cased``, a name on the hub."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast  # type: ignore[import-not-found]

    torch.manual_seed(0)  # type: ignore[no-untyped-call, unused-ignore]
    (place := folder / "bert-base-cased").mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (place / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab_file=str(place / "vocab.txt"), model_max_length=64).save_pretrained(place)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(place)


def gpt2(folder: Path) -> None:
    """A GPT-2 of two narrow layers in ``gpt2``, a name on the hub, with a tokenizer of words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found]
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)  # type: ignore[no-untyped-call, unused-ignore]
    vocabulary = {word: number for number, word in enumerate(["<|endoftext|>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<|endoftext|>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token=end, eos_token=end, bos_token=end, pad_token=end, model_max_length=64
    )
    tokenizer.save_pretrained(folder / "gpt2")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(vocabulary), **sizes, **ends)).save_pretrained(folder / "gpt2")


def text(folder: Path) -> None:
    """Files of sentences: ``train.txt``, ``validation.txt``, and ``wikitext-2.txt`` of Lightning's demos."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in {"train.txt": 2000, "validation.txt": 200, "wikitext-2.txt": 16_200}.items():
        (folder / name).write_text("".join(sentence() + "\n" for _ in range(count)))


def bins(folder: Path) -> None:
    """Tokens of nanoGPT: ``train.bin`` and ``val.bin``, of 65 characters."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for name, count in {"train.bin": 20_000, "val.bin": 4_000}.items():
        draw.integers(65, size=count).astype(np.uint16).tofile(folder / name)
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65}))


def mnist(folder: Path, training: int = 640) -> None:
    """Images of random numbers in MNIST's format, below ``MNIST/raw``."""
    (place := folder / "MNIST" / "raw").mkdir(parents=True)
    for name, count in {"train": training, "t10k": 64}.items():
        images = struct.pack(">4I", 0x803, count, 28, 28) + random.randbytes(count * 28 * 28)
        labels = struct.pack(">2I", 0x801, count) + bytes(random.choices(range(10), k=count))
        for kind, packed in {"images-idx3": images, "labels-idx1": labels}.items():
            (place / f"{name}-{kind}-ubyte").write_bytes(packed)


def whole_mnist(folder: Path) -> None:
    """As many images as MNIST has."""
    mnist(folder, 60_000)


def images(folder: Path) -> None:
    """Pictures of two classes, ``train`` and ``val``, in folders as of ImageNet."""
    from PIL import Image  # type: ignore[import-not-found, unused-ignore]

    for part, count in {"train": 32, "val": 8}.items():
        for kind in ("one", "two"):
            (place := folder / part / kind).mkdir(parents=True)
            for number in range(count):
                picture: Any = Image.frombytes("RGB", (40, 40), random.randbytes(40 * 40 * 3))
                picture.save(place / f"{number}.png")


def deepspeed(_folder: Path) -> None:
    """DeepSpeed's extensions, in PyTorch's cache: ranks cannot write there."""
    from deepspeed.accelerator import get_accelerator  # type: ignore[import-not-found]

    for name in ("FusedAdamBuilder", "ShareMemCommBuilder"):
        get_accelerator().create_op_builder(name).load()


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "glue": glue,
    "bert": bert,
    "gpt2": gpt2,
    "text": text,
    "bins": bins,
    "mnist": mnist,
    "whole_mnist": whole_mnist,
    "images": images,
    "deepspeed": deepspeed,
}


if __name__ == "__main__":
    random.seed(0)
    MAKERS[sys.argv[1]](Path(sys.argv[2]))
