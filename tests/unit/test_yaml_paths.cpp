// Merging trees, and assignments by path.
#include "sim/base/yaml.hpp"

#include "tests/support/yaml_text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace spillway;

namespace {

// The tree after some --set, or what they are refused with.
std::string after_set(const std::string& text, const std::vector<std::string>& assignments) {
  YamlNode root = parse_yaml(text, "t.yaml");
  try {
    for (const std::string& assignment : assignments) {
      set_path(root, assignment);
    }
  } catch (const InputError& error) {
    return error.what();
  }
  return flow(root);
}

std::string merged(const std::string& base, const std::string& over) {
  YamlNode root = parse_yaml(base, "base.yaml");
  merge_over(root, parse_yaml(over, "over.yaml"));
  return flow(root);
}

} // namespace

TEST_CASE("Merging lays maps over each other and replaces the rest") {
  CHECK(merged("{a: 1, b: {x: 1, y: 2}, c: 3}", "{b: {y: 5, z: 6}, d: 4, a: 9}") ==
        "{a: 9, b: {x: 1, y: 5, z: 6}, c: 3, d: 4}");
  CHECK(merged("{a: [1, 2]}", "{a: [3]}") == "{a: [3]}");
  CHECK(merged("{a: {x: 1}}", "{a: 2}") == "{a: 2}");
  CHECK(merged("{a: 2}", "{a: {x: 1}}") == "{a: {x: 1}}");
  CHECK(merged("{a: {x: 1}}", "{a: ~}") == "{a: null}");
  CHECK(merged("[1]", "{a: 1}") == "{a: 1}");
}

TEST_CASE("After merging a value stands where it was said") {
  YamlNode root = parse_yaml("a: 1\nb: 2\nm: {x: 1}\n", "base.yaml");
  merge_over(root, parse_yaml("# over\nb: 3\nm: {y: 1}\n", "over.yaml"));
  CHECK(position_text(root.entries[0].key_place) == "base.yaml:1:1");
  CHECK(position_text(root.find("a")->place) == "base.yaml:1:4");
  CHECK(position_text(root.entries[1].key_place) == "over.yaml:2:1");
  CHECK(position_text(root.find("b")->place) == "over.yaml:2:4");
  CHECK(position_text(root.find("m")->place) == "over.yaml:3:4");
  CHECK(position_text(root.find("m")->find("x")->place) == "base.yaml:3:8");
  CHECK(position_text(root.find("m")->find("y")->place) == "over.yaml:3:8");
}

TEST_CASE("An assignment sets one value and leaves the rest") {
  CHECK(after_set("{a: {b: 1, c: 2}}", {"a.b=64 GB/s"}) == "{a: {b: 64 GB/s, c: 2}}");
  CHECK(after_set("{a: 1}", {"a=2"}) == "{a: 2}");
  CHECK(after_set("{a: 1}", {"b.c.d=2"}) == "{a: 1, b: {c: {d: 2}}}");
  CHECK(after_set("{a: 1}", {"b={x: 1, y: [2, \"3\"]}"}) == "{a: 1, b: {x: 1, y: [2, \"3\"]}}");
  CHECK(after_set("{a: {b: 1}}", {"a={c: 1}"}) == "{a: {c: 1}}"); // set, not merged
  CHECK(after_set("{a: [1, 2]}", {"a=[3]"}) == "{a: [3]}");
  CHECK(after_set("{a: 1}", {"a=null"}) == "{a: null}");
  CHECK(after_set("{a: 1}", {"a=\"x = y # z\""}) == "{a: \"x = y # z\"}");
  CHECK(after_set("{a: 1}", {"a= 2 "}) == "{a: 2}");
  CHECK(after_set("{a: 1}", {"a=x, y"}) == "{a: x, y}");
  CHECK(after_set("{a: 1}", {"a=2", "a=3", "b=4"}) == "{a: 3, b: 4}");
}

TEST_CASE("On the way an empty value becomes a map, and a word a map that extends it") {
  CHECK(after_set("{a: ~}", {"a.b=1"}) == "{a: {b: 1}}");
  CHECK(after_set("{hardware: big}", {"hardware.host_link.d2h=64 GB/s"}) ==
        "{hardware: {extends: big, host_link: {d2h: 64 GB/s}}}");
  CHECK(after_set("{a: big}", {"a.x=1", "a.y=2"}) == "{a: {extends: big, x: 1, y: 2}}");
  YamlNode nothing;
  set_path(nothing, "a.b=1");
  CHECK(flow(nothing) == "{a: {b: 1}}");
}

TEST_CASE("What an assignment says stands in the assignment") {
  YamlNode root = parse_yaml("a:\n  b: 1\nn: big\n", "t.yaml");
  set_path(root, "a.b={é: 1, c: 2}");
  set_path(root, "n.x.y=~");
  const YamlEntry& b = root.find("a")->entries[0];
  CHECK(position_text(b.key_place) == "--set:1:3");
  CHECK(position_text(b.value.place) == "--set:1:5");
  CHECK(position_text(b.value.entries[1].key_place) == "--set:1:12");
  CHECK(position_text(b.value.find("c")->place) == "--set:1:15");
  CHECK(position_text(root.entries[0].key_place) == "t.yaml:1:1");
  CHECK(position_text(root.find("n")->find("extends")->place) == "t.yaml:3:4");
  CHECK(position_text(root.find("n")->find("x")->place) == "--set:1:3");
  CHECK(position_text(root.find("n")->find("x")->find("y")->place) == "--set:1:7");
}

