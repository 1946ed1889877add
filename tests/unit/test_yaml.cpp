#include "sim/base/yaml.hpp"

#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/yaml_text.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace spillway;

namespace {

std::string parsed(const std::string& text) {
  return flow(parse_yaml(text, "t.yaml"));
}

// What loading `text` is refused with.
std::string refusal(const std::string& text) {
  try {
    return "accepted: " + parsed(text);
  } catch (const InputError& error) {
    return error.what();
  }
}

// The first line of that.
std::string first_line(const std::string& text) {
  const std::string all = refusal(text);
  return all.substr(0, all.find('\n'));
}

std::string load_refusal(const std::filesystem::path& path) {
  try {
    return "accepted: " + flow(load_yaml(path));
  } catch (const InputError& error) {
    return error.what();
  }
}

} // namespace

TEST_CASE("A document becomes a tree in file order") {
  CHECK(parsed("b: 1\na:\n  - x\n  - {d: 2, c: \"3\"}\n") == "{b: 1, a: [x, {d: 2, c: \"3\"}]}");
  CHECK(parsed("[1, [2, 3], {}]") == "[1, [2, 3], {}]");
  CHECK(parsed("word") == "word");
  CHECK(parsed("---\na: 1\n...\n") == "{a: 1}");
  CHECK(parsed("a: |\n  x\n  y\n") == "{a: \"x\ny\n\"}");
  CHECK(parsed("# comment\na: 1 # more\n") == "{a: 1}");
}

TEST_CASE("Null is written as nothing, ~ or null, unless quoted") {
  CHECK(parsed("a:\nb: ~\nc: null\nd: \"null\"\ne: ''\nf: [, ~]\n") ==
        "{a: null, b: null, c: null, d: \"null\", e: \"\", f: [null, null]}");
}

TEST_CASE("CRLF, a byte order mark and a missing last line end make no difference") {
  CHECK(parsed("\xEF\xBB\xBF"
               "a: 1\r\nb:\r\n  c: |\r\n    x\r\n") == "{a: 1, b: {c: \"x\n\"}}");
  CHECK(parsed("a: 1\nb: 2") == "{a: 1, b: 2}");
  CHECK(first_line("\xEF\xBB\xBF"
                   "a: 1\r\nb: !x 2\r\n") == "t.yaml:2:4: error: tags are not supported");
}

TEST_CASE("Each key and value knows its place") {
  const YamlNode root = parse_yaml("a: 1\nb:\n  c: \"x\"\n  d: [1, {e: 2}]\nf:\n  - 3\n", "t.yaml");
  // A block map stands at its key, the outermost one for the file.
  CHECK(position_text(root.place) == "t.yaml:0:0");
  CHECK(position_text(root.entries[0].key_place) == "t.yaml:1:1");
  CHECK(position_text(root.find("a")->place) == "t.yaml:1:4");
  const YamlNode& b = *root.find("b");
  CHECK(position_text(b.place) == "t.yaml:2:1");
  CHECK(position_text(b.entries[0].key_place) == "t.yaml:3:3");
  CHECK(position_text(b.find("c")->place) == "t.yaml:3:6");
  const YamlNode& d = *b.find("d");
  CHECK(position_text(d.place) == "t.yaml:4:6");
  CHECK(position_text(d.items[1].place) == "t.yaml:4:10");
  CHECK(position_text(d.items[1].entries[0].key_place) == "t.yaml:4:11");
  CHECK(position_text(root.find("f")->place) == "t.yaml:5:1");
  CHECK(position_text(root.find("f")->items[0].place) == "t.yaml:6:5");
}

TEST_CASE("Columns count code points, not bytes") {
  // "é: [漢, x]" has é at 1, [ at 4, 漢 at 5, x at 8
  const YamlNode root = parse_yaml("é: [漢, x]", "t.yaml");
  const YamlNode& list = *root.find("é");
  CHECK(position_text(list.place) == "t.yaml:1:4");
  CHECK(position_text(list.items[0].place) == "t.yaml:1:5");
  CHECK(position_text(list.items[1].place) == "t.yaml:1:8");
}

