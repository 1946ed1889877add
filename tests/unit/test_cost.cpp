#include "hw_models/cost.hpp"
#include "tests/support/reports.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>

using namespace spillway;

namespace {

constexpr double tera = 1e12;

Coefficient number(double value) {
  Coefficient c;
  c.value = c.low = c.high = value;
  return c;
}

// A table of one row, so that its rate holds for every shape: 1 TFLOP/s x `scale`.
std::shared_ptr<const KernelTable> table(const std::string& op, const std::string& stage,
                                         double scale, double derate = 1) {
  const std::string columns = op == "attention" ? "batch, heads, kv_heads, seq, qk_dim, v_dim, us"
                              : op == "matmul"  ? "m, n, k, us"
                                                : "groups, m, n, k, us";
  // 2 1024^3 FLOP per group, and 1 8 1024^2 128.
  const std::string row = op == "attention" ? "1 8 8 1024 64 64 1073.741824"
                          : op == "matmul"  ? "1024 1024 1024 2147.483648"
                                            : "4 1024 1024 1024 8589.934592";
  Diagnostics diagnostics;
  auto read = std::make_shared<const KernelTable>(KernelTable::read(
      parse_yaml("kind: kernel_table\nop: " + op + "\ndtype: bf16\nstage: " + stage +
                     "\ndevice: a test\nprovenance: measured\nsource: {title: made up}\n"
                     "scale: {value: " +
                     std::to_string(scale) + "}\nderate: " + std::to_string(derate) +
                     "\ncolumns: [" + columns + "]\nrows: |\n  " + row + "\n",
                 "t.yaml"),
      diagnostics));
  CHECK(report_text(diagnostics) == "");
  return read;
}

// Eight GPUs per scale-up domain; every number is one that a sum can be read off from.
Device device() {
  Device d;
  d.name = "plain";
  d.scale_up_domain = 8;
  d.hbm_rate = number(2e12);
  d.kernel_overhead = number(3e-6);
  d.matmul_derate = number(1);
  d.attention_derate = number(1);
  d.shape_factor = number(1);
  d.all_gather = number(0.8);
  d.reduce_scatter = number(0.5);
  d.all_to_all = number(0.4);
  d.scale_out_efficiency = number(0.9);
  d.scale_up_latency = number(10e-6);
  d.scale_out_latency = number(30e-6);
  d.tables = {table("matmul", "any", 1), table("attention", "forward", 4),
              table("attention", "backward", 2), table("grouped_matmul", "forward", 8)};
  return d;
}

Work matmul(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups = 1,
            Stage stage = Stage::forward) {
  Work work;
  work.kind = WorkKind::matmul;
  work.stage = stage;
  work.groups = groups;
  work.m = m;
  work.n = n;
  work.k = k;
  return work;
}

Work attention(Stage stage) {
  Work work;
  work.kind = WorkKind::attention;
  work.stage = stage;
  work.batch = 1;
  work.heads = 8;
  work.kv_heads = 8;
  work.seq = 1000;
  work.qk_dim = 64;
  work.v_dim = 64;
  return work;
}

Work collective(WorkKind kind, std::int64_t size, std::int64_t stride = 1,
                std::int64_t bytes = 1'000'000) {
  Work work;
  work.kind = kind;
  work.bytes = Bytes{bytes};
  work.group = {size, stride};
  return work;
}

doctest::Approx near(double seconds) { // to a picosecond
  return doctest::Approx(seconds).epsilon(1e-12);
}

double seconds(const Device& d, const Work& work) {
  RateCache cache;
  return CostModel(d, 8, cache).kernel_time(work).count();
}

CollectiveCost cost_of(const Work& work, std::int64_t gpus, NicPath path = NicPath::separate) {
  Device d = device();
  d.nic_path = path;
  RateCache cache;
  return CostModel(d, gpus, cache).collective(work);
}

void check_cost(const CollectiveCost& cost, double amount, double up, double out, double host,
                double link, double latency) {
  const auto about = [](double value) { return doctest::Approx(value).epsilon(1e-12); };
  CHECK(cost.amount == about(amount));
  CHECK(cost.scale_up_weight == about(up));
  CHECK(cost.scale_out_weight == about(out));
  CHECK(cost.host_weight == about(host));
  CHECK(cost.link_weight == about(link));
  CHECK(cost.latency.count() == about(latency));
}

} // namespace

