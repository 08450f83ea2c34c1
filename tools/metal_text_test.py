#!/usr/bin/env python3
"""Plants each breach that tools/metal_text.py must find, in a copy of the kernels."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = "src/backends/metal/kernels"


class Breaches(unittest.TestCase):
    def check(self, file, old, new, expected):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            shutil.copytree(ROOT / "src/backends/metal", copy / "src/backends/metal")
            text = (copy / file).read_text(encoding="utf-8")
            self.assertIn(old, text)
            (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")
            command = [sys.executable, ROOT / "tools/metal_text.py", "--root", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1 if expected else 0, done.stdout)
            self.assertIn(expected, done.stdout)

    def test_the_tree_is_clean(self):
        self.check(f"{KERNELS}/norm.h", "float sum = 0.0f;", "float sum = 0.0f;", "")

    def test_a_double(self):
        self.check(f"{KERNELS}/norm.h", "float sum = 0.0f;", "double sum = 0.0f;", "no double")
        self.check(f"{KERNELS}/norm.h", "float sum = 0.0f;", "float sum = 0.5;", "is a double")

    def test_a_product_that_is_added(self):
        fused = "dot[r] = fma(x[at[r] * a.x_stride + k + uint(i)], q, dot[r])"
        self.check(f"{KERNELS}/linear.h", fused, "dot[r] += q * dot[r]", "is an fma()")

    def test_a_sum_in_an_order_of_metal(self):
        self.check(f"{KERNELS}/norm.h", "lanes_sum(x);", "simd_sum(x);", "Metal's own")

    def test_a_static_variable(self):
        self.check(f"{KERNELS}/norm.h", "float sum = 0.0f;", "static float sum = 0.0f;", "no static")

    def test_a_pointer_without_address_space(self):
        self.check(f"{KERNELS}/norm.h", "const device float* in = x", "const float* in = x", "error:")

    def test_a_fast_function(self):
        self.check(f"{KERNELS}/norm.h", "FT_SQRT(total", "sqrt(total", "FT_SQRT")

    def test_a_kernel_that_is_not_there(self):
        file = "src/backends/metal/operations.cpp"
        self.check(file, 'return {"rms_norm"}', 'return {"rms_norms"}', "no kernel rms_norms")
        self.check(file, 'launch(step, "rms_norm"', 'launch(step, "rms_norms"', "no kernel rms_norms")

    def test_a_selector_that_metal_lacks(self):
        old, new = "dispatchThreadgroups:threadsPerThreadgroup:", "dispatchThreadgroups:threads:"
        self.check("src/backends/metal/macos/device.cpp", old, new, "no selector")
        self.check("src/backends/metal/macos/device.cpp", '"waitUntilCompleted"', '"waitUntilDone"', "no selector")


if __name__ == "__main__":
    unittest.main()