TEST_CASE("A value left out behind '?' does not shift the places that follow") {
  // yaml-cpp marks the missing value at the '?', before its key
  const YamlNode root = parse_yaml("{? é, b: 1}", "t.yaml");
  CHECK(position_text(root.entries[0].key_place) == "t.yaml:1:4");
  CHECK(position_text(root.entries[1].key_place) == "t.yaml:1:7");
  CHECK(position_text(root.find("b")->place) == "t.yaml:1:10");
}

TEST_CASE("Finding a key in something that is no map finds nothing") {
  const YamlNode root = parse_yaml("a: [1]", "t.yaml");
  CHECK(root.find("a") != nullptr);
  CHECK(root.find("b") == nullptr);
  CHECK(root.find("a")->find("a") == nullptr);
}

TEST_CASE("All duplicate keys are reported") {
  CHECK(refusal("a: 1\nb: 2\nb: 3\nc:\n  d: 1\n  d: 2\n  e: [0, {f: 1, f: 2}]\n") ==
        "t.yaml:3:1: error: duplicate key 'b' in the top level, first at line 2\n"
        "    3 | b: 3\n"
        "      | ^\n"
        "t.yaml:6:3: error: duplicate key 'd' in 'c', first at line 5\n"
        "    6 |   d: 2\n"
        "      |   ^\n"
        "t.yaml:7:17: error: duplicate key 'f' in 'e[1]', first at line 7\n"
        "    7 |   e: [0, {f: 1, f: 2}]\n"
        "      |                 ^");
  CHECK(first_line("[[0, {a: 1, \"a\": 2}]]") ==
        "t.yaml:1:13: error: duplicate key 'a' in '[0][1]', first at line 1");
  // the same key in two maps is no duplicate
  CHECK(parsed("{a: {x: 1}, b: {x: 1}}") == "{a: {x: 1}, b: {x: 1}}");
}

TEST_CASE("Duplicate keys are reported beside a later syntax error") {
  CHECK(refusal("a: 1\na: 2\nb: @\n") ==
        "t.yaml:2:1: error: duplicate key 'a' in the top level, first at line 1\n"
        "    2 | a: 2\n"
        "      | ^\n"
        "t.yaml:3:4: error: unknown token\n"
        "    3 | b: @\n"
        "      |    ^ text that starts with this character needs quotes");
}

TEST_CASE("Keys are words") {
  CHECK(first_line("? [a]\n: 1\n") == "t.yaml:1:3: error: a key must be a word, not a list");
  CHECK(first_line("? {a: 1}\n: 1\n") == "t.yaml:1:3: error: a key must be a word, not a map");
  CHECK(first_line("? a: 1\n: 1\n") == "t.yaml:1:3: error: a key must be a word, not a map");
  for (const char* const text : {"~: 1", "null: 1", ": 1", "\"\": 1"}) {
    CHECK(first_line(text) == "t.yaml:1:1: error: a key must not be empty");
  }
  CHECK(parsed("\"null\": 1") == "{null: 1}");
  CHECK(parsed("1: one\ntrue: yes") == "{1: one, true: yes}");
}

TEST_CASE("Anchors, aliases and tags are refused") {
  CHECK(refusal("a: &x 1\n") == "t.yaml:1:4: error: anchors are not supported\n"
                                "    1 | a: &x 1\n"
                                "      |    ^ write the value out where it is needed");
  CHECK(first_line("a: &x {b: 1}") == "t.yaml:1:4: error: anchors are not supported");
  CHECK(first_line("&x a: 1") == "t.yaml:1:1: error: anchors are not supported");
  CHECK(first_line("a: &x\nb: 1") == "t.yaml:1:4: error: anchors are not supported");
  CHECK(refusal("a: *x\n") == "t.yaml:1:4: error: aliases are not supported\n"
                              "    1 | a: *x\n"
                              "      |    ^ write the value out");
  CHECK(first_line("<<: *x\n") == "t.yaml:1:5: error: aliases are not supported");
  for (const char* const text :
       {"a: !!str 1", "a: !x 1", "a: ! 1", "a: ! \"1\"", "a: !<x> 1", "a: !<> 1", "a: !!map {b: 1}",
        "a: !x [1]", "a: !x\n  b: 1", "a: !x\n  - b", "a: !!null", "a: !x\nb: 1"}) {
    CAPTURE(text);
    CHECK(first_line(text) == "t.yaml:1:4: error: tags are not supported");
  }
  CHECK(first_line("!x a: 1") == "t.yaml:1:1: error: tags are not supported");
}