TEST_CASE("No work takes no time, not even an overhead") {
  CHECK(seconds(device(), Work{}) == 0);
}

// 3 us + 4e6 / 2e12 s = 5 us.
TEST_CASE("A memory kernel takes an overhead and its bytes at the HBM rate") {
  Work work;
  work.kind = WorkKind::memory;
  work.bytes = Bytes{4'000'000};
  CHECK(seconds(device(), work) == near(5e-6));
}

// 2 1000^3 = 2e9 FLOP at 1 TFLOP/s: 2 ms; a table's times hold a launch. Derates: 0.5 x 0.8 of the
// rate, over the table's own 0.4 the same again: 1 TFLOP/s.
TEST_CASE("A product takes its FLOPs at the derated rate of the table") {
  Device d = device();
  const Work work = matmul(1000, 1000, 1000);
  CHECK(seconds(d, work) == near(2e9 / tera));
  d.matmul_derate = number(0.5);
  CHECK(seconds(d, work) == near(2e9 / (0.5 * tera)));
  d.shape_factor = number(0.8);
  CHECK(seconds(d, work) == near(2e9 / (0.4 * tera)));
  d.tables = {table("matmul", "any", 1, 0.4)};
  CHECK(seconds(d, work) == near(2e9 / tera));
  d.attention_derate = number(0.1); // of no concern to a product
  CHECK(seconds(d, work) == near(2e9 / tera));
}

// Forward 8 1000^2 128 = 1.024e9 FLOP at 4 TFLOP/s. Backward is 2.5 times that, in the
// table's row too, which therefore stands for 2.5 x 2 TFLOP/s.
TEST_CASE("Attention takes its own derate and the table of its stage") {
  Device d = device();
  d.matmul_derate = number(0.1);
  d.shape_factor = number(0.1);
  CHECK(seconds(d, attention(Stage::forward)) == near(1.024e9 / (4 * tera)));
  CHECK(seconds(d, attention(Stage::backward)) == near(2.56e9 / (5 * tera)));
  d.attention_derate = number(0.8);
  CHECK(seconds(d, attention(Stage::forward)) == near(1.024e9 / (3.2 * tera)));
}

TEST_CASE("A table of the very stage is preferred to one of any stage, whatever the order") {
  Device d = device();
  const Work forward = matmul(1000, 1000, 1000);
  const Work wgrad = matmul(1000, 1000, 1000, 1, Stage::wgrad);
  for (const bool first : {true, false}) {
    d.tables = {table("matmul", first ? "wgrad" : "any", first ? 2 : 1),
                table("matmul", first ? "any" : "wgrad", first ? 1 : 2)};
    CHECK(seconds(d, wgrad) == near(2e9 / (2 * tera)));
    CHECK(seconds(d, forward) == near(2e9 / tera));
  }
  // Of two equals the first.
  d.tables = {table("matmul", "any", 1), table("matmul", "any", 2)};
  CHECK(seconds(d, forward) == near(2e9 / tera));
}

TEST_CASE("A table that covers the shape is preferred to one that must extrapolate") {
  Device d = device();
  d.tables = {table("grouped_matmul", "forward", 1)};
  Diagnostics diagnostics;
  d.tables.push_back(std::make_shared<const KernelTable>(KernelTable::read(
      parse_yaml("kind: kernel_table\nop: grouped_matmul\ndtype: bf16\nstage: forward\n"
                 "device: d\nprovenance: measured\nsource: {title: t}\n"
                 "columns: [groups, m, n, k, us]\nrows: |\n  1 8000 8000 8000 102400\n",
                 "t.yaml"),
      diagnostics))); // 2 8000^3 FLOP in 102.4 ms: 10 TFLOP/s
  RateCache cache;
  CostModel model(d, 8, cache);
  CHECK(model.kernel_time(matmul(8000, 8000, 8000, 2)).count() == near(2.048e12 / (10 * tera)));
  CHECK(model.extrapolations().empty());
  // Near neither: the first, and the model says for which shape.
  CHECK(model.kernel_time(matmul(1, 1024, 1024, 2)).count() == near(2.0 * 2 * 1024 * 1024 / tera));
  CHECK(model.extrapolations() == std::set<std::string>{"2 grouped product of m=1 n=1024 k=1024"});
}