TEST_CASE("A path that cannot be followed is refused") {
  const std::string text = "{a: {b: 1}, l: [1]}";
  CHECK(after_set(text, {"=1"}) == "--set:1:1: error: missing path before '='\n"
                                   "    1 | =1\n"
                                   "      | ^");
  CHECK(after_set(text, {"a.b"}) == "--set:1:4: error: missing '='\n"
                                    "    1 | a.b\n"
                                    "      |    ^ write path=value");
  CHECK(after_set(text, {""}) == "--set:1:1: error: missing '='\n      write path=value");
  CHECK(after_set(text, {"é..b=1"}) == "--set:1:3: error: empty key in the path\n"
                                       "    1 | é..b=1\n"
                                       "      |   ^");
  CHECK(after_set(text, {".a=1"}) == "--set:1:1: error: empty key in the path\n"
                                     "    1 | .a=1\n"
                                     "      | ^");
  CHECK(after_set(text, {"a.=1"}) == "--set:1:3: error: empty key in the path\n"
                                     "    1 | a.=1\n"
                                     "      |   ^");
  CHECK(after_set(text, {"l.x=1"}) ==
        "--set:1:1: error: 'l' is a list; set the whole list instead\n"
        "    1 | l.x=1\n"
        "      | ^");
  CHECK(after_set("[1]", {"l.x=1"}) ==
        "--set:1:1: error: nothing can be set: the file is not a map\n"
        "    1 | l.x=1\n"
        "      | ^");
  CHECK(after_set(text, {"a=1\nb=2"}) == "--set: error: an assignment must be a single line");
  CHECK(after_set(text, {"a=\xFF"}) == "--set:1:3: error: not valid UTF-8\n"
                                       "    1 | a=\uFFFD\n"
                                       "      |   ^");
}

TEST_CASE("A value that cannot be read is refused and changes nothing") {
  const auto message = [](const std::string& assignment) {
    YamlNode root = parse_yaml("{a: {b: 1}}", "t.yaml");
    std::string found = "accepted";
    try {
      set_path(root, assignment);
    } catch (const InputError& error) {
      const std::string all = error.what();
      const std::size_t hint = all.rfind("^");
      found = all.substr(0, all.find('\n')) + all.substr(hint == std::string::npos ? 0 : hint + 1);
      CHECK(flow(root) == "{a: {b: 1}}");
    }
    return found;
  };
  CHECK(message("a.b=") == "--set:1:5: error: missing value after '=' write null for none");
  CHECK(message("a.b= ") == "--set:1:5: error: missing value after '=' write null for none");
  CHECK(message("a.b=#x") == "--set:1:5: error: missing value after '=' write null for none");
  CHECK(message("x.y=1 # x") == "--set:1:5: error: ' #' starts a comment quote the value");
  CHECK(message("a={b: 1} x") ==
        "--set:1:10: error: unexpected text after the end of the document");
  CHECK(message("a=[1, 2") ==
        "--set:1:3: error: a key must be a word, not a list or is its ']' missing?");
  CHECK(message("a='x") == "--set:1:5: error: the quote is never closed");
  CHECK(message("a=b: 1") == "--set:1:3: error: unexpected map write {key: value}");
  CHECK(message("a=- 1") == "--set:1:3: error: unexpected list write [a, b]");
  CHECK(message("a=|") == "--set:1:3: error: a text on several lines cannot be written here");
  CHECK(message("a=&x 1") ==
        "--set:1:3: error: anchors are not supported write the value out where it is needed");
  CHECK(message("é={x: 1, é: !y 2}") == "--set:1:13: error: tags are not supported");
  CHECK(message("a={x: 1, x: 2}") ==
        "--set:1:10: error: duplicate key 'x' in the top level, first at line 1");
  CHECK(message("a=@") ==
        "--set:1:3: error: unknown token text that starts with this character needs quotes");
}

TEST_CASE("Assignments nest no deeper than files") {
  const auto path = [](int keys) { return "k" + repeated(".k", keys - 1); };
  CHECK(after_set("{}", {path(64) + "=1"}).substr(0, 4) == "{k: ");
  CHECK(after_set("{}", {path(60) + "=[[[[]]]]"}).substr(0, 4) == "{k: ");
  // 60 maps, "=" at column 120, and the fifth bracket at 125
  CHECK(after_set("{}", {path(60) + "=[[[[[]]]]]"}).substr(0, 52) ==
        "--set:1:125: error: nested more than 64 levels deep\n");
  // the 65th key stands behind 64 keys and 64 dots
  CHECK(after_set("{}", {path(100'000) + "=1"}).substr(0, 52) ==
        "--set:1:129: error: nested more than 64 levels deep\n");
}
