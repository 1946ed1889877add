#include "sim/base/error.hpp"

#include "sim/base/source_text.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;

namespace {

using Names = std::vector<std::string>;

std::string formatted(std::vector<std::string> lines, int line, int column,
                      const std::string& hint = {}) {
  const auto source = std::make_shared<const SourceText>(SourceText{"demo.yaml", std::move(lines)});
  return format_diagnostic({Place{source, line, column}, "wrong", hint});
}

std::vector<Diagnostic> numbered(int count) {
  std::vector<Diagnostic> diagnostics;
  for (int i = 1; i <= count; ++i) {
    diagnostics.push_back({{}, "mistake " + std::to_string(i), ""});
  }
  return diagnostics;
}

} // namespace

TEST_CASE("A diagnostic shows the line, a caret under the column and the hint") {
  CHECK(formatted({"", "", "", "", "batch: {micr: 1, sequence: 4096}"}, 5, 9,
                  "did you mean 'micro'?") == "demo.yaml:5:9: error: wrong\n"
                                              "    5 | batch: {micr: 1, sequence: 4096}\n"
                                              "      |         ^ did you mean 'micro'?");
  CHECK(formatted({"a: 1"}, 1, 1) == "demo.yaml:1:1: error: wrong\n"
                                     "    1 | a: 1\n"
                                     "      | ^");
}

TEST_CASE("The gutter grows with the line number") {
  std::vector<std::string> lines(123456, "x: y");
  CHECK(formatted(std::move(lines), 123456, 4) == "demo.yaml:123456:4: error: wrong\n"
                                                  "123456 | x: y\n"
                                                  "       |    ^");
}

TEST_CASE("A diagnostic about a whole file has no line") {
  CHECK(formatted({"a: 1"}, 0, 0) == "demo.yaml: error: wrong");
  CHECK(formatted({"a: 1"}, 0, 0, "do this") == "demo.yaml: error: wrong\n      do this");
}

TEST_CASE("A diagnostic without a source has no name") {
  CHECK(format_diagnostic({{}, "unknown command 'ru'", ""}) == "error: unknown command 'ru'");
  CHECK(format_diagnostic({{}, "unknown command 'ru'", "did you mean 'run'?"}) ==
        "error: unknown command 'ru'\n      did you mean 'run'?");
}

TEST_CASE("A place behind the last line shows no excerpt") {
  CHECK(formatted({"a: ["}, 2, 1, "close it") == "demo.yaml:2:1: error: wrong\n      close it");
}

TEST_CASE("A caret stands at most one column behind the line") {
  CHECK(formatted({"a: b"}, 1, 99) == "demo.yaml:1:99: error: wrong\n"
                                      "    1 | a: b\n"
                                      "      |     ^");
}

TEST_CASE("Tabs and other control characters show as one space") {
  CHECK(formatted({"\ta:\tb\x1b[31m"}, 1, 5) == "demo.yaml:1:5: error: wrong\n"
                                                "    1 |  a: b [31m\n"
                                                "      |     ^");
  CHECK(format_diagnostic({{}, "key '\x1b[2J\n'", "a\x7f"}) == "error: key ' [2J '\n      a ");
}

TEST_CASE("Columns count code points") {
  // é is one code point of two bytes, 漢 of three, the emoji of four
  CHECK(formatted({"é漢😀: x"}, 1, 6) == "demo.yaml:1:6: error: wrong\n"
                                        "    1 | é漢😀: x\n"
                                        "      |      ^");
  CHECK(count_columns("é漢😀: x") == 6);
  CHECK(count_columns("") == 0);
}

TEST_CASE("A long line is cut to 160 columns around the place") {
  // 400 columns; the digit of column n is n mod 10
  std::string line;
  for (int column = 1; column <= 400; ++column) {
    line += static_cast<char>('0' + column % 10);
  }
  // At the start: columns 1 to 157 and dots.
  CHECK(formatted({line}, 1, 2) ==
        "demo.yaml:1:2: error: wrong\n    1 | " + line.substr(0, 157) + "...\n      |  ^");
  // In the middle: 80 columns before the place, so columns 120 to 279, whose ends are dots.
  CHECK(formatted({line}, 1, 200) == "demo.yaml:1:200: error: wrong\n    1 | ..." +
                                         line.substr(122, 154) + "...\n      | " +
                                         std::string(80, ' ') + "^");
  // At the end: columns 241 to 400, the first three as dots; the place is the last.
  CHECK(formatted({line}, 1, 400) == "demo.yaml:1:400: error: wrong\n    1 | ..." +
                                         line.substr(243) + "\n      | " + std::string(159, ' ') +
                                         "^");
  // 160 columns need no cut.
  CHECK(formatted({line.substr(0, 160)}, 1, 1) ==
        "demo.yaml:1:1: error: wrong\n    1 | " + line.substr(0, 160) + "\n      | ^");
}

TEST_CASE("A long line of non-ASCII text is cut between code points") {
  std::string line;
  for (int i = 0; i < 200; ++i) {
    line += "é";
  }
  std::string shown;
  for (int i = 0; i < 157; ++i) {
    shown += "é";
  }
  CHECK(formatted({line}, 1, 1) ==
        "demo.yaml:1:1: error: wrong\n    1 | " + shown + "...\n      | ^");
}

TEST_CASE("A message as long as a file is cut") {
  const std::string text = format_diagnostic({{}, std::string(10000, 'x'), ""});
  CHECK(text == "error: " + std::string(497, 'x') + "...");
}

