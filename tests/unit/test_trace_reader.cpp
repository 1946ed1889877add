// Traces as they stand in files, and what a trace format makes of them.
#include "tests/support/profiler_trace.hpp"
#include "tests/support/reports.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace spillway;

namespace {

constexpr SimTime us(std::int64_t microseconds) {
  return SimTime{microseconds * 1'000'000};
}

const std::string what_is_read = " | a trace of a profiler as JSON, plain or gzip";

RawTrace read_events(const std::string& text, const std::vector<std::string>& arguments = {}) {
  const TemporaryFolder folder;
  return read_trace(folder.write("t.json", text), TraceContainer::chrome_json, arguments);
}

// What is said about a file of this text, which is called FILE.
std::string complaint(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.json", text);
  const std::string said = messages_of(
      [&] { static_cast<void>(load_device_trace(path, {format_from(made_up_format)})); });
  return replaced(said, path, "FILE");
}

DeviceTrace load_text(const std::string& text, const std::string& format = made_up_format) {
  const TemporaryFolder folder;
  return load_device_trace(folder.write("t.json", text), {format_from(format)});
}

const std::string simple = device_trace(call(0), event(1, 10, "gemm", 10, 5));

// What is said about a format in which `from` became `to`.
std::string format_complaint(const std::string& from, const std::string& to) {
  Diagnostics diagnostics;
  static_cast<void>(read_trace_format(parse_yaml(replaced(made_up_format, from, to), "format.yaml"),
                                      diagnostics));
  return report_text(diagnostics);
}

} // namespace

// ---- Files ----

