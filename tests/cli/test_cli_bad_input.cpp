// What is wrong in scenario files and settings is refused in words that help;
// what is legal but huge ends soon. The rules of ask() hold throughout: no
// crash, no hang, no internal error.
#include "tests/cli/cli.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

using namespace spillway;
using Json = nlohmann::ordered_json;

namespace {

const std::string extending = "kind: scenario\nextends: deepseek-v3-gb200\n";

Arguments offload_of(const std::string& scenario) {
  return {"run", scenario, "--policy", "offload", "--no-band"};
}

Arguments with(const std::vector<std::string>& settings) {
  Arguments arguments = offload_of(gb200);
  for (const std::string& setting : settings) {
    arguments = arguments + Arguments{"--set", setting};
  }
  return arguments;
}

// What is said of one wrong setting: place, message, the setting with a caret
// under `column`, and a hint.
void check_setting(const std::string& setting, std::size_t column, const std::string& message,
                   const std::string& hint = "") {
  INFO(setting);
  check_refused(with({setting}), "--set:1:" + std::to_string(column) + ": error: " + message +
                                     "\n    1 | " + setting + "\n      | " +
                                     std::string(column - 1, ' ') + "^" +
                                     (hint.empty() ? "" : " " + hint) + "\n");
}

// `lines` follow two that make the file a copy of a committed scenario.
void check_file(const std::string& lines, const std::string& said_after_name) {
  const TemporaryFolder folder;
  const std::string file = folder.write("own.yaml", extending + lines);
  INFO(lines.substr(0, 200));
  check_refused_with(offload_of(file), file + said_after_name);
}

// The whole file.
void check_text(const std::string& text, const std::string& said_after_name) {
  const TemporaryFolder folder;
  const std::string file = folder.write("own.yaml", text);
  check_refused(offload_of(file), file + said_after_name + "\n");
}

} // namespace

// ---- Settings ----

TEST_CASE("A setting without path, '=' or value is refused") {
  check_setting("=3", 1, "missing path before '='");
  check_setting("batch.micro", 12, "missing '='", "write path=value");
  check_setting("batch.micro=", 13, "missing value after '='", "write null for none");
  check_setting("batch..micro=2", 7, "empty key in the path");
  check_setting(".=1", 1, "empty key in the path");
  check_setting("batch.micro=1 # c", 13, "' #' starts a comment", "quote the value");
  check_refused(with({""}), "--set:1:1: error: missing '='\n      write path=value\n");
  check_refused(with({"batch.micro=1\n2"}), "--set: error: an assignment must be a single line\n");
  check_refused(with({"title=a\x1b[31m"}), "--set:1:8: error: control character U+001B\n"
                                           "    1 | title=a [31m\n"
                                           "      |        ^\n");
}

TEST_CASE("Unknown names are refused with the nearest one") {
  check_setting("model=deepseek-v3-671", 7, "unknown model 'deepseek-v3-671'",
                "did you mean 'deepseek-v3-671b'?");
  check_setting("hardware=gb200-nvl27", 10, "unknown hardware 'gb200-nvl27'",
                "did you mean 'gb200-nvl72'?");
  check_setting("runtime.framework=maxtex", 19, "unknown framework 'maxtex'",
                "did you mean 'maxtext'?");
  check_setting("batch.mciro=2", 7, "unknown key 'mciro' in 'batch'", "did you mean 'micro'?");
  check_setting("policies.offload.tensors.query_prj=offload", 26,
                "unknown tensor 'query_prj' in this model", "did you mean 'query_proj'?");
  check_setting("policies.offload.tensors.query_proj=ofload", 37,
                "unknown value 'ofload' for 'query_proj'", "did you mean 'offload'?");
  check_setting("precision.weights=fp8", 19, "unknown value 'fp8' for 'weights'",
                "known: fp32, bf16");
  check_setting("batch={micro: 1, sequence: 4096, mikro: 2}", 34, "unknown key 'mikro' in 'batch'",
                "did you mean 'micro'?");
  check_setting("nope=1", 1, "unknown key 'nope' in 'scenario'",
                "known: assumed, batch, gpus, hardware, kind, model, parallel, policies, "
                "precision, published, routing, runtime, ...");
}

