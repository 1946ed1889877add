// Every model of the catalogue against what others count for it, each by its own rule,
// and against the trace that is built from it.
#include "tests/support/traces.hpp"
#include "workloads/model_counts.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

// Counts of parameters are whole numbers; a published one without rounding is exact.
void check_count(const char* what, const PublishedCount& published, double count) {
  CAPTURE(what);
  CAPTURE(count);
  CAPTURE(published.value);
  CHECK(published.agrees(count));
}

double traced_flops(const StepTrace& trace) {
  double flops = 0;
  for (const LayerBlock& block : trace.blocks) {
    for (std::int64_t layer = 0; layer < block.layers; ++layer) {
      for (const Op& op : trace.kinds[block.kind_of(layer)].ops) {
        flops += op.work.flops().value();
      }
    }
  }
  return flops;
}

} // namespace

TEST_CASE("Every model of the catalogue has the parameters that are published for it") {
  for (const std::string& name : Catalog({"."}).names(CatalogKind::model)) {
    CAPTURE(name);
    const ModelSpec model = catalog_model(name);
    const ParameterCount count = count_parameters(model);
    REQUIRE(model.published_parameters.has_value());
    check_count("parameters", *model.published_parameters, static_cast<double>(count.total));
    if (model.published_active_parameters) {
      check_count("active", *model.published_active_parameters, static_cast<double>(count.active));
    }
  }
}

TEST_CASE("Models of the catalogue have the FLOPs per token that are published for them") {
  int published = 0;
  for (const std::string& name : Catalog({"."}).names(CatalogKind::model)) {
    CAPTURE(name);
    const ModelSpec model = catalog_model(name);
    if (model.published_flops) {
      const PublishedFlops& flops = *model.published_flops;
      check_count("FLOPs", flops.per_token,
                  flops_per_token(model, flops.sequence, flops.convention).total().value());
      CHECK(flops.per_token.half_digit < 0.005 * flops.per_token.value); // says something
      ++published;
    }
  }
  CHECK(published >= 13);
}

// Forward is a third of forward and backward in both counts.
TEST_CASE("The trace of every model holds its parameters and does its FLOPs") {
  const FrameworkSpec framework = catalog_framework("maxtext");
  for (const std::string& name : Catalog({"."}).names(CatalogKind::model)) {
    CAPTURE(name);
    const ModelSpec model = catalog_model(name);
    BatchSpec batch;
    batch.sequence = 2048;
    const StepTrace trace = build_trace(model, {1, 1, 1}, batch, framework, DataType::bf16);
    CHECK(trace.sharded_parameters[0] + trace.sharded_parameters[1] ==
          static_cast<double>(count_parameters(model).total));
    CHECK(3 * traced_flops(trace) / 2048 ==
          doctest::Approx(flops_per_token(model, 2048).total().value()).epsilon(1e-12));
  }
}
