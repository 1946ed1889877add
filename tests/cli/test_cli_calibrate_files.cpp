// calibrate of the built program: which files it reads, refuses and writes.
#include "tests/cli/cli.hpp"
#include "tests/cli/small_machine.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace spillway;
namespace fs = std::filesystem;

namespace {

const Arguments committed{"calibrate", "results/reference/h200/microbench.jsonl",
                          "results/reference/h200/attention.jsonl"};
const std::string hint = "      choose another --output, --name or --tables\n";

} // namespace

TEST_CASE("calibrate does not overwrite what it reads") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("own.yaml", small_machine);
  check_refused({"calibrate", measurements, "-o", folder.path("./own.yaml")},
                "error: '" + folder.path("./own.yaml") + "' would be overwritten\n" + hint);
  CHECK(read_text(measurements) == small_machine);
  const std::string base = folder.write("base.yaml", "kind: hardware\nextends: h200\n");
  check_refused({"calibrate", measurements, "--base", base, "-o", base},
                "error: '" + base + "' would be overwritten\n" + hint);
  const std::string table = folder.path("x-matmul-bf16.yaml");
  check_refused({"calibrate", measurements, "-o", folder.path("x.yaml"), "--json", measurements},
                "error: '" + measurements + "' would be overwritten\n" + hint);
  check_refused(committed + Arguments{"--name", "x", "--tables", folder.path(), "-o", table},
                "error: '" + table + "' would be overwritten\n" + hint);
}

TEST_CASE("calibrate does not overwrite a file that the base extends") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  const std::string text = "kind: hardware\nextends: h200\ntitle: Root\n";
  const std::string root = folder.write("root.yaml", text);
  // Nothing of the file in between but the title, which its extension replaces.
  static_cast<void>(folder.write("child.yaml", "kind: hardware\nextends: ./root.yaml\ntitle: C\n"));
  check_refused({"calibrate", measurements, "--base", folder.path("child.yaml"), "-o", root},
                "error: '" + root + "' would be overwritten\n" + hint);
  CHECK(read_text(root) == text);
  fs::create_symlink("root.yaml", folder.path("link.yaml"));
  check_refused({"calibrate", measurements, "--base", folder.path("child.yaml"), "-o",
                 folder.path("link.yaml")},
                "error: '" + folder.path("link.yaml") + "' would be overwritten\n" + hint);
}

TEST_CASE("calibrate does not overwrite a table of the base, or of what the base extends") {
  const TemporaryFolder folder;
  const std::string first = folder.path("first.yaml");
  CHECK(ask(committed +
            Arguments{"--name", "x", "--base", "h200", "--tables", folder.path(), "-o", first})
            .exit_code == 0);
  const std::string table = folder.path("./x-matmul-bf16.yaml");
  const std::string before = read_text(table);
  const std::string second = folder.path("second.yaml");
  CHECK(ask(committed + Arguments{"--base", first, "-o", second}).exit_code == 0);
  for (const std::string& base : {first, second}) {
    check_refused(committed + Arguments{"--name", "x", "--base", base, "--tables", folder.path("."),
                                        "-o", folder.path("third.yaml")},
                  "error: '" + table + "' would be overwritten\n" + hint);
  }
  CHECK(read_text(table) == before);
}

TEST_CASE("calibrate writes nothing that would be read instead of the base") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  fs::create_directories(folder.path("cat/hw_models/catalog"));
  const Arguments options{"calibrate",
                          measurements,
                          "-q",
                          "--catalog",
                          folder.path("cat"),
                          "-o",
                          folder.path("cat/hw_models/catalog/h200.yaml")};
  check_refused(options + Arguments{"--base", "h200"},
                "error: '" + folder.path("cat/hw_models/catalog/h200.yaml") +
                    "' would be read instead of a file that --base 'h200' means\n" + hint);
  CHECK_FALSE(fs::exists(folder.path("cat/hw_models/catalog/h200.yaml")));
  // Nor through a base that extends it.
  const std::string child = folder.write("child.yaml", "kind: hardware\nextends: h200\n");
  check_refused(options + Arguments{"--base", child},
                "error: '" + folder.path("cat/hw_models/catalog/h200.yaml") +
                    "' would be read instead of a file that --base '" + child + "' means\n" + hint);
  CHECK(ask(options + Arguments{"--base", "gb200-nvl72"}).exit_code == 0);
}

