"""The default model, a GGUF file, as the folder that vLLM reads. usage: python scripts/vllm_model.py weights|tokenizer GGUF FOLDER

`weights` runs where transformers is, `tokenizer` where Antiphon is: what transformers reads of a GGUF tokenizer splits digits and
white space otherwise than the model was trained with.
"""

import sys
from pathlib import Path


def write_weights(gguf: Path, folder: Path) -> None:
    """Weights in bfloat16, configuration and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    unpacked = GgufConfig(dequantize=True)
    AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16, quantization_config=unpacked).save_pretrained(folder)
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)


def write_tokenizer(gguf: Path, folder: Path) -> None:
    """Puts tokenizer.json in place of the one that is there."""
    from antiphon_tokenizers.gguf import build_tokenizer, read_metadata

    build_tokenizer(read_metadata(gguf), gguf).save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    part, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    {"weights": write_weights, "tokenizer": write_tokenizer}[part](source, target)
