// FLOPs, parameters and bytes of the committed models against figures worked out
// by hand. The formulas are MaxText's: github.com/AI-Hypercomputer/maxtext at
// e591f30cb, src/maxtext/utils/maxtext_utils.py. The sizes behind the figures are
// those of the models' own publications, written out in the comments:
//
//   e hidden, n query heads, n_kv key/value heads, h head size, L layers, V vocabulary,
//   S sequence, T tokens; latent attention: r_q and r_kv ranks, d_nope + d_rope and
//   d_v sizes of a head; E experts of width w, k of them and s shared per token.
#include "tests/support/traces.hpp"
#include "workloads/model_counts.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace spillway;

namespace {

const char* const latent_moe = "deepseek-v3-671b"; // e 7168, n 128, 61 layers, 3 of them dense
const char* const dense = "llama-3.1-405b";        // e 16384, n 128, n_kv 8, 126 layers
const char* const grouped_moe = "qwen3-30b-a3b";   // e 2048, n 32, n_kv 4, 48 layers

// Equal to a figure printed with a step of `last_digit` in its last place: a
// correctly rounded figure is at most half a step away from the exact value.
bool prints_as(double exact, double printed, double last_digit) {
  return std::abs(exact - printed) <= 0.5 * last_digit;
}

void check_flops(const std::string& name, std::int64_t sequence, double weights, double attention,
                 double total) {
  CAPTURE(name);
  CAPTURE(sequence);
  const ModelFlops flops = flops_per_token(catalog_model(name), sequence);
  CAPTURE(flops.weights.value());
  CAPTURE(flops.attention.value());
  CHECK(prints_as(flops.weights.value() / 1e9, weights, 0.001));
  CHECK(prints_as(flops.attention.value() / 1e9, attention, 0.001));
  CHECK(prints_as(flops.total().value() / 1e9, total, 0.001));
}

StepTrace trace_of(const std::string& name, std::int64_t batch, std::int64_t sequence,
                   std::int64_t expert = 1) {
  BatchSpec spec;
  spec.micro = batch;
  spec.sequence = sequence;
  return build_trace(catalog_model(name), {expert, 1, expert}, spec, catalog_framework("maxtext"),
                     DataType::bf16);
}

// Forward MFLOP per token of the named operations together.
double mflop(const StepTrace& trace, const std::string& kind,
             const std::vector<std::string>& operations) {
  double flops = 0;
  for (const std::string& operation : operations) {
    flops += named(named(trace.kinds, kind).ops, operation).work.flops().value();
  }
  return flops / static_cast<double>(trace.tokens) / 1e6;
}

std::int64_t bytes_of(const StepTrace& trace, const std::string& kind, const std::string& tensor) {
  return named(named(trace.kinds, kind).tensors, tensor).bytes.count();
}

struct NamedBytes {
  const char* tensor;
  std::int64_t per_token;
};

void check_bytes(const std::string& model, const std::string& kind,
                 const std::vector<NamedBytes>& expected, std::int64_t sum) {
  const StepTrace trace = trace_of(model, 1, 4096);
  std::int64_t total = 0;
  for (const NamedBytes& entry : expected) {
    CAPTURE(model);
    CAPTURE(entry.tensor);
    CHECK(bytes_of(trace, kind, entry.tensor) == 4096 * entry.per_token);
    total += bytes_of(trace, kind, entry.tensor);
  }
  CHECK(total == 4096 * sum);
}

} // namespace