TEST_CASE("Integers are read strictly") {
  const std::string nines(400, '9');
  for (const char* wrong :
       {"1e308", "NaN", ".nan", ".inf", "-.inf", "inf", "text", "8.0", "+8", "0x8", "1_000"}) {
    check_setting(std::string("batch.micro=") + wrong, 13,
                  std::string("'micro' must be an integer, not '") + wrong + "'");
  }
  for (const char* wrong : {"0", "-1", "65537", "9223372036854775807", "-9223372036854775808"}) {
    check_setting(std::string("batch.micro=") + wrong, 13,
                  std::string("'micro' must be between 1 and 65536, not ") + wrong);
  }
  check_setting("batch.micro=9223372036854775808", 13,
                "'micro' does not fit in 64 bits: 9223372036854775808");
  check_setting("batch.micro=08", 13, "'micro' must be an integer, not '08'",
                "remove the leading zeros");
  check_setting("batch.micro=\"8\"", 13, "'micro' must be an integer, not quoted text",
                "remove the quotes");
  check_setting("batch.micro=[1]", 13, "'micro' must be an integer, not a list");
  check_setting("batch.micro={a: 1}", 13, "'micro' must be an integer, not a map");
  check_setting("batch.micro=null", 13, "'micro' must be an integer, not empty");
  check_refused_with(with({"batch.micro=" + nines}),
                     "--set:1:13: error: 'micro' does not fit in 64 bits: " + nines);
}

TEST_CASE("Numbers are read strictly") {
  for (const char* wrong : {"NaN", ".inf", "text", "0x1p-1"}) {
    check_setting(std::string("runtime.memory_fraction=") + wrong, 25,
                  std::string("'memory_fraction' must be a number, not '") + wrong + "'");
  }
  for (const char* wrong : {"0", "-0", "-0.5", "1.0000001", "1e308", "9223372036854775808"}) {
    check_setting(std::string("runtime.memory_fraction=") + wrong, 25,
                  std::string("'memory_fraction' must be greater than 0 and at most 1, not ") +
                      wrong);
  }
  check_setting("runtime.memory_fraction=1e-9999", 25,
                "'memory_fraction' does not fit in a double: 1e-9999");
}

TEST_CASE("Quantities need a unit of their kind and a value that means something") {
  const auto limit = [](const std::string& value, const std::string& message,
                        const std::string& hint = "") {
    check_setting("runtime.host_memory_limit=" + value, 27, message, hint);
  };
  const std::string example = "write for example \"80 GiB\"";
  limit("64", "'host_memory_limit' needs a unit", example);
  limit("\"64 GB/s\"", "unknown unit 'GB/s' in 'host_memory_limit'", example);
  limit("\"64 parsec\"", "unknown unit 'parsec' in 'host_memory_limit'", example);
  limit("\"64 gb\"", "unknown unit 'gb' in 'host_memory_limit'", "did you mean 'GB'?");
  limit("\"-1 GB\"", "'host_memory_limit' must not be negative");
  limit("\"0 B\"", "'host_memory_limit' must be greater than 0 B and at most 1000 PB, not 0 B");
  limit("\"NaN GB\"", "'host_memory_limit' must be a number with a unit, not 'NaN GB'", example);
  limit("\"0.3 B\"", "'host_memory_limit' must be a whole number of bytes, not '0.3 B'");
  limit("\"9223372036854775808 B\"",
        "'host_memory_limit' must be below 2^63 bytes, not '9223372036854775808 B'");
  limit("\"1e308 TB\"", "'host_memory_limit' is out of range: '1e308 TB' does not fit in a double");
  limit("[1]", "'host_memory_limit' must be a number with a unit, not a list");
}

TEST_CASE("Sizes that do not divide are refused") {
  check_setting("gpus=100", 6, "100 GPUs cannot be split into fsdp 16 x expert 8",
                "gpus must equal the product, 128");
  check_refused_with(with({"parallel={fsdp: 128, expert: 3}", "gpus=384"}),
                     "error: 256 experts cannot be divided over expert 3\n");
  // 1 x 1 tokens x 8 experts per token over 256 / 8 experts of a GPU.
  check_refused_with(with({"batch.micro=1", "batch.sequence=1"}),
                     "error: 8 routed rows cannot be divided evenly over 32 experts of a GPU\n");
  check_refused_with(Arguments{"run", "llama-3.1-405b-gb200", "--policy", "remat", "--set",
                               "parallel={fsdp: 64, expert: 2}"},
                     "has no experts to split over expert 2\n");
}