// 8 8000^2 (128 + 128) = 1.31072e11 FLOP.
TEST_CASE("A table with rows for the same heads is preferred to a nearer one without") {
  Device d = device();
  Diagnostics diagnostics;
  const auto heads = [&](const std::string& row) {
    return std::make_shared<const KernelTable>(KernelTable::read(
        parse_yaml("kind: kernel_table\nop: attention\ndtype: bf16\nstage: forward\n"
                   "device: d\nprovenance: measured\nsource: {title: t}\n"
                   "columns: [batch, heads, kv_heads, seq, qk_dim, v_dim, us]\nrows: |\n  " +
                       row + "\n",
                   "t.yaml"),
        diagnostics));
  };
  // 8 8000^2 128 FLOP in 65536 us: 1 TFLOP/s; 8 1000^2 256 FLOP in 512 us: 4 TFLOP/s.
  d.tables = {heads("1 8 8 8000 64 64 65536"), heads("1 8 8 1000 128 128 512")};
  Work work = attention(Stage::forward);
  work.seq = 8000;
  work.qk_dim = work.v_dim = 128;
  RateCache cache;
  const CostModel model(d, 8, cache);
  CHECK(model.kernel_time(work).count() == near(1.31072e11 / (4 * tera)));
  CHECK(model.extrapolations().size() == 1); // eight times the length of its only row
}

TEST_CASE("The factors of another device's table multiply its rates, each as it is now") {
  Device d = device();
  KernelTable other = *d.tables.front();
  other.rate_factors = {0, 1};
  d.tables = {std::make_shared<const KernelTable>(other)};
  d.rate_factors = {number(2), number(1.5)};
  RateCache cache; // shared by the runs that vary coefficients
  const CostModel model(d, 8, cache);
  const Work work = matmul(1024, 1024, 1024);
  const double usual = seconds(device(), work);
  CHECK(model.kernel_time(work).count() == near(usual / 3));
  d.rate_factors[1] = number(3);
  CHECK(model.kernel_time(work).count() == near(usual / 6));
}