TEST_CASE("One file holds one document") {
  CHECK(refusal("a: 1\n---\nb: 2\n") ==
        "t.yaml:2:1: error: a file must hold one document, not several\n"
        "    2 | ---\n"
        "      | ^");
  CHECK(first_line("a: 1\n---\n") ==
        "t.yaml:2:1: error: a file must hold one document, not several");
  CHECK(first_line("{a: 1} x") ==
        "t.yaml:1:8: error: unexpected text after the end of the document");
  CHECK(first_line("a: 1\n...\nx\n") ==
        "t.yaml:3:1: error: unexpected text after the end of the document");
}

TEST_CASE("A document without content is refused") {
  for (const char* const text :
       {"", "\n\n", "# only a comment\n", "---\n", "~", "null\n", "\xEF\xBB\xBF"}) {
    CHECK(refusal(text) == "t.yaml: error: the document is empty");
  }
}

TEST_CASE("Nesting ends at 64 levels") {
  const auto lists = [](int depth) { return repeated("[", depth) + repeated("]", depth); };
  CHECK(parsed(lists(64)) == lists(64));
  CHECK(first_line(lists(65)) == "t.yaml:1:65: error: nested more than 64 levels deep");
  CHECK(first_line(repeated("- ", 65) + "x") ==
        "t.yaml:1:129: error: nested more than 64 levels deep");
  // far beyond the recursion that the parser itself could bear
  CHECK(first_line(repeated("- ", 100'000)) ==
        "t.yaml:1:129: error: nested more than 64 levels deep");
}

TEST_CASE("Bytes that are no text are refused before they are parsed") {
  CHECK(refusal(std::string("a: 1\nb: \0\n", 10)) == "t.yaml:2:4: error: NUL byte\n"
                                                     "    2 | b:  \n"
                                                     "      |    ^");
  for (const char* const bytes :
       {"\xFF", "\x80", "\xC3", "\xC3(", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xF0\x9F\x98"}) {
    CAPTURE(bytes);
    CHECK(first_line("a: 1\nb: 2\nc: " + std::string(bytes) + "\n") ==
          "t.yaml:3:4: error: not valid UTF-8");
  }
  // the first and the last code point of each length, and those around the surrogates
  CHECK(parsed("a: \xC2\xA0\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBD\xF0\x90\x80"
               "\x80\xF4\x8F\xBF\xBF") != "");
  CHECK(first_line("a: \xC3\xA9\xFF") == "t.yaml:1:5: error: not valid UTF-8"); // columns of text
  // U+0004 would end the input, a lone carriage return would vanish
  CHECK(first_line("a: 1\n\x04garbage [") == "t.yaml:2:1: error: control character U+0004");
  CHECK(first_line("a: 1\rb: 2") == "t.yaml:1:5: error: control character U+000D");
  CHECK(first_line("a: \x1b[31m") == "t.yaml:1:4: error: control character U+001B");
  CHECK(first_line("a: \xC2\x85") == "t.yaml:1:4: error: control character U+0085");
}

TEST_CASE("Escapes cannot smuggle control characters in") {
  CHECK(refusal("a: \"x\\0y\"") == "t.yaml:1:4: error: control character U+0000 in a text\n"
                                   "    1 | a: \"x\\0y\"\n"
                                   "      |    ^");
  CHECK(first_line("\"\\e[2J\": 1") == "t.yaml:1:1: error: control character U+001B in a text");
  CHECK(parsed("a: \"\\t\\n\\u00e9\"") == "{a: \"\t\né\"}");
}

TEST_CASE("A text above one MiB, or another limit, is refused") {
  std::string text;
  while (text.size() < most_yaml_bytes) {
    text += "# a comment of 32 characters....\n";
  }
  text.resize(most_yaml_bytes - 5);
  CHECK(flow(parse_yaml(text + "\na: 1", "t.yaml")) == "{a: 1}");
  CHECK(refusal(text + "\na: 12") == "t.yaml: error: larger than 1 MiB");
  CHECK(flow(parse_yaml(text + "\na: 12", "t.yaml", most_graph_bytes)) == "{a: 12}");
}

TEST_CASE("A line above 256 KiB is refused, and so are a million and one") {
  const std::string longest = "a: " + std::string(most_line_bytes - 3, 'x');
  CHECK(parse_yaml(longest, "t.yaml").find("a")->text.size() == most_line_bytes - 3);
  CHECK(first_line("\n" + longest + "x") == "t.yaml:2:1: error: a line longer than 256 KiB");
  const std::string lines(most_lines, '\n');
  const auto with_lines = [](const std::string& text) {
    return messages_of([&] { static_cast<void>(parse_yaml(text, "t.yaml", most_graph_bytes)); });
  };
  CHECK(with_lines(lines) == "the document is empty");
  CHECK(with_lines(lines + "\n") == "more than 1000000 lines");
}

TEST_CASE("A syntax error has its place and says what helps") {
  CHECK(refusal("a: b: c\n") ==
        "t.yaml:1:5: error: illegal map value\n"
        "    1 | a: b: c\n"
        "      |     ^ check the indentation; text that contains ': ' needs quotes");
  CHECK(refusal("a:\n\tb: 1\n") == "t.yaml:2:3: error: illegal map value\n"
                                   "    2 |  b: 1\n"
                                   "      |   ^ indent with spaces, not tabs");
  CHECK(refusal("a: \"b\" c\n") ==
        "t.yaml:1:8: error: end of map not found\n"
        "    1 | a: \"b\" c\n"
        "      |        ^ check the indentation; nothing may follow a closing quote or bracket");
  CHECK(refusal("a: [1\nb: 2\n") == "t.yaml:2:2: error: end of sequence flow not found\n"
                                    "    2 | b: 2\n"
                                    "      |  ^ expected ',' or ']'");
  CHECK(first_line("a: {b: 1\nc: 2\n") == "t.yaml:2:2: error: end of map flow not found");
  CHECK(first_line("%YAML 3.0\n---\na: 1") == "t.yaml:1:1: error: YAML major version too large");
  CHECK(first_line("a: \"\\q\"") == "t.yaml:1:7: error: unknown escape character: q");
}

TEST_CASE("Brackets and quotes that never close are pointed at") {
  CHECK(refusal("a: 1\nb: [1,\n   2,\n") == "t.yaml:2:4: error: '[' is never closed\n"
                                            "    2 | b: [1,\n"
                                            "      |    ^");
  CHECK(refusal("b: {a: 1,\n") == "t.yaml:1:4: error: '{' is never closed\n"
                                  "    1 | b: {a: 1,\n"
                                  "      |    ^");
  // without a line end behind it the bracket looks like the start of a key
  CHECK(refusal("[1, 2") == "t.yaml:1:1: error: a key must be a word, not a list\n"
                            "    1 | [1, 2\n"
                            "      | ^ or is its ']' missing?");
  CHECK(first_line("{a: 1") == "t.yaml:1:1: error: a key must be a word, not a map");
  for (const char* const text : {"a: 'b\n", "a: \"b\n", "a: 'b''\n", "a: \"b\\\"\n"}) {
    CAPTURE(text);
    const std::string message = first_line(text);
    CHECK(message.substr(message.find("error")) == "error: the quote is never closed");
  }
  CHECK(parsed("a: 'it''s'\nb: \"say \\\"x\\\" \\\\\"\n") == "{a: \"it's\", b: \"say \"x\" \\\"}");
}

TEST_CASE("Only regular files are read") {
  const TemporaryFolder folder;
  const auto expect = [](const std::filesystem::path& path, const std::string& message) {
    CHECK(load_refusal(path) == path.string() + ": error: " + message);
  };
  CHECK(flow(load_yaml(folder.write("good.yaml", "a: 1\n"))) == "{a: 1}");
  expect(folder.path("none.yaml"), "cannot open: no such file or directory");
  expect(folder.path("good.yaml/x"), "cannot open: not a directory");
  std::filesystem::create_directory(folder.path("inner"));
  expect(folder.path("inner"), "is a directory, not a file");
  std::filesystem::create_symlink("good.yaml", folder.path("link.yaml"));
  CHECK(flow(load_yaml(folder.path("link.yaml"))) == "{a: 1}");
  std::filesystem::create_symlink("loop.yaml", folder.path("loop.yaml"));
  expect(folder.path("loop.yaml"), "cannot open: too many levels of symbolic links");
  expect("/dev/null", "is not a regular file");
  expect(folder.write("empty.yaml", ""), "the document is empty");
  const std::filesystem::path nul = folder.write("nul.yaml", std::string("\0", 1));
  CHECK(load_refusal(nul).starts_with(nul.string() + ":1:1: error: NUL byte\n"));
  expect(folder.write("large.yaml", std::string(most_yaml_bytes + 1, 'a')), "larger than 1 MiB");
  // A FIFO without a writer would block a reader that opens it.
  REQUIRE(::mkfifo((folder.path("fifo")).c_str(), 0600) == 0);
  expect(folder.path("fifo"), "is a FIFO, not a regular file");
}

TEST_CASE("A file that may not be read is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("secret.yaml", "a: 1\n");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  // The superuser may read everything, so the test stops being one for a moment.
  const bool was_root = ::geteuid() == 0;
  if (was_root && ::seteuid(65534) != 0) {
    MESSAGE("not checked: this superuser cannot become anybody else");
    return;
  }
  const std::string message = load_refusal(path);
  if (was_root) {
    REQUIRE(::seteuid(0) == 0);
  }
  CHECK(message == path.string() + ": error: cannot open: permission denied");
}

TEST_CASE("A read that fails is reported") {
  // Linux calls this a regular file; its first page is never mapped.
  if (std::filesystem::exists("/proc/self/mem")) {
    CHECK(load_refusal("/proc/self/mem") ==
          "/proc/self/mem: error: cannot read: input/output error");
  }
}

TEST_CASE("Whatever a file contains, it loads or is refused with a place inside") {
  const unsigned seed = 77;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces{
      "a",   "b: ", "1",    "- ", "[",   "]",  "{",   "}",   ", ",   ": ",   "\n",
      "  ",  "\"",  "'",    "? ", "&x ", "*x", "!t ", "#",   " |",   " >",   "---",
      "...", "%",   "\\u1", "é",  "\t",  "~",  "@",   "k: ", "\n  ", "\n- ", "\r\n"};
  int loaded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12 + 1; n > 0; --n) {
      text += pieces[random() % pieces.size()];
    }
    CAPTURE(text);
    try {
      static_cast<void>(parse_yaml(text, "t.yaml"));
      ++loaded;
    } catch (const InputError& error) {
      REQUIRE_FALSE(error.diagnostics().empty());
      for (const Diagnostic& found : error.diagnostics()) {
        const std::vector<std::string>& lines = found.place.source->lines;
        REQUIRE(found.place.line >= 0);
        REQUIRE(static_cast<std::size_t>(found.place.line) <= lines.size() + 1);
        REQUIRE_FALSE(found.message.empty());
      }
    }
    YamlNode root;
    try {
      set_path(root, "a.b=" + text);
    } catch (const InputError& error) {
      REQUIRE_FALSE(error.diagnostics().empty());
      REQUIRE(root.entries.empty());
    }
  }
  // both outcomes occur often enough to mean something
  CHECK(loaded > 1000);
  CHECK(loaded < 19000);
}