TEST_CASE("Arguments that would make the written file unreadable are refused") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  const std::string out = folder.path("out.yaml");
  const std::string rule = " must be valid UTF-8 without control characters\n"
                           "      it becomes part of the file that is written\n";
  for (const char* bad : {"a\x01z", "a\nb", "a\tb", "a\xff", "\xc2\x85"}) {
    const std::string text = folder.path(bad);
    const std::string other = folder.write(std::string(bad) + ".jsonl", small_machine);
    fs::create_directory(text);
    check_refused({"calibrate", measurements, "-o", out, "--tables", text},
                  "error: --tables" + rule);
    check_refused({"calibrate", measurements, "-o", out, "--source", text},
                  "error: --source" + rule);
    check_refused({"calibrate", measurements, "-o", out, "--base", text}, "error: --base" + rule);
    check_refused({"calibrate", measurements, "-o", text + ".yaml"}, "error: --output" + rule);
    check_refused({"calibrate", measurements, other, "-o", out},
                  "error: the name of measurement file 2" + rule);
  }
  CHECK_FALSE(fs::exists(out));
}

// The path from one folder to another goes through names that no argument has.
TEST_CASE("A folder whose name cannot be written is refused where the file must say it") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  const std::string base = folder.write("a\nb/base.yaml", "kind: hardware\nextends: h200\n");
  fs::create_directory_symlink("a\nb", folder.path("link"));
  const fs::path relative =
      fs::path(folder.path("link/base.yaml")).lexically_relative(fs::current_path());
  check_refused(
      {"calibrate", measurements, "--base", relative.string(), "-o", folder.path("out.yaml")},
      "error: the path from --output to --base must be valid UTF-8 without control "
      "characters\n      name another folder\n");
}

TEST_CASE("A file of measurements that is given twice is refused") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  check_refused({"calibrate", measurements, measurements, "-o", folder.path("out.yaml")},
                "error: '" + measurements +
                    "' is given twice\n      each of its records would count twice\n");
}

TEST_CASE("A base that is not a whole machine is refused before anything is written") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("own.jsonl", small_machine);
  const std::string partial = folder.path("partial.yaml");
  CHECK(ask({"calibrate", measurements, "-q", "-o", partial}).exit_code == 0);
  const std::string out = folder.path("out.yaml");
  // One error that names the base, none that names a line of a file that is not there.
  const ProgramResult result = ask({"calibrate", measurements, "--base", partial, "-o", out});
  CHECK(result.exit_code == 2);
  CHECK(result.err.starts_with("error: --base: '" + partial +
                               "' and these measurements are no whole machine: missing 'context' "
                               "in 'gpu', "));
  CHECK(contains(result.err, "\n      '" + partial + "' can extend one of: a100, b200, "));
  CHECK(result.err.find("out.yaml") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
  // A file written earlier stays when the next one is refused.
  const std::string before = read_text(partial);
  CHECK(ask({"calibrate", measurements, "--base", "nope", "-o", partial}).exit_code == 2);
  CHECK(read_text(partial) == before);
}

TEST_CASE("Where the report cannot be printed, no file is written") {
  const TemporaryFolder folder;
  const std::string measurements = folder.write("m.jsonl", small_machine);
  const std::string old = folder.write("out.yaml", "old\n");
  ProgramLimits limits;
  limits.stdout_path = "/dev/full";
  for (const Arguments& json : {Arguments{}, Arguments{"--json", "-"}}) {
    const ProgramResult result =
        ask(Arguments{"calibrate", measurements, "-q", "-o", old} + json, limits);
    CHECK(result.exit_code == 2);
    CHECK(result.err == "error: cannot write 'standard output': No space left on device\n");
    CHECK(read_text(old) == "old\n");
    CHECK(folder.names().size() == 2);
  }
}

TEST_CASE("Where one of several files cannot be written, none is") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("own-grouped-matmul-bf16.yaml"));
  const std::string old = folder.write("own-matmul-bf16.yaml", "old\n");
  check_refused(committed +
                    Arguments{"-q", "--tables", folder.path(), "-o", folder.path("own.yaml")},
                "error: cannot write '" + folder.path("own-grouped-matmul-bf16.yaml") +
                    "': it is a directory\n");
  CHECK(read_text(old) == "old\n");
  CHECK(folder.names().size() == 2);
}
