"""A small Qwen3 with random weights and a tokenizer of its own: vLLM serves it, nothing is downloaded.

    python make_model.py OUT TEXT...      run with the Python of the vLLM environment

30 million parameters: one core prefills some 2,800 tokens/s and decodes some 500, slow enough to be overloaded by a
client on the same machine. Embeddings are tied, so greedy answers soon repeat themselves, which an n-gram speculator
predicts; answers sampled at temperature 1 do not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 4096
SPECIAL = ["<|endoftext|>", "<|end|>"]
SEED = 1


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on these files."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet))
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token=SPECIAL[0], eos_token=SPECIAL[1])


def main(out: Path, texts: list[str]) -> None:
    words = tokenizer(texts)
    shape = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
    )
    torch.manual_seed(SEED)
    Qwen3ForCausalLM(shape).to(torch.bfloat16).save_pretrained(out)
    words.save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