// U+009B is the one-character form of "ESC [". Bytes of no character: FF, and E6 BC, of
// 漢 the first two. A non-ASCII text is cut between code points.
TEST_CASE("Text of others is shown without what steers a terminal, and cut at a code point") {
  CHECK(printable("a\x1b[31m\tb\r\nc\x7f") == "a [31m b  c ");
  CHECK(printable(std::string_view("nul\0nul", 7)) == "nul nul");
  CHECK(printable("csi\u009b31m") == "csi 31m");
  CHECK(printable("\xff é \xe6\xbc") == "\uFFFD é \uFFFD\uFFFD");
  CHECK(printable("é漢😀éé", 5) == "é漢😀éé");
  CHECK(printable("é漢😀ééé", 5) == "é漢...");
  CHECK(printable("", 5).empty());
  CHECK(format_diagnostic({{}, "key '\u009b2J'", "\xff"}) == "error: key ' 2J'\n      \uFFFD");
}

TEST_CASE("An InputError says everything, one diagnostic after the other") {
  const InputError error(numbered(2));
  CHECK(std::string(error.what()) == "error: mistake 1\nerror: mistake 2");
  CHECK(error.diagnostics().size() == 2);
  CHECK(std::string(InputError("no file").what()) == "error: no file");
  CHECK(std::string(InputError("no file", "name one").what()) == "error: no file\n      name one");
}

TEST_CASE("An InputError shows at most twenty diagnostics") {
  std::string twenty = "error: mistake 1";
  for (int i = 2; i <= 20; ++i) {
    twenty += "\nerror: mistake " + std::to_string(i);
  }
  CHECK(std::string(InputError(numbered(20)).what()) == twenty);
  CHECK(std::string(InputError(numbered(21)).what()) == twenty + "\n... and 1 more error");
  CHECK(std::string(InputError(numbered(27)).what()) == twenty + "\n... and 7 more errors");
  CHECK(InputError(numbered(27)).diagnostics().size() == 27);
}

TEST_CASE("Collected diagnostics are thrown together") {
  Diagnostics diagnostics;
  CHECK(diagnostics.empty());
  CHECK_NOTHROW(diagnostics.throw_if_any());
  diagnostics.add({}, "first");
  diagnostics.add({}, "second", "fix it");
  CHECK_FALSE(diagnostics.empty());
  CHECK_THROWS_WITH_AS(diagnostics.throw_if_any(), "error: first\nerror: second\n      fix it",
                       InputError);
}

TEST_CASE("After a thousand diagnostics no more are collected") {
  Diagnostics diagnostics;
  std::string said;
  int added = 0;
  try {
    while (++added < 5000) {
      diagnostics.add({}, "wrong");
    }
  } catch (const InputError& error) {
    said = error.what();
  }
  CHECK(added == 1000);
  CHECK(said.ends_with("\n... and at least 980 more errors"));
}

TEST_CASE("The nearest name is the one with the fewest slips") {
  const Names names{"micro", "sequence", "schedule", "global"};
  CHECK(nearest_name("micr", names) == "micro");      // one letter missing
  CHECK(nearest_name("microo", names) == "micro");    // one too many
  CHECK(nearest_name("nicro", names) == "micro");     // one wrong
  CHECK(nearest_name("mirco", names) == "micro");     // two swapped: one slip
  CHECK(nearest_name("MICRO", names) == "micro");     // case is no slip
  CHECK(nearest_name("shedul", names) == "schedule"); // two of six letters
  CHECK(nearest_name("sequnece", names) == "sequence");
  CHECK(nearest_name("micro", names) == "micro");
}

TEST_CASE("A name far from all is near to none") {
  const Names names{"micro", "sequence", "a"};
  CHECK(nearest_name("banana", names) == "");
  CHECK(nearest_name("mxxro", names) == ""); // two of five letters: more than a third
  CHECK(nearest_name("b", names) == "");     // nothing is left of it
  CHECK(nearest_name("", names) == "");
  CHECK(nearest_name("micro", {}) == "");
  CHECK(nearest_name(std::string(1'000'000, 'x'), names) == "");
}

TEST_CASE("Of equally near names the first wins, an exact one over all") {
  // each is one substitution away from "rat"
  CHECK(nearest_name("rat", Names{"cat", "bat", "rag"}) == "cat");
  CHECK(nearest_name("rat", Names{"cat", "rat"}) == "rat");
}

// Ten thousand wrong names in a file of ten thousand right ones are no hundred million
// comparisons.
TEST_CASE("Of many names the first thousand are looked at") {
  Names names(999, "sequence");
  names.push_back("micro");
  CHECK(nearest_name("micr", names) == "micro");
  names.insert(names.begin(), "sequence");
  CHECK(nearest_name("micr", names) == "");
}

TEST_CASE("A suggestion names the nearest or lists what is known") {
  CHECK(suggestion("micr", Names{"batch", "micro"}) == "did you mean 'micro'?");
  CHECK(suggestion("zzz", Names{"batch", "micro"}) == "known: batch, micro");
  CHECK(suggestion("zzz", {}) == "");
  Names many;
  for (char letter = 'a'; letter <= 'l'; ++letter) {
    many.emplace_back(5, letter);
  }
  const std::string twelve = "known: aaaaa, bbbbb, ccccc, ddddd, eeeee, fffff, ggggg, hhhhh, "
                             "iiiii, jjjjj, kkkkk, lllll";
  CHECK(suggestion("zzz", many) == twelve);
  many.emplace_back("mmmmm");
  CHECK(suggestion("zzz", many) == twelve + ", ...");
}