TEST_CASE("A repeated look-up reports its extrapolation in every model that uses it") {
  const Device d = device();
  RateCache cache;
  const CostModel first(d, 8, cache);
  const CostModel second(d, 8, cache);
  for (const CostModel* model : {&first, &second}) {
    static_cast<void>(model->kernel_time(matmul(100'000, 1024, 1024)));
    CHECK(model->extrapolations() == std::set<std::string>{"product of m=100000 n=1024 k=1024"});
  }
}

// Tables of all stages name a row after the forward product: m rows per group, n, k.
TEST_CASE("Grouped backward products are looked up under their forward sizes") {
  for (const Stage stage : {Stage::forward, Stage::dgrad, Stage::wgrad}) {
    const std::string name = stage == Stage::forward ? "forward"
                             : stage == Stage::dgrad ? "dgrad"
                                                     : "wgrad";
    Diagnostics diagnostics;
    Device d = device();
    d.tables = {std::make_shared<const KernelTable>(KernelTable::read(
        parse_yaml("kind: kernel_table\nop: grouped_matmul\ndtype: bf16\nstage: " + name +
                       "\ndevice: d\nprovenance: measured\nsource: {title: t}\n"
                       "columns: [groups, m, n, k, us]\nrows: |\n"
                       "  4 16384 16 1024 2147.483648\n",
                   "t.yaml"),
        diagnostics))};
    CHECK(report_text(diagnostics) == "");
    // forward [m, k] x [k, n]; dgrad [m, n] x [n, k]; wgrad [n, m] x [m, k]
    const Work work = stage == Stage::forward ? matmul(16384, 16, 1024, 4, stage)
                      : stage == Stage::dgrad ? matmul(16384, 1024, 16, 4, stage)
                                              : matmul(16, 1024, 16384, 4, stage);
    RateCache cache;
    const CostModel model(d, 8, cache);
    // 2 4 16384 16 1024 FLOP in 2147.483648 us: 1 TFLOP/s.
    CHECK(model.kernel_time(work).count() == near(2147.483648e-6));
    CHECK(model.extrapolations().empty()); // the sizes in another order lie far outside
  }
}

TEST_CASE("Work without a table is refused in words") {
  Device d = device();
  d.tables = {table("matmul", "forward", 1)};
  const auto message = [&](const Work& work) -> std::string {
    try {
      static_cast<void>(seconds(d, work));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message(matmul(8, 16, 32)) == "");
  CHECK(message(matmul(8, 16, 32, 4)) ==
        "error: hardware 'plain' has no measured table for 4 grouped product of m=8 n=16 k=32");
  CHECK(message(matmul(8, 16, 32, 1, Stage::wgrad)) ==
        "error: hardware 'plain' has no measured table for product of m=8 n=16 k=32");
  CHECK(message(attention(Stage::forward)) ==
        "error: hardware 'plain' has no measured table for attention of 1 x 8 heads of 64 and 64 "
        "on 1000 tokens");
  Work fp8 = matmul(8, 16, 32);
  fp8.type = DataType::fp8;
  CHECK(message(fp8) ==
        "error: hardware 'plain' has no measured table for product of m=8 n=16 k=32");
}

// Each pair differs in one property that decides about the table or its answer.
TEST_CASE("A cache keeps work apart that differs in type or in the sharing of heads") {
  Device d = device();
  RateCache cache;
  const CostModel model(d, 8, cache);
  static_cast<void>(model.kernel_time(matmul(8, 16, 32)));
  Work fp8 = matmul(8, 16, 32);
  fp8.type = DataType::fp8; // has no table
  CHECK_THROWS_AS(static_cast<void>(model.kernel_time(fp8)), InputError);

  Work four = attention(Stage::forward); // 2 sequences x 8 heads, a ratio of 1
  four.batch = 2;
  Work sixteen = four; // 1 x 16 heads with the same key/value heads, a ratio of 2
  sixteen.batch = 1;
  sixteen.heads = 16;
  four.kv_heads = sixteen.kv_heads = 2; // 4 beyond the table's 1, and 8
  const RateCache::Entry& first = cache.look_up(d, four);
  const RateCache::Entry& second = cache.look_up(d, sixteen);
  CHECK(&first != &second);
}

TEST_CASE("A varied shape runs at its factor, in all three stages, and no other does") {
  Device d = device();
  RateCache cache;
  CostModel model(d, 8, cache);
  model.vary_shape(product_shape(matmul(1000, 2000, 500)), 0.5);
  const double plain = 3e-6 + 2e9 / tera;
  const double slow = 3e-6 + 2e9 / (0.5 * tera);
  CHECK(model.kernel_time(matmul(1000, 2000, 500)).count() == doctest::Approx(slow));
  CHECK(model.kernel_time(matmul(1000, 500, 2000, 1, Stage::dgrad)).count() ==
        doctest::Approx(slow));
  CHECK(model.kernel_time(matmul(2000, 500, 1000, 1, Stage::wgrad)).count() ==
        doctest::Approx(slow));
  CHECK(model.kernel_time(matmul(1000, 1000, 1000)).count() == doctest::Approx(plain));
  // Neither a grouped product of the same sizes, at 8 TFLOP/s, nor attention.
  CHECK(model.kernel_time(matmul(1000, 2000, 500, 4)).count() == near(8e9 / (8 * tera)));
  CHECK(model.kernel_time(attention(Stage::forward)).count() == near(1.024e9 / (4 * tera)));
}

TEST_CASE("A product shape is its sizes without their order, and has a name") {
  const ProductShape shape = product_shape(matmul(4096, 512, 1024));
  CHECK(shape == ProductShape{1, 512, 1024, 4096});
  CHECK(shape_name(shape) == "512 x 1024 x 4096");
  // The number of groups stays in front, even where it is the largest.
  CHECK(product_shape(matmul(7, 5, 6, 100)) == ProductShape{100, 5, 6, 7});
  CHECK(shape_name(product_shape(matmul(7, 5, 6, 100))) == "100 of 5 x 6 x 7");
}

TEST_CASE("A collective is not a kernel") {
  CHECK_THROWS_AS(seconds(device(), collective(WorkKind::all_gather, 8)), std::logic_error);
}

// p = 4 of 4 in one domain: up (p - 1) / p = 3/4 over the efficiency of each kind.
TEST_CASE("A collective inside one domain loads the scale-up link alone") {
  check_cost(cost_of(collective(WorkKind::all_gather, 4), 8), 1e6, 0.75 / 0.8, 0, 0, 0, 10e-6);
  check_cost(cost_of(collective(WorkKind::reduce_scatter, 4), 8), 1e6, 0.75 / 0.5, 0, 0, 0, 10e-6);
  // All-to-all: each sends (p - 1) / g = 3/4 of what it holds.
  check_cost(cost_of(collective(WorkKind::all_to_all, 4), 8), 1e6, 0.75 / 0.4, 0, 0, 0, 10e-6);
  // Every second GPU of a domain of eight: still four inside.
  check_cost(cost_of(collective(WorkKind::all_gather, 4, 2), 8), 1e6, 0.75 / 0.8, 0, 0, 0, 10e-6);
}

// 16 GPUs in 2 domains of 8: up 7/8; out (d - 1) / (d p) = 1/16, over efficiency 0.9.
TEST_CASE("A gather over two domains also fetches the counterparts' shards") {
  check_cost(cost_of(collective(WorkKind::all_gather, 16), 16), 1e6, 0.875 / 0.8, 0.0625 / 0.9, 0,
             0, 30e-6);
  check_cost(cost_of(collective(WorkKind::reduce_scatter, 16), 16), 1e6, 0.875 / 0.5, 0.0625 / 0.9,
             0, 0, 30e-6);
}

// (p - 1) / g = 7/16 inside, (g - p) / g = 8/16 outside.
TEST_CASE("An all-to-all over two domains sends half of its bytes out") {
  check_cost(cost_of(collective(WorkKind::all_to_all, 16), 16), 1e6, 0.4375 / 0.4, 0.5 / 0.9, 0, 0,
             30e-6);
}

// Every fourth of 32 GPUs: 2 in each of 4 domains of 8. up 1/2, out 3 / (4 2) = 3/8.
TEST_CASE("A strided group has as many ranks per domain as its stride lets in") {
  check_cost(cost_of(collective(WorkKind::all_gather, 8, 4), 32), 1e6, 0.5 / 0.8, 0.375 / 0.9, 0, 0,
             30e-6);
}

// Every 8th and every 16th GPU: nobody else in the domain. out (d - 1) / d = 3/4.
TEST_CASE("A group whose stride leaves the domain uses the network alone") {
  for (const std::int64_t stride : {8, 16}) {
    CAPTURE(stride);
    check_cost(cost_of(collective(WorkKind::all_gather, 4, stride), 4 * stride), 1e6, 0, 0.75 / 0.9,
               0, 0, 30e-6);
    check_cost(cost_of(collective(WorkKind::all_to_all, 4, stride), 4 * stride), 1e6, 0, 0.75 / 0.9,
               0, 0, 30e-6);
  }
}

// 12 GPUs need 2 domains of 8 and sit 6 in each: up 5/6, out 1 / (2 6).
TEST_CASE("GPUs fill the domains evenly") {
  check_cost(cost_of(collective(WorkKind::all_gather, 12), 12), 1e6, 5.0 / 6 / 0.8, 1.0 / 12 / 0.9,
             0, 0, 30e-6);
}

TEST_CASE("A group of one and an empty collective cost nothing") {
  check_cost(cost_of(collective(WorkKind::all_gather, 1), 8), 0, 0, 0, 0, 0, 0);
  check_cost(cost_of(collective(WorkKind::all_to_all, 8, 1, 0), 8), 0, 0, 0, 0, 0, 0);
}

// As the gather over two domains, out = 1/16 of the bytes on the NIC, in and out of host
// memory: 2/16 of 1e6 on the pool. That is the flow's unit, so the amount is 125000 and
// the other weights are 8 times as large.
TEST_CASE("A NIC behind the CPU loads the host pool twice, one byte of it per unit") {
  check_cost(cost_of(collective(WorkKind::all_gather, 16), 16, NicPath::host), 125'000,
             0.875 / 0.8 * 8, 0.0625 / 0.9 * 8, 1, 0, 30e-6);
  // Inside a domain the NIC is idle.
  check_cost(cost_of(collective(WorkKind::all_gather, 4), 8, NicPath::host), 1e6, 0.75 / 0.8, 0, 0,
             0, 10e-6);
}

// One direction each of the GPU's link: 1/16 of 1e6, so 62500 units and 16 times the weights.
TEST_CASE("A NIC beside the GPU loads each direction of its link once") {
  check_cost(cost_of(collective(WorkKind::all_gather, 16), 16, NicPath::gpu_link), 62'500,
             0.875 / 0.8 * 16, 0.0625 / 0.9 * 16, 0, 1, 30e-6);
  // 8/16 of an all-to-all leaves the domain.
  check_cost(cost_of(collective(WorkKind::all_to_all, 16), 16, NicPath::gpu_link), 500'000,
             0.4375 / 0.4 * 2, 0.5 / 0.9 * 2, 0, 1, 30e-6);
}