// The earliest event starts at 0; times are kept to the picosecond.
TEST_CASE("Events, tracks and the arguments that were asked for are read") {
  const RawTrace trace = read_events(
      trace_of(event(1, 10, "a", 1000.5, 2.25, R"("details": "size:8", "other": "x")"),
               event(1, 11, "b", 1000.25, 1), process_event(1, "/gpu:0"),
               track_event(1, 10, "queue a"), R"({"ph": "C", "name": "counter"})", "{}"),
      {"details"});
  REQUIRE(trace.events.size() == 2);
  CHECK(trace.events[0].name == "a");
  CHECK(trace.events[0].start == SimTime{250'000});
  CHECK(trace.events[0].end == SimTime{2'500'000});
  CHECK(trace.events[0].arguments == std::map<std::string, std::string>{{"details", "size:8"}});
  CHECK(trace.events[1].start == us(0));
  CHECK(trace.events[1].arguments.empty());
  REQUIRE(trace.tracks.size() == 2);
  CHECK(trace.tracks[trace.events[0].track].process == "/gpu:0"); // named after the event
  CHECK(trace.tracks[trace.events[0].track].process_id == "1");
  CHECK(trace.tracks[trace.events[0].track].name == "queue a");
  CHECK(trace.tracks[trace.events[1].track].process == "/gpu:0");
  CHECK(trace.tracks[trace.events[1].track].name.empty());
}

TEST_CASE("A list of events alone is a trace, and other keys do not matter") {
  const std::string events = event(1, 10, "a", 0, 1);
  CHECK(read_events("[" + events + "]").events.size() == 1);
  CHECK(read_events(R"({"meta": [)" + events + R"(], "traceEvents": [)" + events +
                    R"(], "more": {"traceEvents": [)" + events + "]}}")
            .events.size() == 1);
  CHECK(read_events("{}").events.empty());
  CHECK(read_events("3").events.empty());
}

TEST_CASE("A packed trace is the trace") {
  const DeviceTrace plain = load_text(simple);
  const DeviceTrace unpacked = load_text(packed(simple));
  REQUIRE(plain.steps.size() == 1);
  REQUIRE(unpacked.steps.size() == 1);
  REQUIRE(unpacked.steps[0].size() == 1);
  CHECK(unpacked.steps[0][0].name == "gemm");
  CHECK(unpacked.steps[0][0].end == plain.steps[0][0].end);
}

TEST_CASE("What is no trace is refused") {
  const TemporaryFolder folder;
  const auto refusal = [](const std::string& path) {
    return messages_of(
        [&] { static_cast<void>(read_trace(path, TraceContainer::chrome_json, {})); });
  };
  CHECK(refusal(folder.path("missing.json")) == "cannot open: no such file or directory");
  CHECK(refusal(folder.path()) == "is a directory, not a file");
  CHECK(complaint("") == "'FILE' is not JSON: it stops making sense at byte 1" + what_is_read);
  CHECK(complaint("{\"traceEvents\": [nonsense") ==
        "'FILE' is not JSON: it stops making sense at byte 19" + what_is_read);
  CHECK(complaint(packed("{\"traceEvents\": [nonsense")) ==
        "'FILE' is not JSON: it stops making sense at byte 19 of what is packed in it" +
            what_is_read);
  CHECK(complaint("[{\"ts\": 1e400}]") == "'FILE' holds a number beyond 1e308" + what_is_read);
  CHECK(complaint("\x1f\x8b nonsense") ==
        "'FILE' is damaged or cut off: it cannot be unpacked" + what_is_read);
}

// Wherever it ends: in the header, in the data, before or within the check sum.
TEST_CASE("A packed trace that is cut off is refused") {
  const std::string whole = packed(simple);
  for (std::size_t length = 2; length < whole.size(); ++length) {
    CAPTURE(length);
    const std::string said = complaint(whole.substr(0, length));
    CHECK(said.starts_with("'FILE' is "));
    CHECK(said.ends_with(what_is_read));
  }
}

TEST_CASE("Events without usable times are refused") {
  const auto said = [](const std::string& one) { return complaint(device_trace(one)); };
  const std::string good = event(1, 10, "k", 5, 2);
  CHECK(said(replaced(good, "\"dur\": 2", "\"end\": 2")) ==
        "'FILE': event 'k' has no number 'dur' | complete events need a start 'ts' and a duration "
        "'dur' in microseconds");
  CHECK(said(replaced(good, "\"ts\": 5", "\"ts\": \"5\""))
            .starts_with("'FILE': event 'k' has no number 'ts' | "));
  CHECK(said(replaced(good, "\"dur\": 2", "\"dur\": -2")) ==
        "'FILE': event 'k' lasts or starts -2 us after the first | times are microseconds, and a "
        "trace lasts less than eleven days");
  CHECK(complaint(device_trace(good, event(1, 10, "late", 2e12, 1)))
            .starts_with("'FILE': event 'late' lasts or starts 2e+12 us after the first | "));
}

TEST_CASE("A member that should be a text and is a list, an object or null is absent") {
  const std::string deep = std::string(60, '[') + std::string(60, ']');
  for (const std::string& wrong : {deep, std::string("null"), std::string("{\"a\": 1}")}) {
    const RawTrace trace =
        read_events(trace_of(replaced(event(1, 10, "a", 0, 1, R"("details": "x")"), "\"x\"", wrong),
                             replaced(event(1, 10, "a", 0, 1), "\"a\"", wrong),
                             replaced(event(1, 10, "a", 0, 1), "10", wrong),
                             replaced(event(1, 10, "a", 0, 1), "\"X\"", wrong),
                             replaced(process_event(1, "gpu"), "\"gpu\"", wrong)),
                    {"details"});
    REQUIRE(trace.events.size() == 3);
    CHECK(trace.events[0].arguments.empty());
    CHECK(trace.events[1].name.empty());
    CHECK(trace.tracks[0].process.empty());
  }
}

TEST_CASE("What is no event of the list is passed over") {
  const std::string one = event(1, 10, "a", 0, 1);
  CHECK(read_events("[1, \"x\", null, [" + one + "], " + one + "]").events.size() == 1);
  CHECK(read_events(R"({"traceEvents": {"a": )" + one + "}}").events.empty());
  CHECK(read_events(R"({"traceEvents": 1, "a": [)" + one + "]}").events.empty());
  CHECK(read_events(R"({"traceEvents": [{"a": )" + one + "}]}").events.empty());
}

TEST_CASE("Lists and objects of a trace are at most 64 deep") {
  const std::string too_deep = "'FILE' is nested more than 64 levels deep" + what_is_read;
  CHECK(complaint(std::string(65, '[')) == too_deep);
  CHECK(complaint(std::string(1'000'000, '[')) == too_deep);
  CHECK(complaint("[{\"args\": " + std::string(63, '[')) == too_deep);
  CHECK(read_events(std::string(64, '[') + std::string(64, ']')).events.empty());
}

// The parser keeps a token whole, whatever it is for.
TEST_CASE("A text, number or blank of a trace is at most one MiB") {
  const std::string too_long = "'FILE' holds a text, number or blank longer than 1 MiB";
  const std::size_t most = std::size_t{1} << 20U;
  CHECK(read_events("[\"" + std::string(most, 'x') + "\"]").events.empty());
  CHECK(complaint("[\"" + std::string(most + 1, 'x') + "\"]") == too_long);
  std::string escaped = "[\"";
  for (std::size_t i = 0; i < most; ++i) {
    escaped += "\\\"";
  }
  CHECK(complaint(escaped) == too_long);
  CHECK(complaint(std::string(2 * most, ' ')) == too_long);
  CHECK(complaint("[" + std::string(2 * most, '1')) == too_long);
  CHECK(complaint(packed("[\"" + std::string(2 * most, 'x'))) == too_long);
}

TEST_CASE("A file that unpacks to far more than a trace is refused") {
  std::string zeros = "[0";
  for (int i = 0; i < 3'000'000; ++i) {
    zeros += ",0";
  }
  CHECK(complaint(packed(zeros)) == "'FILE' unpacks to more than 200 times its size");
  CHECK(complaint(packed(zeros.substr(0, 1'000'000) + "]")).find("'FILE' has no") == 0);
}

// JSON has one kind of number: 3.0 is 3, and names the same process.
TEST_CASE("A whole number is the same with an exponent or a point") {
  const RawTrace trace = read_events(
      trace_of(event(3, 10, "a", 0, 1, R"("n": 1.0e5)"), event(3, 10, "a", 0, 1, R"("n": 1.5)"),
               event(3, 10, "a", 0, 1, R"("n": 1e20)"), event(3, 10, "a", 0, 1, R"("n": true)"),
               replaced(event(3, 10, "a", 0, 1), "\"pid\": 3", "\"pid\": 3.0")),
      {"n"});
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 4; ++i) {
    texts.push_back(trace.events[i].arguments.at("n"));
  }
  CHECK(texts == std::vector<std::string>{"100000", "1.5", "1e+20", "true"});
  CHECK(trace.tracks.size() == 1);
}

TEST_CASE("A name as long as a page is cut in messages") {
  const std::string name(3000, 'n');
  const std::string shown = std::string(57, 'n') + "...";
  const std::string one = event(1, 10, name, 5, 2);
  CHECK(complaint(device_trace(replaced(one, "\"dur\"", "\"end\"")))
            .starts_with("'FILE': event '" + shown + "' has no number 'dur' | "));
  CHECK(complaint(device_trace(replaced(one, "\"dur\": 2", "\"dur\": -2")))
            .starts_with("'FILE': event '" + shown + "' lasts or starts -2 us "));
  CHECK(complaint(trace_of(process_event(1, name), one)).ends_with("its processes: " + shown));
}

// ---- Formats ----

TEST_CASE("The committed format is complete") {
  const std::vector<TraceFormat> formats = load_trace_formats(Catalog({"."}), "");
  REQUIRE(formats.size() == 1);
  CHECK(formats.front().name == "jax");
  CHECK(formats.front().rules.size() == 9);
  CHECK(messages_of([] { static_cast<void>(load_trace_formats(Catalog({"."}), "jaxx")); }) ==
        "unknown trace_format 'jaxx' | did you mean 'jax'?");
}

TEST_CASE("Mistakes in a trace format are reported with their place") {
  CHECK(format_complaint("class: matmul", "class: matmull") ==
        "13:13: unknown value 'matmull' for 'class' | did you mean 'matmul'?");
  CHECK(format_complaint("class: matmul", "class: unclassified")
            .starts_with("13:13: unknown value 'unclassified' for 'class'"));
  CHECK(format_complaint("class: matmul", "kind: matmul") ==
        "13:5: missing key 'class' in 'class of events'\n"
        "13:6: unknown key 'kind' in 'class of events' | known: by, category, class, counted, "
        "events");
  CHECK(format_complaint("[\"gemm*\"]", "[]") == "13:29: 'events' must be a list of patterns");
  CHECK(format_complaint("{class: matmul,", "{class: matmul, by: kernel,") ==
        "13:25: 'by' goes with class store or reload");
  CHECK(format_complaint("{class: matmul,", "{class: ignore, by: engine, counted: true,") ==
        "13:25: 'by' goes with class store or reload\n"
        "13:42: 'counted' means nothing with class ignore");
  CHECK(format_complaint("by: kernel", "by: kernels") ==
        "12:24: unknown value 'kernels' for 'by' | did you mean 'kernel'?");
  CHECK(format_complaint("chrome_json", "chrome") ==
        "5:12: unknown value 'chrome' for 'container' | known: chrome_json");
  CHECK(format_complaint("track: ", "tracks: ") ==
        "6:29: unknown key 'tracks' in 'device' | did you mean 'track'?");
  CHECK(format_complaint("source: nowhere\n", "") == "0:0: missing key 'source' in 'trace_format'");
}

// Annotations on a track of kernels: one of a strange name, one that is called like a
// kernel and told apart by its category. They neither count as work nor delay the next
// call. A kernel of no category is none of theirs.
TEST_CASE("What a format ignores is nothing that the device does") {
  const std::string format =
      replaced(made_up_format, "classes:",
               "classes:\n  - {class: ignore, events: [\"step *\"]}\n"
               "  - {class: ignore, category: \"*annotation\", events: [\"*\"]}");
  const auto annotation = [](const std::string& name) {
    return replaced(event(1, 10, name, 10, 500), "\"ph\"", R"("cat": "gpu_annotation", "ph")");
  };
  const DeviceTrace trace =
      load_text(device_trace(call(0), event(1, 10, "step 1", 10, 500), annotation("gemm"),
                             event(1, 10, "gemm", 20, 5), call(100), event(1, 10, "gemm", 120, 5)),
                format);
  REQUIRE(trace.steps.size() == 2);
  for (const std::vector<Activity>& step : trace.steps) {
    REQUIRE(step.size() == 1);
    CHECK(step[0].name == "gemm");
    CHECK(step[0].end - step[0].start == us(5));
  }
}

// The first rule whose pattern matches decides: "d_attend_part" is also "d_attend*".
TEST_CASE("Names become classes by the first pattern that matches") {
  const DeviceTrace trace = load_text(device_trace(
      call(0), event(1, 10, "gemm_5", 1, 1), event(1, 10, "attend", 2, 1),
      event(1, 10, "d_attend_part", 3, 1), event(1, 10, "d_attend_7", 4, 1),
      event(1, 10, "loop_x", 5, 1), event(1, 10, "other", 6, 1),
      event(1, 11, "DtoH", 7, 1, R"("details": "kind:x size:1048576 async:1")"),
      event(1, 11, "HtoD", 8, 1, R"("details": "kind:x")"), event(1, 11, "pinned_write_2", 9, 1)));
  REQUIRE(trace.steps.size() == 1);
  const std::vector<Activity>& step = trace.steps.front();
  REQUIRE(step.size() == 9);
  const std::vector<ActivityClass> kinds{ActivityClass::matmul,
                                         ActivityClass::attention_forward,
                                         ActivityClass::attention_backward,
                                         ActivityClass::attention_backward,
                                         ActivityClass::memory,
                                         ActivityClass::unclassified,
                                         ActivityClass::store,
                                         ActivityClass::reload,
                                         ActivityClass::store};
  for (std::size_t i = 0; i < step.size(); ++i) {
    CAPTURE(step[i].name);
    CHECK(step[i].kind == kinds[i]);
    CHECK(step[i].counted == (step[i].name != "d_attend_part"));
    CHECK(step[i].by_kernel == (step[i].name == "pinned_write_2"));
  }
  CHECK(step[6].bytes == Bytes{1048576});
  CHECK_FALSE(step[7].bytes);
  CHECK_FALSE(step[8].bytes);
}

TEST_CASE("Without text before it the whole argument is a copy's size") {
  const std::string format = replaced(made_up_format, "details, after: \"size:\"", "bytes");
  const DeviceTrace trace =
      load_text(device_trace(call(0), event(1, 10, "DtoH", 1, 1, R"("bytes": 4096)"),
                             event(1, 10, "DtoH", 2, 1, R"("bytes": -1)"),
                             event(1, 10, "DtoH", 3, 1, R"("bytes": 99999999999999999999)"),
                             event(1, 10, "DtoH", 4, 1, R"("bytes": 1.0e5)"),
                             event(1, 10, "DtoH", 5, 1, R"("bytes": 1.5)")),
                format);
  CHECK(trace.steps[0][0].bytes == Bytes{4096});
  CHECK_FALSE(trace.steps[0][1].bytes);
  CHECK_FALSE(trace.steps[0][2].bytes);
  CHECK(trace.steps[0][3].bytes == Bytes{100'000});
  CHECK_FALSE(trace.steps[0][4].bytes);
}

// ---- Steps ----

// Calls at 100, 200 and 300; the second starts nothing on the device. What runs before
// the first call, on the host or on other tracks is no part of a step.
TEST_CASE("A step is what starts on the device between two marks") {
  const DeviceTrace trace = load_text(
      device_trace(track_event(1, 12, "summary"), event(1, 10, "gemm_before", 10, 5), call(100),
                   event(1, 11, "gemm_1b", 130, 5), event(1, 10, "gemm_1a", 110, 90), call(200),
                   call(300), event(1, 10, "gemm_2", 310, 500), event(1, 12, "gemm_2", 310, 500),
                   event(2, 20, "gemm_host", 320, 1)));
  REQUIRE(trace.steps.size() == 2);
  REQUIRE(trace.steps[0].size() == 2);
  CHECK(trace.steps[0][0].name == "gemm_1a");
  CHECK(trace.steps[0][1].name == "gemm_1b");
  REQUIRE(trace.steps[1].size() == 1);
  CHECK(trace.steps[1][0].name == "gemm_2");
}

TEST_CASE("Steps of a host that runs ahead cannot be told apart") {
  CHECK(complaint(device_trace(call(0), event(1, 10, "gemm", 10, 50), call(40),
                               event(1, 10, "gemm", 60, 50))) ==
        "'FILE': the host calls 'call step' while /gpu:0 still runs what came before | steps are "
        "told apart where the host waits for each of them");
}

TEST_CASE("A trace without steps is refused") {
  const std::string none =
      "'FILE' has no steps: nothing on /gpu:0 tracks 'queue *' follows an event "
      "'call *' of process '/host' | as trace format made-up has it";
  CHECK(complaint(device_trace(event(1, 10, "gemm", 10, 5))) == none);
  CHECK(complaint(device_trace(event(1, 10, "gemm", 10, 5), call(20))) == none);
}

TEST_CASE("The first device of its name is compared, 2 before 10") {
  const DeviceTrace trace = load_text(
      trace_of(process_event(1, "/gpu:10"), process_event(3, "/gpu:2"), process_event(2, "/host"),
               track_event(1, 10, "queue a"), track_event(3, 10, "queue a"), call(0),
               event(1, 10, "gemm_of_10", 1, 1), event(3, 10, "gemm_of_2", 1, 1)));
  CHECK(trace.device == "/gpu:2");
  REQUIRE(trace.steps[0].size() == 1);
  CHECK(trace.steps[0][0].name == "gemm_of_2");
}

// Process 8 is named first but has no events, 7 has none on a queue, 5 comes before 3.
TEST_CASE("Of several devices of one name one is compared, and said which") {
  const DeviceTrace trace = load_text(
      trace_of(process_event(8, "/gpu:x"), process_event(7, "/gpu:x"), process_event(3, "/gpu:x"),
               process_event(5, "/gpu:x"), process_event(2, "/host"), track_event(5, 10, "queue a"),
               track_event(3, 10, "queue a"), call(0), event(7, 10, "gemm_of_7", 1, 1),
               event(5, 10, "gemm_of_5", 1, 1), event(3, 10, "gemm_of_3", 1, 1)));
  CHECK(trace.device == "/gpu:x of process 5");
  REQUIRE(trace.steps.size() == 1);
  REQUIRE(trace.steps[0].size() == 1);
  CHECK(trace.steps[0][0].name == "gemm_of_5");
}

TEST_CASE("JSON that is no trace is said to hold nothing, or nothing with a name") {
  const std::string refusal =
      "'FILE' has no process of a GPU, which is named '/gpu:*' (made-up) | ";
  for (const std::string text : {"3", "[]", R"({"traceEvents": "hello"})"}) {
    CHECK(complaint(text) == refusal + "it holds no events with a duration");
  }
  CHECK(complaint(trace_of(process_event(1, "/gpu:0"))) ==
        refusal + "it holds no events with a duration");
  CHECK(complaint(trace_of(call(0))) == refusal + "its processes have no names");
  CHECK(complaint(trace_of(process_event(2, "/host"), call(0), event(3, 1, "x", 0, 1))) ==
        refusal + "its processes: /host");
}

TEST_CASE("The format is the one whose device the trace has") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.json", simple);
  const TraceFormat ours = format_from(made_up_format);
  TraceFormat other = ours;
  other.name = "other";
  other.device_process = "/tpu:*";
  CHECK(load_device_trace(path, {other, ours}).format == "made-up");
  CHECK(messages_of([&] { static_cast<void>(load_device_trace(path, {other})); }) ==
        "'" + path +
            "' has no process of a GPU, which is named '/tpu:*' (other) | its processes: "
            "/gpu:0, /host");
  other.device_process = "*gpu*";
  CHECK(messages_of([&] {
          static_cast<void>(load_device_trace(path, {other, ours}));
        }) ==
        "'" + path + "' could be of trace formats other, made-up | --trace-format says which");
}
