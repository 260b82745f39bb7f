"""A model folder without weights: enough for Dynamo's mocker and for vLLM on a simulated accelerator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = 4094
UNKNOWN, END = "<unk>", "</s>"


def word(number: int) -> str:
    """The text of one token."""
    return f"w{number % WORDS}"


def make_model(folder: Path) -> None:
    """Write configuration and tokenizer. Every word is one token, so prompts sent as text have exact lengths."""
    special = [{"id": i, "content": t, "special": True} for i, t in enumerate((UNKNOWN, END))]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    files: dict[str, dict[str, Any]] = {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [token | flags for token in special],
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {UNKNOWN: 0, END: 1} | {word(i): i + 2 for i in range(WORDS)},
                "unk_token": UNKNOWN,
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": UNKNOWN,
            "eos_token": END,
            "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
        },
        "generation_config.json": {"eos_token_id": 1},
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "num_hidden_layers": 2,
            "vocab_size": WORDS + 2,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "eos_token_id": 1,
            "torch_dtype": "bfloat16",
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in files.items():
        (folder / name).write_text(json.dumps(document), "utf-8")
