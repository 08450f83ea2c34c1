#!/usr/bin/env python3
"""Plants faults in the text of the Metal kernels and shows that the twin finds each: a missing barrier by other
bits in another order of threads, lanes that part by a sentence, a read out of bounds by the address sanitizer.
(A missing address space: tools/metal_text_test.py.) Compiles two kernels several times, half a minute: only with
FORETOKEN_FULL=1."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = "src/backends/metal/kernels"
BARRIER = "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
LIST = "FT_PLAIN(rms_norm)\nFT_INSTANCE(linear_few1_affine4, linear_few<kAffine, 4, 1>)\n"

# Buffers are as long as the kernels may read. The exit code: 3 if an order of threads changes a bit, 4 if
# threads wait for each other for ever.
PROBE = r"""
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/twin/fibres.h"
#include "backends/metal/twin/kernels.h"
using Floats = std::vector<float>;
std::byte* bytes(Floats& floats) { return reinterpret_cast<std::byte*>(floats.data()); }
Floats values(std::size_t count) {
  Floats all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<float>(i * 37 % 101) / 17 - 2;
  return all;
}
Floats norm() {
  Floats x = values(700), weight = values(700), y(700);
  const NormArgs args{1, 700, 700, 700, 0, 1, 1e-6F};
  std::byte* buffers[] = {bytes(x), bytes(weight), bytes(y)};
  ft::metal::run_twin_kernel(ft::metal::find_twin_kernel("rms_norm"), buffers,
                             reinterpret_cast<const std::byte*>(&args), {1, 1, 1}, 256);
  return y;
}
Floats linear() {
  Floats codes = values(32 * 8 * 4), scales = values(32 * 8), x = values(256), sums = values(8), y(32);
  const LinearArgs args{1, 256, 32, 256, 32, 32, 2, 0, 0, 0, 0, 0};
  std::byte* buffers[] = {bytes(codes), bytes(scales), bytes(x), bytes(sums), bytes(y)};
  ft::metal::run_twin_kernel(ft::metal::find_twin_kernel("linear_few1_affine4"), buffers,
                             reinterpret_cast<const std::byte*>(&args), {1, 1, 1}, 256);
  return y;
}
int main() {
  try {
    const Floats a = norm(), b = linear();
    for (const unsigned seed : {7U, 1234U}) {
      ft::metal::set_fibre_order(seed);
      const Floats c = norm(), d = linear();
      if (std::memcmp(a.data(), c.data(), a.size() * 4) != 0 || std::memcmp(b.data(), d.data(), b.size() * 4) != 0) {
        std::puts("another order of threads, other bits");
        return 3;
      }
    }
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 4;
  }
  return 0;
}
"""


class Faults(unittest.TestCase):
    def run_with(self, file, old, new, sanitizer=False):
        """The exit code and output of the probe with `old` in a kernel's file replaced."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            shutil.copytree(ROOT / "src/backends/metal", copy / "src/backends/metal")
            path = copy / KERNELS / file
            text = path.read_text(encoding="utf-8")
            self.assertIn(old, text)
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
            (copy / KERNELS / "list.inc").write_text(LIST, encoding="utf-8")
            (copy / "probe.cpp").write_text(PROBE, encoding="utf-8")
            twin = [copy / "src/backends/metal/twin/kernels.cpp", copy / "src/backends/metal/twin/fibres.cpp"]
            twin.append(ROOT / "src/backends/fibre_context.cpp")
            command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-ffp-contract=off", "-w"]
            command += ["-DFMT_HEADER_ONLY", "-I", str(copy / "src"), "-I", str(ROOT / "src")]
            command += [*map(str, twin), str(copy / "probe.cpp")]
            command += ["-o", str(copy / "probe")]
            # Fibres have separate stacks, which the sanitizer's marks do not follow.
            command += ["-fsanitize=address", "--param", "asan-stack=0"] if sanitizer else []
            subprocess.run(command, check=True)
            environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0")
            done = subprocess.run([str(copy / "probe")], env=environment, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_without_a_fault_none_is_found(self):
        self.assertEqual(self.run_with("norm.h", BARRIER, BARRIER, sanitizer=True), (0, ""))

    def test_a_missing_barrier(self):
        for file in ("norm.h", "linear.h"):
            code, said = self.run_with(file, BARRIER, "")
            self.assertEqual(code, 3, f"{file}: {said}")

    def test_lanes_that_part(self):
        meeting = "x += simd_shuffle_xor(x, 16);"
        code, said = self.run_with("language.h", meeting, f"if (x > 1.0f) {meeting}")
        self.assertEqual(code, 4, said)
        self.assertIn("rms_norm wait for others that never come", said)

    def test_a_read_out_of_bounds(self):
        right, wrong = "sum = fma(in[i], in[i], sum);", "sum = fma(in[i], in[i + 1], sum);"
        code, said = self.run_with("norm.h", right, wrong, sanitizer=True)
        self.assertNotIn(code, (0, 3, 4))
        self.assertIn("heap-buffer-overflow", said)


if __name__ == "__main__":
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        print("metal_faults: no C++ compiler")
        sys.exit(77)
    if not os.environ.get("FORETOKEN_FULL"):
        print("metal_faults: skipped; FORETOKEN_FULL=1 runs it")
        sys.exit(77)
    unittest.main()