// Weights: 3 (L (query + key/value + output) + 3 dense FFN + 58 MoE + head), attention:
// 3 L S n (d_nope + d_rope + d_v), with the forward terms per token
//   query       2 (e r_q + r_q n (d_nope + d_rope)) = 2 (7168 1536 + 1536 128 192) =  97517568
//   key/value   2 (e (r_kv + d_rope) + r_kv n (d_nope + d_v))
//                                       = 2 (7168 576 + 512 128 256)               =  41811968
//   output      2 n d_v e = 2 128 128 7168                                         = 234881024
//   dense FFN   6 e 18432                                                          = 792723456
//   MoE         2 e E + (s + k) 6 e w = 2 7168 256 + 9 6 7168 2048                 = 796393472
//   head        2 e V = 2 7168 129280                                              = 1853358080
// that is 219.7476 G, and 3 61 S 128 320 = 30.7023 G at S 4096, twice that at 8192.
TEST_CASE("The latent-attention MoE model has MaxText's FLOPs per token") {
  check_flops(latent_moe, 4096, 219.748, 30.702, 250.450);
  check_flops(latent_moe, 8192, 219.748, 61.405, 281.152);
}

// Weights: 3 (L (2 e (n + 2 n_kv) h + 2 n h e + 6 e 53248) + 2 e V)
//   = 3 (126 (603979776 + 536870912 + 5234491392) + 4202692608)   = 2422.4874 G
// Attention: 3 L 2 S n h = 3 126 2 4096 16384                     =   50.7343 G
TEST_CASE("The dense model has MaxText's FLOPs per token") {
  check_flops(dense, 4096, 2422.487, 50.734, 2473.222);
  check_flops(dense, 8192, 2422.487, 101.469, 2523.956);
}

// Weights: 3 (L (2 e (n + 2 n_kv) h + 2 n h e + 2 e E + k 6 e w) + 2 e V)
//   = 3 (48 (20971520 + 16777216 + 524288 + 75497472) + 622329856) = 18.2499 G
// Attention: 3 L 2 S n h = 3 48 2 4096 4096                        =  4.8318 G
TEST_CASE("The grouped-query MoE model has MaxText's FLOPs per token") {
  check_flops(grouped_moe, 4096, 18.250, 4.832, 23.082);
  check_flops(grouped_moe, 8192, 18.250, 9.664, 27.914);
}

// The terms above, from the operations of the trace and to the digit printed there.
TEST_CASE("Operations of the latent-attention MoE model add up to the terms of the formulas") {
  const StepTrace trace = trace_of(latent_moe, 2, 4096, 8);
  for (const char* kind : {"dense", "moe"}) {
    CAPTURE(kind);
    CHECK(prints_as(mflop(trace, kind, {"query_down", "query_up"}), 97.5, 0.1));
    CHECK(prints_as(mflop(trace, kind, {"kv_down", "kv_up"}), 41.8, 0.1));
    // S n (d_nope + d_rope + d_v) = 4096 128 320
    CHECK(prints_as(mflop(trace, kind, {"attention"}), 167.8, 0.1));
    CHECK(prints_as(mflop(trace, kind, {"out_proj"}), 234.9, 0.1));
  }
  CHECK(prints_as(mflop(trace, "dense", {"mlp gate", "mlp up", "mlp down"}), 792.7, 0.1));
  CHECK(prints_as(mflop(trace, "moe", {"router"}), 3.7, 0.1));
  CHECK(prints_as(mflop(trace, "moe",
                        {"shared expert gate", "shared expert up", "shared expert down",
                         "expert gate", "expert up", "expert down"}),
                  792.7, 0.1));
  CHECK(prints_as(mflop(trace, "head", {"head"}), 1853, 1));
}

// 2 S n h = 2 4096 128 128 for attention, the rest as above.
TEST_CASE("Operations of the dense model add up to the terms of the formulas") {
  const StepTrace trace = trace_of(dense, 1, 4096);
  CHECK(prints_as(mflop(trace, "dense", {"query_proj", "key_proj", "value_proj"}), 604.0, 0.1));
  CHECK(prints_as(mflop(trace, "dense", {"attention"}), 134.2, 0.1));
  CHECK(prints_as(mflop(trace, "dense", {"out_proj"}), 536.9, 0.1));
  CHECK(prints_as(mflop(trace, "dense", {"mlp gate", "mlp up", "mlp down"}), 5234.5, 0.1));
  CHECK(prints_as(mflop(trace, "head", {"head"}), 4203, 1));
}

