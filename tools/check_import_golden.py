#!/usr/bin/env python3
"""Compares tests/golden/import/ with the quantisers' own libraries: packed words and decoded values.

    pip install --no-deps --target LIBRARIES auto-gptq autoawq nvidia-modelopt omegaconf PyYAML pulp pydantic \\
        antlr4-python3-runtime==4.9.3 pydantic-core annotated-types typing-inspection
    PYTHONPATH=LIBRARIES .venv/bin/python tools/check_import_golden.py LIBRARIES

By hand, after make_import_golden.py: the libraries are large and of several ages. AutoGPTQ and AutoAWQ need a GPU as
whole packages, so only their files with torch code are loaded. transformers decodes FP8 with blocks.
"""
import importlib.util
import json
import pathlib
import sys

import numpy as np
import torch
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from safetensors import safe_open
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/import"
GROUP = 64


def read(name):
    with safe_open(str(GOLDEN / f"{name}.safetensors"), "pt") as file:
        tensors = {key.removeprefix("m."): file.get_tensor(key) for key in file.keys()}
        tensors["expected"] = tensors["expected"].float()
        return tensors, json.loads(file.metadata()["config"])["quantization_config"]


def load(folder, path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, pathlib.Path(folder) / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def require(name, *facts):
    if not all(facts):
        sys.exit(f"{name}: differs from its library: {facts}")
    print(f"{name}: as its library packs and decodes it")


def linear_of(weights):
    layer = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    layer.weight.data = weights.clone()
    return layer


def check_gptq(library, name):
    stored, config = read(name)
    rows, cols = stored["expected"].shape
    reader = library.QuantLinear(config["bits"], GROUP, cols, rows, False)
    reader.qweight, reader.qzeros, reader.scales = stored["qweight"], stored["qzeros"], stored["scales"].float()
    decoded = reader(torch.eye(cols)).T
    # The zeros that the file means: a group's offset, from any column whose code is known.
    step = stored["scales"].float().T.repeat_interleave(GROUP, dim=1)
    words = stored["qweight"].T.contiguous().view(torch.uint8).numpy()
    bits = config["bits"]
    codes = torch.as_tensor(
        np.unpackbits(words, axis=1, bitorder="little").reshape(rows, cols, bits).astype("int32")
        @ (1 << np.arange(bits)))
    zeros = torch.round(codes - stored["expected"] / step)[:, ::GROUP]
    packer = library.QuantLinear(bits, GROUP, cols, rows, False, weight_dtype=torch.float32)
    packer.pack(linear_of(stored["expected"]), stored["scales"].float().T, zeros, None)
    require(name, torch.equal(decoded, stored["expected"]), torch.equal(packer.qweight, stored["qweight"]),
            torch.equal(packer.qzeros, stored["qzeros"]))


def check_awq(packing, gemv):
    stored, _ = read("awq-gemm")
    decoded = packing.dequantize_gemm(stored["qweight"], stored["qzeros"], stored["scales"].float(), 4, GROUP).T
    require("awq-gemm", torch.equal(decoded, stored["expected"]))
    stored, _ = read("awq-gemv")
    groups = stored["expected"].shape[1] // GROUP
    zeros = torch.stack([(stored["qzeros"][:, 0] >> (4 * group)) & 15 for group in range(groups)], dim=1)
    made = gemv.WQLinear_GEMV.from_linear(linear_of(stored["expected"]), 4, GROUP,
                                          scales=stored["scales"][:, :groups].float(), zeros=zeros.float())
    require("awq-gemv", torch.equal(made.qweight, stored["qweight"]),
            torch.equal(made.qzeros[:, :1], stored["qzeros"]),
            torch.equal(made.scales[:, :groups], stored["scales"][:, :groups]))


def check_modelopt():
    stored, _ = read("fp4-modelopt")
    sizes = {"scale": stored["weight_scale"], "double_scale": stored["weight_scale_2"], "block_sizes": {-1: 16}}
    whole = NVFP4QTensor(stored["expected"].shape, torch.float32, stored["weight"])
    made, _, _ = NVFP4QTensor.quantize(stored["expected"], 16, stored["weight_scale"], stored["weight_scale_2"])
    # A negative zero has two codes, which decode to the same value.
    again = made.dequantize(torch.float32, **sizes)
    require("fp4-modelopt", torch.equal(whole.dequantize(torch.float32, **sizes), stored["expected"]),
            torch.equal(again, stored["expected"]))


def check_fp8():
    for name in ("fp8-block", "fp8-powers"):
        stored, _ = read(name)
        decoded = Fp8Dequantize(None)._dequantize_one(stored["weight"], stored["weight_scale_inv"], torch.float32)
        require(name, torch.equal(decoded, stored["expected"]))


def main():
    folder = sys.argv[1]
    gptq = load(folder, "auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py")
    for name in ("gptq2", "gptq3", "gptq4", "gptq8", "gptq4-middle"):
        check_gptq(gptq, name)
    sys.modules["awq"] = sys.modules["awq.utils"] = type(sys)("awq")
    sys.modules["awq.utils.module"] = type(sys)("awq.utils.module")
    sys.modules["awq.utils.module"].try_import = lambda name: (None, "")  # its kernels, which only a GPU has
    check_awq(load(folder, "awq/utils/packing_utils.py"), load(folder, "awq/modules/linear/gemv.py"))
    check_modelopt()
    check_fp8()


if __name__ == "__main__":
    main()
