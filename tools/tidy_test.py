#!/usr/bin/env python3
"""Plants one breach of each rule in a small tree and checks that tools/tidy.py names it, with file and line."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tidy

HEADER = "// A counter. Owned by its user; any thread; free.\n#pragma once\n\nint next_value();\n\n\n"
SOURCE = '#include "base/counter.h"\n\nnamespace ft {\nint next_value() { return 1; }\n}\n'
CLEAN = {
    "tools/floors.txt": "# the floors\nF0 base\nF1 text base\nF2 backends base\nF6 sched text base\n",
    "src/base/CMakeLists.txt": "ft_floor(base)\n",
    "src/base/counter.h": HEADER,
    "src/base/counter.cpp": SOURCE,
    "src/text/CMakeLists.txt": "ft_floor(text DEPS ft_base)\n",
    "src/text/words.h": HEADER,
    "src/text/words.cpp": '#include "text/words.h"\n\n#include "base/counter.h"\n',
    "src/backends/CMakeLists.txt": "file(GLOB sources ref/*.cpp cpu/*.cpp)\n",
    "src/backends/ref/norm.cpp": "int ref_norm() { return 0; }\n",
    "src/backends/cpu/norm_avx2.cpp": "int cpu_norm() { return 0; }\n",
}


def body(lines):
    return "".join(f"  value += {i};\n" for i in range(lines))


@mock.patch.object(tidy, "UNCONVERTED", set())
class Tidy(unittest.TestCase):
    def tidy(self, extra):
        """Reads CLEAN with `extra` on top; returns its breaches as lines, and the notes."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **extra}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            tree = tidy.examine(Path(folder))
        return [f"{name}:{line}: [{rule}] " for name, line, rule, _ in tree.breaches], tree.notes

    def assert_caught(self, extra, place, rule):
        self.assertEqual(self.tidy(extra)[0], [f"{place}: [{rule}] "])

    def assert_clean(self, extra):
        self.assertEqual(self.tidy(extra)[0], [])

    def source(self, text, name="src/base/counter.cpp"):
        return {name: '#include "base/counter.h"\n' + text}

    def test_a_clean_tree_has_no_breach(self):
        self.assert_clean({})

    def test_a_breach_is_printed_and_fails_the_command(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
            sys, "argv", ["tidy.py", "--root", folder]
        ):
            (Path(folder) / "tools").mkdir()
            (Path(folder) / "tools/floors.txt").write_text("F0 base\n", encoding="utf-8")
            self.assertEqual(self.printed(), (0, "tidy: 0 files read, 0 breaches\n"))
            (Path(folder) / "a.py").write_text("a\t= 1\n", encoding="utf-8")
            self.assertEqual(
                self.printed(),
                (1, "a.py:1: [tab] a tab; indent with spaces\n" "tidy: 1 files read, 1 breaches\n"),
            )

    def printed(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = tidy.main()
        return code, out.getvalue()

    def test_a_floor_may_not_include_one_above(self):
        self.assert_caught(self.source('#include "text/words.h"\n'), "src/base/counter.cpp:2", "floors")

    def test_a_floor_may_not_include_its_neighbour_unless_the_table_says_so(self):
        self.assert_caught(
            self.source('#include "text/words.h"\n', "src/backends/ref/norm.cpp"),
            "src/backends/ref/norm.cpp:2",
            "floors",
        )

    def test_a_test_may_include_its_own_level_and_below_but_not_above(self):
        self.assert_clean(
            {
                "src/sched/CMakeLists.txt": "\n",
                **self.source('#include "text/words.h"\n', "src/backends/ref/norm_test.cpp"),
            }
        )
        self.assert_caught(
            self.source('#include "text/words.h"\n', "src/base/counter_test.cpp"),
            "src/base/counter_test.cpp:2",
            "floors",
        )

    def test_a_table_that_is_upside_down(self):
        self.assert_caught(
            {
                "tools/floors.txt": "F0 base text\nF1 text\nF2 backends base\n",
                "src/text/words.cpp": '#include "text/words.h"\n#include "text/words.h"\n',
            },
            "tools/floors.txt:1",
            "floors",
        )

    def test_twin_backends_do_not_include_each_other(self):
        header = {"src/backends/ref/norm.h": HEADER}
        self.assert_clean({**header, "src/backends/ref/norm.cpp": '#include "backends/ref/norm.h"\n'})
        self.assert_caught(
            {**header, "src/backends/cpu/norm_avx2.cpp": '#include "backends/ref/norm.h"\n'},
            "src/backends/cpu/norm_avx2.cpp:1",
            "floors",
        )

    def test_includes_start_at_the_root(self):
        self.assert_caught(self.source('#include "counter.h"\n'), "src/base/counter.cpp:2", "includes")

    def test_heavy_headers_stay_out_of_headers(self):
        for heavy in ("CLI/CLI.hpp", "spdlog/spdlog.h", "toml++/toml.h", "nlohmann/json.hpp"):
            self.assert_caught(
                {"src/base/counter.h": HEADER + f"#include <{heavy}>\n"}, "src/base/counter.h:7", "includes"
            )
            self.assert_clean(self.source(f"#include <{heavy}>\n"))

    def test_sockets_stay_in_the_server(self):
        self.assert_caught(self.source("#include <sys/socket.h>\n"), "src/base/counter.cpp:2", "includes")
        self.assert_clean({"src/server/CMakeLists.txt": "\n", "src/server/listen.cpp": "#include <sys/socket.h>\n"})

    def test_nothing_below_sched_reads_a_clock_or_the_environment(self):
        for call in ('getenv("X");', "std::chrono::steady_clock::now();"):
            self.assert_caught(self.source(f"void f() {{ {call} }}\n"), "src/base/counter.cpp:2", "clock")
            self.assert_clean({"src/sched/CMakeLists.txt": "\n", "src/sched/admit.cpp": f"void f() {{ {call} }}\n"})

    def test_long_files_are_noted_and_very_long_ones_refused(self):
        breaches, notes = self.tidy(self.source("int a;\n" * 420))
        self.assertEqual(breaches, [])
        self.assertEqual(notes, ["src/base/counter.cpp: 421 lines, over the 400 we aim at"])
        self.assert_caught(self.source("int a;\n" * 500), "src/base/counter.cpp:501", "file-length")

    def test_long_functions_in_every_shape(self):
        shapes = [
            "void f() {\n",
            "template <class T>\nint g(T value) const noexcept {\n",
            "TEST(Counter, Counts) {\n",
            "Box::Box(int value)\n    : value_{value}, other_(1) {\n",
            "auto h = [](int value) {\n",
            "struct Box {\n  int f() const override {\n",
            'extern "C" int f(int value) {\n',
            "auto f(int value) -> std::vector<int> {\n",
            "namespace {\nstruct {\nint operator()(int value) {\n",
        ]
        for shape in shapes:
            close = "}\n" * (1 + shape.count("struct") + shape.count("namespace"))
            opened = 1 + shape.count("\n")
            self.assert_caught(
                self.source(shape + body(70) + close), f"src/base/counter.cpp:{opened}", "function-length"
            )
            self.assert_clean(self.source(shape + body(68) + close))

    def test_tables_and_classes_may_be_long(self):
        self.assert_clean(self.source("const int kTable[] = {\n" + "  1,\n" * 100 + "};\n"))
        self.assert_clean(self.source("class Box {\n" + "  int f() { return '{'; }\n" * 100 + "};\n"))

    def test_braces_in_strings_and_comments_do_not_count(self):
        quiet = 'void f() {\n  g("}");  // }\n  g(R"({{)");\n}\n'
        self.assert_clean(self.source(quiet + "void h() {\n" + body(60) + "}\n"))
        self.assert_caught(
            self.source(quiet + "void h() {\n" + body(80) + "}\n"), "src/base/counter.cpp:6", "function-length"
        )

    def test_long_lines_but_not_addresses(self):
        self.assert_caught(self.source("// " + "word " * 22 + "end\n"), "src/base/counter.cpp:2", "line-length")
        self.assert_clean(self.source("// https://example.org/" + "a" * 120 + "\n"))

    def test_a_long_line_of_markdown_outside_tables_and_code(self):
        long = "word " * 22 + "end\n"
        self.assert_caught({"docs/a.md": "# A\n\n" + long}, "docs/a.md:3", "line-length")
        self.assert_caught({"docs/a.md": "```\nx\n```\n" + long}, "docs/a.md:4", "line-length")
        self.assert_clean({"docs/a.md": f"| {long}\n```\n{long}```\n"})

    def test_a_decision_page_is_short_and_narrow(self):
        page = "docs/decisions/001-a.md"
        self.assert_caught({page: "line\n" * 41}, f"{page}:41", "file-length")
        self.assert_caught({page: "| " + "word " * 20 + "|\n"}, f"{page}:1", "line-length")
        self.assert_clean({page: "line\n" * 40, "docs/decisions/README.md": "line\n" * 60})

    def test_tabs_trailing_spaces_and_a_missing_last_newline(self):
        self.assert_caught(self.source("int\ta;\n"), "src/base/counter.cpp:2", "tab")
        self.assert_caught(self.source("int a; \n"), "src/base/counter.cpp:2", "trailing-space")
        self.assert_caught(self.source("int a;"), "src/base/counter.cpp:2", "trailing-space")

    def test_words_of_unfinished_work(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"):
            self.assert_caught(self.source(f"// {word}: later\n"), "src/base/counter.cpp:2", "unfinished")

    def test_names_that_say_nothing(self):
        for name in ("string_utils", "helper", "common", "cache_manager"):
            self.assert_caught({f"src/base/{name}.cpp": "int a;\n"}, f"src/base/{name}.cpp:1", "banned-name")
        for name in ("StringUtils", "make_helper", "CacheManager", "common", "kMostRows", "kLeastRows"):
            self.assert_caught(self.source(f"int {name};\n"), "src/base/counter.cpp:2", "banned-name")
        self.assert_clean(self.source("int common_prefix, kMaxRows;\n"))

    def test_words_of_comments_strings_and_documents(self):
        for words in ("It stands here", "This is no answer", "There are no drafts, these are no drafts"):
            self.assert_caught(self.source(f"// {words}.\n"), "src/base/counter.cpp:2", "words")
        for words in ("the row behind it", "the list goes on", "given so many tokens", "of the ratio rule"):
            self.assert_caught(self.source(f'const char* text = "{words}";\n'), "src/base/counter.cpp:2", "words")
            self.assert_caught({"docs/a.md": f"# Title\n\n{words}\n"}, "docs/a.md:3", "words")
        self.assert_clean(self.source("int behind = 0;  // a stand-in; there is no other, this is no longer one\n"))
        self.assert_clean({"docs/a.md": "`is behind`\n\n```\nbehind\n```\n"})

    def test_words_of_other_languages(self):
        for name, text in (
            ("src/backends/cuda/kernels/a.cu", "int behind;\n// behind\n"),
            ("src/backends/cuda/kernels/a.cuh", "int behind;\n// behind\n"),
            ("tools/a.py", "behind = 0\nlast = 'behind'  # plain\n"),
            ("tools/b.py", 'behind = 0\nlast = f"{0} is behind it"\n'),
            ("src/text_ffi/src/a.rs", "fn behind<'a>(x: &'a str) {}\n// behind\n"),
            ("webui/src/a.js", "const behind = 1;\nconst text = `behind`;\n"),
            ("webui/src/A.svelte", "{#if behind}\n<p>It is behind</p>\n{/if}\n"),
        ):
            self.assert_caught({name: text}, f"{name}:2", "words")
            self.assert_clean({name: text.splitlines()[0] + "\n"})

    def test_identifiers_of_documents_exist(self):
        there = self.source("struct Counter {\n  int next_value = 0;\n};\n", "src/base/counter.cpp")
        for gone in ("kGone", "Missing", "gone_function()", "gone_value_", "Counter::gone", "Missing::next_value"):
            self.assert_caught(there | {"docs/a.md": f"# A\n\nSee `{gone}`.\n"}, "docs/a.md:3", "identifier")
        for fine in ("Counter", "next_value()", "Counter::next_value", "counter", "--any-flag", "a b", "x.y: z"):
            self.assert_clean(there | {"docs/a.md": f"# A\n\nSee `{fine}`.\n"})
        self.assert_clean({"docs/a.md": "```\n`kGone`\n```\n", "bench/results/a.md": "`kGone`\n"})

    def test_a_name_that_only_a_comment_has_is_not_in_the_tree(self):
        only = self.source("// kGone\n")
        self.assert_caught(only | {"docs/a.md": "`kGone`\n"}, "docs/a.md:1", "identifier")

    def test_paths_of_documents_exist(self):
        for gone in ("src/base/gone.h", "src/base/counter.{h,md}", "docs/decisions/001"):
            self.assert_caught({"docs/a.md": f"`{gone}`\n"}, "docs/a.md:1", "identifier")
        for fine in ("src/base/counter.{h,cpp}", "src/base/*.cpp", "src/base/", "docs/a.md", "other/gone.h"):
            self.assert_clean({"docs/a.md": f"`{fine}`\n"})

    def test_members_that_comments_name_exist(self):
        types = "struct Counter {\n  int value;\n};\nenum class Color { kRed };\nstruct Other { int gone; };\n"
        for gone in ("Counter::gone2", "Missing::value", "Color::kBlue"):
            self.assert_caught(self.source(f"{types}// As {gone} says.\n"), "src/base/counter.cpp:7", "identifier")
        for fine in ("Counter::value", "Color::kRed", "std::vector", "Counter"):
            self.assert_clean(self.source(f"{types}// As {fine} says.\n"))
        apart = {"src/base/other.cpp": "struct Apart { int far; };\n", **self.source("// Apart::near\nint near;\n")}
        self.assert_caught(apart, "src/base/counter.cpp:2", "identifier")

    def test_words_of_a_folder_that_is_not_converted_yet(self):
        with mock.patch.object(tidy, "UNCONVERTED", {"base"}):
            self.assert_clean(self.source("// behind\n"))
            self.assert_caught({"README.md": "behind\n"}, "README.md:1", "words")

    def test_the_message_names_the_replacement(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tools").mkdir()
            (Path(folder) / "tools/floors.txt").write_text("F0 base\n", encoding="utf-8")
            (Path(folder) / "README.md").write_text("It goes on.\n", encoding="utf-8")
            breaches = tidy.examine(Path(folder)).breaches
        self.assertEqual(breaches, [("README.md", 1, "words", "'goes on': use continues")])

    def test_headers_open_with_pragma_once_and_a_comment(self):
        self.assert_caught(
            {"src/base/counter.h": HEADER.replace("#pragma once", "#ifndef A")}, "src/base/counter.h:1", "header"
        )
        self.assert_caught(
            {"src/base/counter.h": "#pragma once\nint next_value();\n"}, "src/base/counter.h:1", "header"
        )

    def test_sources_that_compile_a_json_parser(self):
        for call in ("Json::parse(text)", "nlohmann::ordered_json::parse(text)", "value.dump(2)"):
            self.assert_caught(self.source(f"auto made = {call};\n"), "src/base/counter.cpp:2", "json")
            self.assert_clean({"src/base/json.cpp": f"auto made = {call};\n"})
        self.assert_clean(self.source("// value.dump()\nauto made = write_json(value);\n"))

    def test_chat_tags(self):
        tags = f'const char* kTag = "{"<"}think>";\n'
        self.assert_caught({"src/text/answer.cpp": tags}, "src/text/answer.cpp:1", "chat-tags")
        self.assert_clean({"src/text/answer_test.cpp": tags})
        floor = {"src/text/CMakeLists.txt": "ft_floor(text DEPS ft_base FOLDERS chat_format)\n"}
        self.assert_clean(floor | {"src/text/chat_format/a.cpp": tags})

    def test_dead_files(self):
        self.assert_caught({"src/base/lonely.h": HEADER}, "src/base/lonely.h:1", "dead-file")
        self.assert_caught({"stray/loose.cpp": "int a;\n"}, "stray/loose.cpp:1", "dead-file")
        floor = {"src/text/CMakeLists.txt": "ft_floor(text DEPS ft_base FOLDERS inner TEST_DEPS ft_base)\n"}
        self.assert_clean(floor | {"src/text/inner/a.cpp": "int a;\n"})
        self.assert_caught(floor | {"src/text/other/a.cpp": "int a;\n"}, "src/text/other/a.cpp:1", "dead-file")

    def test_a_kernel_without_its_twin(self):
        self.assert_caught(
            {"src/backends/cpu/attend_avx512.cpp": "int a;\n"}, "src/backends/cpu/attend_avx512.cpp:1", "twin"
        )


if __name__ == "__main__":
    unittest.main()