TEST_CASE("One mistake gives one message, not others that follow from it") {
  check_setting("gpus=0", 6, "'gpus' must be between 1 and 1000000, not 0");
  check_setting("batch=3", 7, "'batch' must be a map, not '3'");
  check_setting("model.layers=0", 14, "'layers' must be between 1 and 10000, not 0");
}

TEST_CASE("A policy must be a map that says something") {
  check_setting("policies.offload=~", 18, "'offload' must be a map, not empty");
  check_setting("policies.x.preset=custom", 19, "policy 'x' is custom but lists no tensors",
                "add 'tensors', or use preset full or none");
  check_setting("policies.offload.tensors.decoder_layer_input=recompute", 26,
                "'decoder_layer_input' cannot be recomputed",
                "a layer is recomputed from it: keep or offload it");
  check_refused_with(with({"published=~", "policies=[]"}),
                     "error: 'policies' must be a map with at least one policy\n");
}

// ---- Files ----

TEST_CASE("A file that extends a committed scenario works, with CRLF and with a byte-order mark") {
  const TemporaryFolder folder;
  const Json expected = Json::parse(ask(offload_of(gb200) + Arguments{"--json", "-"}).out);
  const std::string crlf = "kind: scenario\r\nextends: deepseek-v3-gb200\r\n";
  for (const std::string& text : {extending, crlf, "\xef\xbb\xbf" + extending}) {
    const std::string file = folder.write("own.yaml", text);
    const ProgramResult result = ask(offload_of(file) + Arguments{"--json", "-"});
    CHECK(result.exit_code == 0);
    Json json = Json::parse(result.out);
    CHECK(json["scenario"] == "own");
    json["scenario"] = gb200;
    CHECK(json == expected);
  }
}

