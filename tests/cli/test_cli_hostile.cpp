// Input that means harm, or a disk that is full: every reader answers with one clear
// error, soon and in little memory, and no writer leaves half of anything behind.
#include "tests/cli/cli.hpp"
#include "tests/support/profiler_trace.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

using namespace spillway;

namespace {

// The command that reads `path` as what it takes there.
struct Reader {
  const char* what;
  Arguments before; // the path
  Arguments after;
  std::size_t most_mib;

  [[nodiscard]] Arguments reading(const std::string& path) const {
    return before + Arguments{path} + after;
  }
};

const std::string profiles = "results/reference/h200/profiles.jsonl";
const std::string a_trace =
    "results/reference/h200/traces/llama70b-l3_2_4096_off_qkv.perfetto.json.gz";

const std::vector<Reader> readers{
    {"scenario", {"run"}, {}, 1},
    {"graph", {"replay"}, {}, 16},
    {"measurements", {"calibrate"}, {"-o", "/dev/null/never.yaml"}, 16},
    {"profiles", {"validate", "--profiles"}, {"--hardware", "h200"}, 16},
    {"trace",
     {"validate", "--profiles", profiles, "--hardware", "h200", "--record",
      "llama70b-l3 b2 s4096 off_qkv", "--against"},
     {},
     1024},
};

// Twenty times what the slowest case takes, for a machine that does other things.
ProgramLimits modest() {
  ProgramLimits limits;
  limits.most_seconds = 20;
  limits.most_bytes = 1'000'000'000;
  return limits;
}

ProgramResult check_refusal(const Arguments& arguments) {
  ProgramResult result = ask(arguments, modest());
  INFO(arguments.back(), "\n", result.err.substr(0, 1000));
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(contains(result.err, "error: "));
  CHECK(result.err.size() < 20'000);
  return result;
}

void check_refusal(const Arguments& arguments, const std::string& error) {
  CHECK(check_refusal(arguments).err == error + "\n");
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

constexpr std::size_t mib = std::size_t{1} << 20U;

} // namespace

TEST_CASE("No reader takes what is no regular file, or waits for one") {
  const TemporaryFolder folder;
  const std::string inner = folder.path("folder.yaml");
  const std::string fifo = folder.path("fifo.yaml");
  const std::string loop = folder.path("loop.yaml");
  const std::string missing = folder.path("missing.yaml");
  std::filesystem::create_directory(inner);
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop.yaml", loop);
  for (const Reader& reader : readers) {
    CAPTURE(reader.what);
    const auto refused = [&](const std::string& path, const std::string& why) {
      check_refusal(reader.reading(path), path + ": error: " + why);
    };
    refused(inner, "is a directory, not a file");
    refused(fifo, "is a FIFO, not a regular file");
    refused(loop, "cannot open: too many levels of symbolic links");
    refused(missing, "cannot open: no such file or directory");
    refused(missing + "/x", "cannot open: no such file or directory");
    refused("/dev/zero", "is not a regular file");
    refused("/proc/self/mem", "cannot read: input/output error"); // a regular file, says Linux
  }
}

TEST_CASE("No reader reads what may not be read") {
  const TemporaryFolder folder;
  const std::string secret = folder.write("secret.yaml", "a: 1\n");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (::access(secret.c_str(), R_OK) == 0) {
    MESSAGE("not checked: this user may read everything");
    return;
  }
  for (const Reader& reader : readers) {
    check_refusal(reader.reading(secret), secret + ": error: cannot open: permission denied");
  }
}

TEST_CASE("No reader takes a file above its limit, however little of it is there") {
  const TemporaryFolder folder;
  const std::string file = folder.write("sparse.yaml", "");
  for (const Reader& reader : readers) {
    CAPTURE(reader.what);
    std::filesystem::resize_file(file, reader.most_mib * mib + 1);
    check_refusal(reader.reading(file),
                  file + ": error: larger than " + std::to_string(reader.most_mib) + " MiB");
    std::filesystem::resize_file(file, 100 * mib); // zeros, where so many bytes are allowed
    check_refusal(reader.reading(file));
  }
}

TEST_CASE("No reader takes bytes that are no text, a file that is cut off, or one that is empty") {
  const TemporaryFolder folder;
  std::mt19937_64 random(5);
  std::string noise;
  for (int i = 0; i < 100'000; ++i) {
    noise += static_cast<char>(random() % 256);
  }
  for (const Reader& reader : readers) {
    CAPTURE(reader.what);
    for (const std::string& text :
         {noise, std::string(1000, '\0'), std::string("\"\xff\xfe\""), std::string("\xc0\x80"),
          std::string("\xef\xbb\xbf"), std::string(), std::string("{\"a\": [1, "),
          std::string("\x1f\x8b"), std::string("\x1f\x8b\x08")}) {
      check_refusal(reader.reading(folder.write("x.yaml", text)));
    }
  }
}

TEST_CASE("No reader follows deep nesting") {
  const TemporaryFolder folder;
  for (const Reader& reader : readers) {
    CAPTURE(reader.what);
    const std::size_t size = std::min<std::size_t>(reader.most_mib, 16) * mib;
    for (const std::string unit : {"[", "{\"a\":", "[\n", "{a: ", "- ", "? "}) {
      check_refusal(reader.reading(folder.write("x.yaml", repeated(unit, size / unit.size()))));
    }
  }
}

TEST_CASE("The largest files of nothing but mistakes are refused soon") {
  const TemporaryFolder folder;
  for (const Reader& reader : readers) {
    CAPTURE(reader.what);
    const std::size_t size = std::min<std::size_t>(reader.most_mib, 16) * mib;
    for (const std::string unit : {"k: 1\n", "{}\n", "x\n", "\n", "[]\n", " ", "\"", "&a ", ",",
                                   "kkkkkkkk: 12345678\n", "{\"a\": 1234567890123}\n"}) {
      check_refusal(reader.reading(folder.write("x.yaml", repeated(unit, size / unit.size()))));
    }
  }
}

TEST_CASE("Aliases that would multiply are refused at the first anchor") {
  const TemporaryFolder folder;
  std::string bomb = "a: &a [x, x]\n";
  for (char name = 'b'; name <= 'z'; ++name) {
    const std::string last(1, static_cast<char>(name - 1));
    bomb += std::string(1, name) + ": &" + name + " [*" + last + ", *" + last + "]\n";
  }
  const std::string file = folder.write("bomb.yaml", bomb);
  for (const Reader& reader : {readers[0], readers[1]}) {
    CHECK(contains(check_refusal(reader.reading(file)).err,
                   file + ":1:4: error: anchors are not supported\n"));
  }
}

// 1 GB of each would be a bomb; 8 MB are as wrong.
TEST_CASE("Packed traces that grow without end, are damaged or cut off are refused") {
  const TemporaryFolder folder;
  const Reader& trace = readers.back();
  const auto error = [&](const std::string& bytes) {
    const std::string file = folder.write("t.json.gz", bytes);
    std::string said = check_refusal(trace.reading(file)).err;
    said = said.substr(0, said.find('\n'));
    return said.substr(said.find('\'' + file + '\'') + file.size() + 3);
  };
  CHECK(error(packed("[0" + repeated(",0", 4 * mib))) == "unpacks to more than 200 times its size");
  CHECK(error(packed(repeated(" ", 8 * mib))) == "holds a text, number or blank longer than 1 MiB");
  CHECK(error(packed("[\"" + repeated("a", 8 * mib))) ==
        "holds a text, number or blank longer than 1 MiB");
  CHECK(error(packed(repeated("[", 8 * mib))) == "is nested more than 64 levels deep");
  CHECK(error(packed(repeated(std::string(1, '\0'), mib))) ==
        "is not JSON: it stops making sense at byte 1 of what is packed in it");
  const std::string whole = read_text(a_trace);
  CHECK(error(packed(whole)) ==
        "is not JSON: it stops making sense at byte 1 of what is packed in it");
  const std::string damaged = "is damaged or cut off: it cannot be unpacked";
  CHECK(error(whole.substr(0, whole.size() / 2)) == damaged);
  CHECK(error(whole.substr(0, whole.size() - 1)) == damaged);
  CHECK(error(whole + "more") == damaged);
  std::string flipped = whole;
  flipped[whole.size() - 6] = static_cast<char>(flipped[whole.size() - 6] ^ 4); // the check sum
  CHECK(error(flipped) == damaged);
}

// Whatever the bit was part of, what follows is another program's data.
TEST_CASE("Traces with flipped bits end in an answer or an error") {
  const TemporaryFolder folder;
  const std::string whole = read_text(a_trace);
  std::mt19937_64 random(9);
  for (int i = 0; i < 20; ++i) {
    std::string flipped = whole;
    char& byte = flipped[random() % flipped.size()];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (random() % 8)));
    const ProgramResult result =
        ask(readers.back().reading(folder.write("t.json.gz", flipped)), modest());
    CHECK(result.exit_code % 2 == 0);
  }
}