// 2 S n h = 2 4096 32 128 for attention, the rest as above.
TEST_CASE("Operations of the grouped-query MoE model add up to the terms of the formulas") {
  const StepTrace trace = trace_of(grouped_moe, 4, 4096, 4);
  CHECK(prints_as(mflop(trace, "moe", {"query_proj", "key_proj", "value_proj"}), 21.0, 0.1));
  CHECK(prints_as(mflop(trace, "moe", {"attention"}), 33.6, 0.1));
  CHECK(prints_as(mflop(trace, "moe", {"out_proj"}), 16.8, 0.1));
  CHECK(prints_as(mflop(trace, "moe", {"router"}), 0.52, 0.01));
  CHECK(prints_as(mflop(trace, "moe", {"expert gate", "expert up", "expert down"}), 75.5, 0.1));
  CHECK(prints_as(mflop(trace, "head", {"head"}), 622, 1));
}

// Attention per layer, half the forward FLOPs per token:
//   (97517568 + 41811968 + 234881024) / 2                   = 187105280, norms 1536 + 512
// MoE, 256 + 1 experts, the router and its bias:
//   257 3 7168 2048 + 7168 256 + 256 = 11318329344 + 1835008 + 256
// Total: 61 (187107328 + 2 7168) + 3 3 7168 18432 + 58 11320164608 + 2 129280 7168 + 7168
//   = 671026419200
TEST_CASE("The latent-attention MoE model has 671.0 billion parameters") {
  const ParameterCount count = count_parameters(catalog_model(latent_moe));
  CHECK(count.attention == 187'107'328);
  CHECK(count.dense_ffn == 396'361'728);
  CHECK(count.routed_experts + count.shared_and_router == 11'320'164'608);
  CHECK(count.shared_and_router == 44'040'192 + 1'835'008 + 256);
  CHECK(count.embedding == 926'679'040);
  CHECK(count.total == 671'026'419'200);
  CHECK(prints_as(static_cast<double>(count.attention) / 1e6, 187.1, 0.1));
  CHECK(prints_as(static_cast<double>(count.total) / 1e9, 671.0, 0.1));
}

// 126 (16384 (128 + 2 8) 128 + 16384 16384 + 3 16384 53248) + 2 128256 16384
//   = 126 3187671040 + 4202692608 = 405849243648, and the norms, two per layer and a last
// one, of 16384 each: 405853388800.
TEST_CASE("The dense model has 405.9 billion parameters") {
  const ParameterCount count = count_parameters(catalog_model(dense));
  CHECK(count.attention == 301'989'888 + 268'435'456);
  CHECK(count.dense_ffn == 2'617'245'696);
  CHECK(count.routed_experts == 0);
  CHECK(count.shared_and_router == 0);
  CHECK(count.norms == 2 * 16384);
  CHECK(count.total == 405'853'388'800);
  CHECK(prints_as(static_cast<double>(count.total) / 1e9, 405.9, 0.1));
}

// 48 (2048 40 128 + 4096 2048 + 128 3 2048 768 + 2048 128) + 2 151936 2048
//   = 48 (10485760 + 8388608 + 603979776 + 262144) + 622329856 = 30531911680; norms:
// 48 (2 128 + 2 2048) + 2048 = 210944
TEST_CASE("The grouped-query MoE model has 30.5 billion parameters") {
  const ParameterCount count = count_parameters(catalog_model(grouped_moe));
  CHECK(count.attention == 10'485'760 + 8'388'608 + 2 * 128);
  CHECK(count.dense_ffn == 0);
  CHECK(count.routed_experts == 603'979'776);
  CHECK(count.shared_and_router == 262'144);
  CHECK(count.total == 30'532'122'624);
  CHECK(prints_as(static_cast<double>(count.total) / 1e9, 30.5, 0.1));
}

// Two bytes per element; the trailing shapes after (batch, sequence) are
//   input, out_proj 7168; query, key 128 x 192; value, context 128 x 128;
//   routed experts: 8 rows per token of 2048, 2048 and 7168; ranks 1536 and 512 + 64;
//   shared expert 2048, 2048 and 7168.
TEST_CASE("Named tensors of the latent-attention MoE layer have the bytes of their shapes") {
  check_bytes(latent_moe, "moe",
              {{"decoder_layer_input", 14336},
               {"query_proj", 49152},
               {"key_proj", 49152},
               {"value_proj", 32768},
               {"context", 32768},
               {"out_proj", 14336},
               {"expert gate", 32768},
               {"expert up", 32768},
               {"expert down", 114688},
               {"query_wa_proj", 3072},
               {"kv_wa_proj", 1152},
               {"shared expert gate", 4096},
               {"shared expert up", 4096},
               {"shared expert down", 14336}},
              399'488);
  // The normed ranks: 1536 and, without the rotary part, 512.
  const StepTrace trace = trace_of(latent_moe, 1, 4096);
  CHECK(bytes_of(trace, "moe", "mla_q") == 4096 * 3072);
  CHECK(bytes_of(trace, "moe", "mla_kv") == 4096 * 1024);
}

// input, query (128 x 128), context, out_proj, down 16384; key, value 8 x 128; 53248.
TEST_CASE("Named tensors of the dense layer have the bytes of their shapes") {
  check_bytes(dense, "dense",
              {{"decoder_layer_input", 32768},
               {"query_proj", 32768},
               {"key_proj", 2048},
               {"value_proj", 2048},
               {"context", 32768},
               {"out_proj", 32768},
               {"mlp gate", 106496},
               {"mlp up", 106496},
               {"mlp down", 32768}},
              380'928);
}

// input, out_proj 2048; query, context 32 x 128; key, value 4 x 128; eight rows per
// token of 768, 768 and 2048.
TEST_CASE("Named tensors of the grouped-query MoE layer have the bytes of their shapes") {
  check_bytes(grouped_moe, "moe",
              {{"decoder_layer_input", 4096},
               {"query_proj", 8192},
               {"key_proj", 1024},
               {"value_proj", 1024},
               {"context", 8192},
               {"out_proj", 4096},
               {"expert gate", 12288},
               {"expert up", 12288},
               {"expert down", 32768}},
              83'968);
}

// 8 x 4096 = 32768 tokens times the bytes per token above, in GB of three decimals. The
// gate of a dense layer is 32768 x 18432 x 2. How the experts are spread over GPUs
// changes none of it: every GPU holds as many routed rows as it sends away.
TEST_CASE("A micro-batch of 8 x 4096 tokens has the gigabytes that its shapes give") {
  for (const std::int64_t expert : {1, 8}) {
    CAPTURE(expert);
    const StepTrace trace = trace_of(latent_moe, 8, 4096, expert);
    const auto gb = [&](const std::string& kind, const std::string& tensor) {
      return static_cast<double>(bytes_of(trace, kind, tensor)) / 1e9;
    };
    CHECK(prints_as(gb("moe", "query_proj"), 1.611, 0.001));
    CHECK(prints_as(gb("moe", "key_proj"), 1.611, 0.001));
    CHECK(prints_as(gb("moe", "value_proj"), 1.074, 0.001));
    CHECK(prints_as(gb("moe", "context"), 1.074, 0.001));
    CHECK(prints_as(gb("moe", "expert gate"), 1.074, 0.001));
    CHECK(prints_as(gb("moe", "expert up"), 1.074, 0.001));
    CHECK(prints_as(gb("moe", "expert down"), 3.758, 0.001));
    CHECK(prints_as(gb("moe", "decoder_layer_input"), 0.470, 0.001));
    CHECK(prints_as(gb("dense", "mlp gate"), 1.208, 0.001));
  }
}