TEST_CASE("What is no readable file is refused with its name, and nothing hangs") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& why) {
    const std::string path = name.starts_with('/') ? name : folder.path(name);
    check_refused(offload_of(path), path + ": error: " + why + "\n");
  };
  std::filesystem::create_directory(folder.path("folder.yaml"));
  REQUIRE(::mkfifo(folder.path("fifo.yaml").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop.yaml", folder.path("loop.yaml"));
  static_cast<void>(folder.write("file.yaml", extending));
  refused("missing.yaml", "cannot open: no such file or directory");
  refused("folder.yaml", "is a directory, not a file");
  refused("fifo.yaml", "is a FIFO, not a regular file");
  refused("loop.yaml", "cannot open: too many levels of symbolic links");
  refused("file.yaml/x.yaml", "cannot open: not a directory");
  refused("/dev/zero", "is not a regular file");
  refused(std::string(300, 'n') + ".yaml", "cannot open: file name too long");

  const std::string secret = folder.write("secret.yaml", extending);
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (::access(secret.c_str(), R_OK) != 0) { // root reads everything
    refused("secret.yaml", "cannot open: permission denied");
  }
}

TEST_CASE("Text that is no YAML text is refused") {
  check_text("", ": error: the document is empty");
  check_text("# nothing\n", ": error: the document is empty");
  check_text(extending + std::string("title: a\0b\n", 11),
             ":3:9: error: NUL byte\n    3 | title: a b\n      |         ^");
  check_text(extending + "title: \"\xff\"\n",
             ":3:9: error: not valid UTF-8\n    3 | title: \"\uFFFD\"\n      |         ^");
  check_text(extending + "title: a\x1b[31m\n",
             ":3:9: error: control character U+001B\n    3 | title: a [31m\n      |         ^");
  check_text(std::string("\x7f"
                         "ELF\2\1\1\0\0\0",
                         10),
             ":1:1: error: control character U+007F\n    1 |  ELF      \n      | ^");
  check_text(extending + "# " + std::string(1'100'000, 'x') + "\n", ": error: larger than 1 MiB");
  check_text("- a\n", ": error: 'scenario' must be a map, not a list");
}

TEST_CASE("YAML that hides or repeats something is refused") {
  check_file("title: &x a\n", ":3:8: error: anchors are not supported\n");
  check_file("title: *x\n", ":3:8: error: aliases are not supported\n");
  check_file("title: !!str a\n", ":3:8: error: tags are not supported\n");
  check_file("gpus: 128\ngpus: 128\n",
             ":4:1: error: duplicate key 'gpus' in the top level, first at line 3\n");
  check_file("---\n" + extending, ":3:1: error: a file must hold one document, not several\n");
  check_file("batch:\n\tmicro: 1\n", ":4:7: error: illegal map value\n");
  check_file("title: \"a\\e[31m\"\n", ":3:8: error: control character U+001B in a text\n");
  check_file("batch: {micro: 1\n", ":3:8: error: '{' is never closed\n");
}

TEST_CASE("Deep nesting is refused before it costs anything") {
  std::string block;
  for (std::size_t level = 0; level < 1000; ++level) {
    block += std::string(level, ' ') + "a:\n";
  }
  // The top level is the first of the 64 levels: the 64th bracket is one too many.
  const std::string too_deep = "error: nested more than 64 levels deep\n";
  std::string maps;
  for (int level = 0; level < 50'000; ++level) {
    maps += "{a: ";
  }
  const std::string brackets = std::string(100'000, '[') + std::string(100'000, ']');
  check_file("title: " + brackets + "\n", ":3:71: " + too_deep); // 7 + 63 + 1
  check_file("title: " + maps + "\n", ":3:260: " + too_deep);    // 7 + 4 x 63 + 1
  check_file(block, ":67:65: " + too_deep);                      // the 65th line of the block
}

TEST_CASE("A message stays short, however much is wrong") {
  const TemporaryFolder folder;
  std::string keys;
  for (int i = 0; i < 1000; ++i) {
    keys += "k" + std::to_string(i) + ": 1\n";
  }
  const ProgramResult many = ask(offload_of(folder.write("many.yaml", extending + keys)));
  CHECK(many.exit_code == 2);
  CHECK(contains(many.err, "\n... and at least 980 more errors\n")); // 20 are shown
  const ProgramResult digits = ask(
      offload_of(folder.write("digits.yaml", extending + "gpus: " + std::string(200'000, '9'))));
  CHECK(digits.exit_code == 2);
  CHECK(digits.err.size() < 4000);
}

TEST_CASE("What a file extends must exist and must not lead back to it") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& text,
                           const std::string& message) {
    const std::string file = folder.write(name, text);
    check_refused_with(offload_of(file), file + message);
  };
  const std::string circle = ":1:10: error: 'extends' goes round in a circle\n";
  refused("self.yaml", "extends: self.yaml\n", circle);
  static_cast<void>(folder.write("b.yaml", "extends: a.yaml\n"));
  refused("a.yaml", "extends: b.yaml\n", ""); // either file of the circle may be named
  refused("none.yaml", "extends: none/x.yaml\n",
          ":1:10: error: no file '" + folder.path("none/x.yaml") + "' to extend\n");
  refused("name.yaml", "extends: deepseek-v3-gb20\n",
          ":1:10: error: unknown scenario 'deepseek-v3-gb20'\n");
  refused("list.yaml", "extends: [a]\n", ":1:10: error: 'extends' must be a name or a file\n");
  refused("model.yaml", extending + "model: {extends: deepseek-v3-671}\n",
          ":3:18: error: unknown model 'deepseek-v3-671'\n");
}

TEST_CASE("A path in a file is relative to that file, for whatever it names") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("small.yaml", "extends: deepseek-v3-671b\ntitle: Small model\n"));
  static_cast<void>(folder.write("base.yaml", extending));
  for (const std::string model : {"./small.yaml", "{extends: ./small.yaml}"}) {
    INFO(model);
    const std::string file = folder.write(
        "own.yaml", std::string("kind: scenario\n") + "extends: base.yaml\nmodel: " + model + "\n");
    const ProgramResult result = ask(offload_of(file));
    CHECK(result.exit_code == 0);
    CHECK(contains(result.out, "\nSmall model on "));
  }
}

// ---- Legal but huge ----

TEST_CASE("Huge but legal settings end soon, in an answer or in a clear refusal") {
  const std::string billion = "1000000000";
  const std::vector<std::vector<std::string>> huge{
      {"batch.micro=65536"},
      {"batch.sequence=16777216"},
      {"batch.micro=65536", "batch.sequence=16777216"},
      {"batch.micro=1", "batch.sequence=16777216"},
      {"gpus=1000000", "parallel={fsdp: 1000000}"},
      {"batch.accumulation=4096"},
      {"batch.accumulation=4096", "batch.micro=1", "batch.sequence=256"},
      {"model.layers=10000"},
      {"model.layers=10000", "batch.accumulation=4096"},
      {"runtime.loss_chunks=65536"},
      {"runtime.memory_fraction=1e-300"},
      {"runtime.schedule=streamed", "runtime.prefetch_layers=1000",
       "runtime.in_flight_layers=1000"},
      {"model.hidden=" + billion, "batch.sequence=4"},
      {"model.experts.width=" + billion, "batch.sequence=4"},
      {"model.experts={count: 1000000000, per_token: 1000000000, width: 1000000000}",
       "batch.micro=1", "batch.sequence=4"},
      {"model.attention.heads=" + billion, "batch.micro=1", "batch.sequence=4"},
      {"hardware.host.d2h.rate=\"1 B/s\""},
      {"hardware.gpu.memory=\"1 B\""}};
  for (const std::vector<std::string>& settings : huge) {
    std::string shown;
    for (const std::string& setting : settings) {
      shown += " " + setting;
    }
    INFO(shown);
    const ProgramResult result = ask(with(settings) + Arguments{"--json", "-"});
    CHECK(result.seconds < 10);
    if (result.exit_code == 2) {
      CHECK(contains(result.err, "error: "));
    } else {
      const Json json = Json::parse(result.out);
      CHECK(json["step_time_s"].get<double>() > 0);
      CHECK(json["peak_hbm_bytes"].get<double>() > 0);
    }
  }
}

TEST_CASE("The band of a long step is bounded in time and memory as well") {
  for (const char* jobs : {"2", "64"}) {
    const ProgramResult result = ask({"run", gb200, "--policy", "offload", "--jobs", jobs, "--set",
                                      "batch.accumulation=4096", "--set", "batch.micro=1"});
    CHECK(result.seconds < 20);
  }
}

TEST_CASE("A step that is too long to count says so") {
  check_refused_with(with({"batch.sequence=16777216"}), "53 days");
}

TEST_CASE("The micro-batch that is said to fit can be set, and fits") {
  // 8 experts per token over 32 experts of a GPU: the product of micro-batch and
  // sequence must be a multiple of 4, which not every micro-batch gives.
  for (const char* sequence : {"1", "2", "3", "4", "4096"}) {
    for (const char* fraction : {"1", "0.5", "0.1"}) {
      const std::vector<std::string> settings{"batch.micro=65536",
                                              std::string("batch.sequence=") + sequence,
                                              std::string("runtime.memory_fraction=") + fraction};
      INFO(settings[1], " ", settings[2]);
      const ProgramResult result = ask(with(settings));
      CHECK(result.exit_code == 1);
      std::smatch advice;
      if (std::regex_search(result.out, advice,
                            std::regex("it fits with --set (batch\\.micro=[0-9]+) "))) {
        CHECK(ask(with({settings[1], settings[2], advice[1]})).exit_code == 0);
      } else {
        CHECK(contains(result.out, "no micro-batch fits"));
      }
    }
  }
}

TEST_CASE("A result is not written over the scenario that it is of") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("s.yaml", "kind: scenario\nextends: deepseek-v3-gb200\nname: mine\n");
  const std::string before = read_text(path);
  for (const char* command : {"run", "compare", "explain"}) {
    check_refused_with({command, path, "--policy", "remat", "--json", path},
                       "' would overwrite its own input\n");
  }
  check_refused_with({"compare", path, "--csv", path}, "' would overwrite its own input\n");
  CHECK(read_text(path) == before);
}