// ---- Output ----

namespace {

const Arguments quick{"run", gb200, "--policy", "offload", "--no-band"};

// A limit on the size of files fails a write in the middle, as a disk that fills up does.
ProgramLimits small_disk() {
  ProgramLimits limits;
  limits.before_start = [] {
    const rlimit most{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &most);
  };
  return limits;
}

// Nobody reads the standard output.
ProgramLimits broken_pipe() {
  ProgramLimits limits;
  limits.before_start = [] {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
    }
  };
  return limits;
}

} // namespace

TEST_CASE("A disk that fills up while a result is written costs no file") {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.json", "before");
  for (const char* option : {"--json", "--csv"}) {
    const ProgramResult result = ask(quick + Arguments{option, file}, small_disk());
    CHECK(result.exit_code == 2);
    CHECK(result.err == "error: cannot write '" + file + "': File too large\n");
    CHECK(read_text(file) == "before");
    CHECK(folder.names() == std::vector<std::string>{"a.json"});
  }
  const std::string own = folder.path("own.yaml");
  const Arguments calibrate{"calibrate", "results/reference/h200/microbench.jsonl", "-o", own};
  const ProgramResult result = ask(calibrate, small_disk());
  CHECK(result.exit_code == 2);
  CHECK(result.err == "error: cannot write '" + own + "': File too large\n");
  CHECK(folder.names() == std::vector<std::string>{"a.json"});
}

TEST_CASE("A reader of the output that has gone is an error, and files are not half of a pair") {
  const TemporaryFolder folder;
  const std::string said = "error: cannot write 'standard output': Broken pipe\n";
  for (const Arguments& arguments :
       {quick, Arguments{"fields"}, Arguments{"--help"},
        Arguments{"calibrate", "results/reference/h200/microbench.jsonl", "-o",
                  folder.path("own.yaml")}}) {
    const ProgramResult result = ask(arguments, broken_pipe());
    CHECK(result.exit_code == 2);
    CHECK(result.err == said);
  }
  CHECK(folder.names().empty());
}
